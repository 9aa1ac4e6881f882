// RUN: qmlir-opt --npu-tile --split-input-file %s | filecheck %s

// Rows of an image are names for bytes that are there, and rows that layers compute are written where they belong.
builtin.module attributes {npu.device = "nmp"} {
  func.func @main(%x: tensor<1x4x4x16xi8>) -> tensor<1x4x4x16xi8> {
    %r = npu.layer "rows" (%0 = %x : tensor<1x4x4x16xi8>) -> (tensor<1x3x4x16xi8>) {
      %1 = nn.slice %0 {offsets = array<i64: 0, 1, 0, 0>, sizes = array<i64: 1, 3, 4, 16>, strides = array<i64: 1, 1, 1, 1>} : tensor<1x4x4x16xi8> -> tensor<1x3x4x16xi8>
      npu.yield %1 : tensor<1x3x4x16xi8>
    }
    %a = npu.layer "a" (%0 = %x : tensor<1x4x4x16xi8>) -> (tensor<1x1x4x16xi8>) {
      %1 = qint.max_pool2d %0 {window = array<i64: 4, 1>} : tensor<1x4x4x16xi8> -> tensor<1x1x4x16xi8>
      npu.yield %1 : tensor<1x1x4x16xi8>
    }
    %b = npu.layer "b" (%0 = %r : tensor<1x3x4x16xi8>) -> (tensor<1x3x4x16xi8>) {
      %1 = qint.max_pool2d %0 {window = array<i64: 1, 1>} : tensor<1x3x4x16xi8> -> tensor<1x3x4x16xi8>
      npu.yield %1 : tensor<1x3x4x16xi8>
    }
    %j = npu.layer "joined" (%0 = %a : tensor<1x1x4x16xi8>, %1 = %b : tensor<1x3x4x16xi8>) -> (tensor<1x4x4x16xi8>) {
      %2 = nn.concat %0, %1 {axis = 1 : i64} : tensor<1x1x4x16xi8>, tensor<1x3x4x16xi8> -> tensor<1x4x4x16xi8>
      npu.yield %2 : tensor<1x4x4x16xi8>
    }
    func.return %j : tensor<1x4x4x16xi8>
  }
}
// CHECK:      npu.layers = ["a", "b"]
// CHECK:      %[[X:.*]] = npu.buffer "dram" 256 : i64 {role = "ifm", tensor = "input0"
// CHECK:      %[[Y:.*]] = npu.buffer "dram" 256 : i64 {role = "ofm", tensor = "a", port = #npu.port<"output"
// CHECK:      npu.issue "store" "move" source = %{{.*}}[0] target = %[[Y]][0] size = 64
// CHECK:      npu.issue "load" "move" source = %[[X]][64] target = %{{.*}}[0] size = 192
// CHECK:      npu.issue "store" "move" source = %{{.*}}[0] target = %[[Y]][64] size = 192
// CHECK-NEXT: npu.issue "exec" "end"

// -----

// Copies: columns, which do not lie in one piece; rows that the host reads; what is joined and read elsewhere, too.
builtin.module attributes {npu.device = "nmp"} {
  func.func @main(%x: tensor<1x4x4x16xi8>) -> (tensor<1x4x2x16xi8>, tensor<1x4x4x16xi8>, tensor<1x8x4x16xi8>, tensor<1x4x4x16xi8>) {
    %c = npu.layer "columns" (%0 = %x : tensor<1x4x4x16xi8>) -> (tensor<1x4x2x16xi8>) {
      %1 = nn.slice %0 {offsets = array<i64: 0, 0, 1, 0>, sizes = array<i64: 1, 4, 2, 16>, strides = array<i64: 1, 1, 1, 1>} : tensor<1x4x4x16xi8> -> tensor<1x4x2x16xi8>
      npu.yield %1 : tensor<1x4x2x16xi8>
    }
    %r = npu.layer "rows" (%0 = %x : tensor<1x4x4x16xi8>) -> (tensor<1x2x4x16xi8>) {
      %1 = nn.slice %0 {offsets = array<i64: 0, 1, 0, 0>, sizes = array<i64: 1, 2, 4, 16>, strides = array<i64: 1, 1, 1, 1>} : tensor<1x4x4x16xi8> -> tensor<1x2x4x16xi8>
      npu.yield %1 : tensor<1x2x4x16xi8>
    }
    %h = npu.host "host" (%0 = %r : tensor<1x2x4x16xi8>) -> (tensor<1x4x4x16xi8>) because "" {
      %1 = nn.concat %0, %0 {axis = 1 : i64} : tensor<1x2x4x16xi8>, tensor<1x2x4x16xi8> -> tensor<1x4x4x16xi8>
      npu.yield %1 : tensor<1x4x4x16xi8>
    }
    %a = npu.layer "a" (%0 = %x : tensor<1x4x4x16xi8>) -> (tensor<1x4x4x16xi8>) {
      %1 = qint.max_pool2d %0 {window = array<i64: 1, 1>} : tensor<1x4x4x16xi8> -> tensor<1x4x4x16xi8>
      npu.yield %1 : tensor<1x4x4x16xi8>
    }
    %j = npu.layer "joined" (%0 = %a : tensor<1x4x4x16xi8>, %1 = %h : tensor<1x4x4x16xi8>) -> (tensor<1x8x4x16xi8>) {
      %2 = nn.concat %0, %1 {axis = 1 : i64} : tensor<1x4x4x16xi8>, tensor<1x4x4x16xi8> -> tensor<1x8x4x16xi8>
      npu.yield %2 : tensor<1x8x4x16xi8>
    }
    func.return %c, %h, %j, %a : tensor<1x4x2x16xi8>, tensor<1x4x4x16xi8>, tensor<1x8x4x16xi8>, tensor<1x4x4x16xi8>
  }
}
// CHECK:      npu.layers = ["columns", "rows", "host", "a", "joined"]
// CHECK:      mark" layer = 0
// CHECK:      npu.issue "store" "move" {{.*}} size = 128
// CHECK:      mark" layer = 1
// CHECK:      npu.issue "store" "move" {{.*}} size = 128
// CHECK:      mark" layer = 4
// CHECK:      npu.issue "store" "move"
// CHECK:      npu.issue "store" "move"

// -----

// A reshape of a constant is another name for the constant.
builtin.module attributes {npu.device = "nmp"} {
  func.func @main() -> tensor<2x2xi8> {
    %c = npu.layer "constant" () -> (tensor<2x2xi8>) {
      %0 = nn.constant <tensor<1x4xi8>, [1, 2, 3, 4]> : tensor<1x4xi8>
      %1 = nn.reshape %0 {shape = array<i64: 2, 2>} : tensor<1x4xi8> -> tensor<2x2xi8>
      npu.yield %1 : tensor<2x2xi8>
    }
    %t = npu.layer "turned" (%0 = %c : tensor<2x2xi8>) -> (tensor<2x2xi8>) {
      %1 = nn.transpose %0 {permutation = array<i64: 1, 0>} : tensor<2x2xi8> -> tensor<2x2xi8>
      npu.yield %1 : tensor<2x2xi8>
    }
    func.return %t : tensor<2x2xi8>
  }
}
// CHECK:      %[[C:.*]] = npu.buffer "dram" 4 : i64 {role = "ifm", contents =
// CHECK:      npu.issue "load" "move" source = %[[C]][0]
