// RUN: qmlir-opt --npu-tile --elide-weights --split-input-file %s | filecheck %s

// Heads: a transpose that only a product reads is a view, one that only reads a product is the order of its rows. The
// keys [positions, heads, channels] are the second matrix as their rows lie; the values are arranged transposed.
builtin.module attributes {npu.device = "npu-transformer"} {
  func.func @main(%q: tensor<1x8x2x4xi8>, %k: tensor<1x8x2x4xi8>) -> (tensor<1x2x8x8xi8>, tensor<1x8x2x4xi8>) {
    %qh = npu.layer "q" (%0 = %q : tensor<1x8x2x4xi8>) -> (tensor<1x2x8x4xi8>) {
      %1 = nn.transpose %0 {permutation = array<i64: 0, 2, 1, 3>} : tensor<1x8x2x4xi8> -> tensor<1x2x8x4xi8>
      npu.yield %1 : tensor<1x2x8x4xi8>
    }
    %kh = npu.layer "k" (%0 = %k : tensor<1x8x2x4xi8>) -> (tensor<1x2x4x8xi8>) {
      %1 = nn.transpose %0 {permutation = array<i64: 0, 2, 3, 1>} : tensor<1x8x2x4xi8> -> tensor<1x2x4x8xi8>
      npu.yield %1 : tensor<1x2x4x8xi8>
    }
    %s = npu.layer "scores" (%0 = %qh : tensor<1x2x8x4xi8>, %1 = %kh : tensor<1x2x4x8xi8>) -> (tensor<1x2x8x8xi8>) {
      %2 = qint.matmul %0, %1 {lhs_zero_point = 3 : i32, rhs_zero_point = -5 : i32} : tensor<1x2x8x4xi8>, tensor<1x2x4x8xi8> -> tensor<1x2x8x8xi32>
      %3 = qint.requantize %2 {multiplier = array<i32: 1073741824>, shift = array<i32: -3>, contract = "single", min = -128 : i32, max = 127 : i32} : tensor<1x2x8x8xi32> -> tensor<1x2x8x8xi8>
      npu.yield %3 : tensor<1x2x8x8xi8>
    }
    %vh = npu.layer "v" (%0 = %k : tensor<1x8x2x4xi8>) -> (tensor<1x2x8x4xi8>) {
      %1 = nn.transpose %0 {permutation = array<i64: 0, 2, 1, 3>} : tensor<1x8x2x4xi8> -> tensor<1x2x8x4xi8>
      npu.yield %1 : tensor<1x2x8x4xi8>
    }
    %c = npu.layer "context" (%0 = %s : tensor<1x2x8x8xi8>, %1 = %vh : tensor<1x2x8x4xi8>) -> (tensor<1x2x8x4xi8>) {
      %2 = qint.matmul %0, %1 : tensor<1x2x8x8xi8>, tensor<1x2x8x4xi8> -> tensor<1x2x8x4xi32>
      %3 = qint.requantize %2 {multiplier = array<i32: 1073741824>, shift = array<i32: -3>, contract = "single", min = -128 : i32, max = 127 : i32} : tensor<1x2x8x4xi32> -> tensor<1x2x8x4xi8>
      npu.yield %3 : tensor<1x2x8x4xi8>
    }
    %m = npu.layer "merged" (%0 = %c : tensor<1x2x8x4xi8>) -> (tensor<1x8x2x4xi8>) {
      %1 = nn.transpose %0 {permutation = array<i64: 0, 2, 1, 3>} : tensor<1x2x8x4xi8> -> tensor<1x8x2x4xi8>
      npu.yield %1 : tensor<1x8x2x4xi8>
    }
    func.return %s, %m : tensor<1x2x8x8xi8>, tensor<1x8x2x4xi8>
  }
}
// CHECK:      npu.layers = ["scores", "context"]
// CHECK:      %[[Q:.*]] = npu.buffer "dram" 64 : i64 {role = "ifm", tensor = "input0"
// CHECK:      %[[K:.*]] = npu.buffer "dram" 64 : i64 {role = "ifm", tensor = "input1"
// CHECK:      %[[S:.*]] = npu.buffer "dram" 128 : i64 {role = "ofm", tensor = "scores"
// CHECK:      npu.issue "load" "move" source = %[[K]][0] target = %[[KT:.*]][0] size = 4 rows = 8 planes = 1 source_row = 8
// CHECK:      npu.issue "arrange" "arrange" source = %[[KT]][0] target = %[[W:.*]][0] bits = 8 rows = 8 columns = 4 pitch = 4 transposed = 0
// CHECK:      npu.issue "load" "move" source = %[[Q]][0] target = %[[QT:.*]][0] size = 4 rows = 8 planes = 1 source_row = 8
// CHECK:      npu.issue "exec" "convolve" data = %[[QT]][0] weights = %[[W]][0] {{.*}} init = zero {{.*}} zero_point = 3 weight_zero_point = -5 rows = 8 columns = 1 channels = 4 {{.*}} out_channels = 8
// CHECK:      npu.issue "store" "move" source = %{{.*}}[0] target = %[[S]][0] size = 64
// CHECK:      npu.issue "load" "move" source = %[[K]][4] target = %{{.*}}[0] size = 4 rows = 8
// CHECK:      npu.issue "load" "move" source = %[[Q]][4] target = %{{.*}}[0] size = 4 rows = 8
// CHECK:      npu.issue "store" "move" source = %{{.*}}[0] target = %[[S]][64] size = 64
// CHECK:      mark" layer = 1
// CHECK:      %[[M:.*]] = npu.buffer "dram" 64 : i64 {role = "ofm", tensor = "context"
// CHECK:      npu.issue "arrange" "arrange" {{.*}} rows = 8 columns = 4 pitch = 4 transposed = 1
// CHECK:      npu.issue "exec" "convolve" {{.*}} channels = 8 {{.*}} out_channels = 4
// CHECK:      npu.issue "store" "move" source = %{{.*}}[0] target = %[[M]][0] size = 4 rows = 8 planes = 1 source_row = 4 source_plane = 0 target_row = 8
// CHECK:      npu.issue "store" "move" source = %{{.*}}[0] target = %[[M]][4] size = 4 rows = 8 planes = 1 source_row = 4 source_plane = 0 target_row = 8

// -----

// Copies: data whose channels do not stay next to each other, and a product that is read elsewhere, too.
builtin.module attributes {npu.device = "nmp"} {
  func.func @main(%x: tensor<4x8xi8>, %y: tensor<4x8xi8>) -> (tensor<8x8xi8>, tensor<8x8xi8>) {
    %t = npu.layer "turned" (%0 = %x : tensor<4x8xi8>) -> (tensor<8x4xi8>) {
      %1 = nn.transpose %0 {permutation = array<i64: 1, 0>} : tensor<4x8xi8> -> tensor<8x4xi8>
      npu.yield %1 : tensor<8x4xi8>
    }
    %p = npu.layer "product" (%0 = %t : tensor<8x4xi8>, %1 = %y : tensor<4x8xi8>) -> (tensor<8x8xi8>) {
      %2 = qint.matmul %0, %1 : tensor<8x4xi8>, tensor<4x8xi8> -> tensor<8x8xi32>
      %3 = qint.requantize %2 {multiplier = array<i32: 1073741824>, shift = array<i32: -3>, contract = "shift", min = -128 : i32, max = 127 : i32} : tensor<8x8xi32> -> tensor<8x8xi8>
      npu.yield %3 : tensor<8x8xi8>
    }
    %u = npu.layer "again" (%0 = %p : tensor<8x8xi8>) -> (tensor<8x8xi8>) {
      %1 = nn.transpose %0 {permutation = array<i64: 1, 0>} : tensor<8x8xi8> -> tensor<8x8xi8>
      npu.yield %1 : tensor<8x8xi8>
    }
    func.return %p, %u : tensor<8x8xi8>, tensor<8x8xi8>
  }
}
// CHECK:      npu.layers = ["turned", "product", "again"]
// CHECK:      npu.issue "post" "arrange" {{.*}} rows = 4 columns = 8 pitch = 8 transposed = 1
// CHECK:      mark" layer = 2
// CHECK:      npu.issue "store" "move"

// -----

// A transposed constant is copied, and read as data.
builtin.module attributes {npu.device = "npu-transformer"} {
  func.func @main(%x: tensor<2x4xi8>) -> tensor<2x2xi8> {
    %t = npu.layer "turned" () -> (tensor<4x2xi8>) {
      %0 = nn.constant <tensor<2x4xi8>, [1, 2, 3, 4, 5, 6, 7, 8]> : tensor<2x4xi8>
      %1 = nn.transpose %0 {permutation = array<i64: 1, 0>} : tensor<2x4xi8> -> tensor<4x2xi8>
      npu.yield %1 : tensor<4x2xi8>
    }
    %p = npu.layer "product" (%0 = %x : tensor<2x4xi8>, %1 = %t : tensor<4x2xi8>) -> (tensor<2x2xi8>) {
      %2 = qint.matmul %0, %1 : tensor<2x4xi8>, tensor<4x2xi8> -> tensor<2x2xi32>
      %3 = qint.requantize %2 {multiplier = array<i32: 1073741824>, shift = array<i32: -3>, contract = "single", min = -128 : i32, max = 127 : i32} : tensor<2x2xi32> -> tensor<2x2xi8>
      npu.yield %3 : tensor<2x2xi8>
    }
    func.return %p : tensor<2x2xi8>
  }
}
// CHECK:      npu.layers = ["turned", "product"]
// CHECK:      npu.issue "arrange" "arrange" {{.*}} rows = 4 columns = 2 pitch = 2 transposed = 1
