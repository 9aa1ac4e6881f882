// RUN: qmlir-opt --npu-tile --split-input-file %s | filecheck %s

// Layers without a contraction on a device whose queues load, compute and store: bring in, work, take away.
builtin.module attributes {npu.device = "nmp"} {
  func.func @main(%x: tensor<1x8x8x16xi8>) -> tensor<1x4x4x16xi8> {
    %p = "npu.layer"(%x) <{label = "pool"}> ({
    ^bb0(%a: tensor<1x8x8x16xi8>):
      %m = qint.max_pool2d %a {window = array<i64: 2, 2>, strides = array<i64: 2, 2>} : tensor<1x8x8x16xi8> -> tensor<1x4x4x16xi8>
      npu.yield %m : tensor<1x4x4x16xi8>
    }) : (tensor<1x8x8x16xi8>) -> tensor<1x4x4x16xi8>
    %q = "npu.layer"(%p) <{label = "twice"}> ({
    ^bb0(%a: tensor<1x4x4x16xi8>):
      %s = qint.add %a, %a {multipliers = array<i64: 1073741824, 536870912>, shift = 30 : i32, min = -128 : i32, max = 127 : i32} : tensor<1x4x4x16xi8>, tensor<1x4x4x16xi8> -> tensor<1x4x4x16xi8>
      npu.yield %s : tensor<1x4x4x16xi8>
    }) : (tensor<1x4x4x16xi8>) -> tensor<1x4x4x16xi8>
    %t = "npu.layer"(%q) <{label = "turned"}> ({
    ^bb0(%a: tensor<1x4x4x16xi8>):
      %s = nn.transpose %a {permutation = array<i64: 0, 2, 1, 3>} : tensor<1x4x4x16xi8> -> tensor<1x4x4x16xi8>
      npu.yield %s : tensor<1x4x4x16xi8>
    }) : (tensor<1x4x4x16xi8>) -> tensor<1x4x4x16xi8>
    %h = "npu.host"(%t) <{label = "back"}> ({
    ^bb0(%a: tensor<1x4x4x16xi8>):
      %s = nn.transpose %a {permutation = array<i64: 0, 2, 1, 3>} : tensor<1x4x4x16xi8> -> tensor<1x4x4x16xi8>
      npu.yield %s : tensor<1x4x4x16xi8>
    }) : (tensor<1x4x4x16xi8>) -> tensor<1x4x4x16xi8>
    func.return %h : tensor<1x4x4x16xi8>
  }
}

// CHECK:      builtin.module attributes {npu.device = "nmp", npu.layers = ["pool", "twice", "turned", "back"]}
// CHECK:      func.func @main() {
// CHECK-NEXT:   %[[X:.*]] = npu.buffer "dram" 1024 : i64 {role = "ifm", tensor = "input0", port = #npu.port<"input", 0 : i64, "input0",
// CHECK-NEXT:   npu.issue "exec" "mark" layer = 0
// CHECK-NEXT:   %[[P:.*]] = npu.buffer "dram" 256 : i64 {role = "ofm", tensor = "pool"}
// CHECK-NEXT:   %[[IN:.*]] = npu.buffer "act" 1024 : i64 {role = "ifm"}
// CHECK-NEXT:   npu.issue "load" "move" source = %[[X]][0] target = %[[IN]][0] size = 1024
// CHECK-NEXT:   %[[OUT:.*]] = npu.buffer "act" 256 : i64 {role = "ofm"}
// CHECK-NEXT:   npu.issue "post" "pool" pooling = max bits = 8 source = %[[IN]][0] rows = 8 columns = 8 channels = 16
// CHECK-NEXT:   npu.issue "store" "move" source = %[[OUT]][0] target = %[[P]][0] size = 256
// CHECK:        npu.issue "post" "set-context" step = requantize
// CHECK-NEXT:   npu.issue "post" "arithmetic" operation = add
// CHECK:        npu.issue "exec" "mark" layer = 2
// CHECK:        npu.issue "load" "move" source = %{{.*}}[0] target = %[[T:.*]][0] size = 16 rows = 4 planes = 4 source_row = 64 source_plane = 16 target_row = 16 target_plane = 64
// CHECK-NEXT:   npu.issue "store" "move" source = %[[T]][0]
// CHECK:        npu.call "exec" @host_0(%{{.*}} : !npu.buffer) -> (%{{.*}} : !npu.buffer)
// CHECK-NEXT:   npu.issue "exec" "end" status = 0
// CHECK:      func.func private @host_0(%{{.*}}: tensor<1x4x4x16xi8>) -> tensor<1x4x4x16xi8> {

// -----

// One command reads and writes the tensors themselves where its queue does, and a copy is a pool of one element.
builtin.module attributes {npu.device = "ethos-u55-like"} {
  func.func @main(%x: tensor<1x4x4x16xi8>) -> tensor<1x4x4x16xi8> {
    %t = "npu.layer"(%x) <{label = "turned"}> ({
    ^bb0(%a: tensor<1x4x4x16xi8>):
      %s = nn.transpose %a {permutation = array<i64: 0, 2, 1, 3>} : tensor<1x4x4x16xi8> -> tensor<1x4x4x16xi8>
      npu.yield %s : tensor<1x4x4x16xi8>
    }) : (tensor<1x4x4x16xi8>) -> tensor<1x4x4x16xi8>
    func.return %t : tensor<1x4x4x16xi8>
  }
}

// CHECK:        %[[X:.*]] = npu.buffer "sram" 256 : i64 {role = "ifm"
// CHECK:        %[[T:.*]] = npu.buffer "sram" 256 : i64 {role = "ofm"
// CHECK-NEXT:   npu.issue "kernel" "pool" pooling = max bits = 8 source = %[[X]][0] rows = 4 columns = 4 channels = 16 row_pitch = 16 pixel_pitch = 64 target = %[[T]][0]
// CHECK-NEXT:   npu.issue "kernel" "end"

// -----

// Each image sums to a row of channels, which what follows brings to its scale.
builtin.module attributes {npu.device = "nmp"} {
  func.func @main(%x: tensor<1x8x8x16xi8>) -> tensor<1x1x1x16xi8> {
    %p = "npu.layer"(%x) <{label = "mean"}> ({
    ^bb0(%a: tensor<1x8x8x16xi8>):
      %s = qint.global_sum_pool %a : tensor<1x8x8x16xi8> -> tensor<1x1x1x16xi32>
      %y = qint.requantize %s {multiplier = array<i32: 1073741824>, shift = array<i32: -5>, contract = "shift", min = -128 : i32, max = 127 : i32} : tensor<1x1x1x16xi32> -> tensor<1x1x1x16xi8>
      npu.yield %y : tensor<1x1x1x16xi8>
    }) : (tensor<1x8x8x16xi8>) -> tensor<1x1x1x16xi8>
    func.return %p : tensor<1x1x1x16xi8>
  }
}

// CHECK:        %[[SUMS:.*]] = npu.buffer "acc" 64 : i64 {role = "acc"}
// CHECK:        npu.issue "post" "reduce" source = %{{.*}}[0] bits = 8 rows = 8 columns = 8 channels = 16 row_pitch = 128 pixel_pitch = 16 zero_point = 0 sums = %[[SUMS]][0] init = zero
// CHECK:        npu.issue "post" "set-context" step = requantize bits = 8 contract = 4
// CHECK-NEXT:   npu.issue "post" "post" source = %[[SUMS]][0] source_bits = 32

// -----

// A result that stays has an address; the layer before writes there, the layer behind reads it there, and no transfer.
builtin.module attributes {npu.device = "nmp"} {
  func.func @main(%x: tensor<1x4xi8>) -> tensor<1x4xi8> {
    %y = npu.layer "first" (%0 = %x : tensor<1x4xi8>) -> (tensor<1x4xi8>) attributes {stays = 262112 : i64, rest = {memory = "act", base = 0 : i64, bytes = 229376 : i64, roles = ["ifm"]}} {
      %1 = qint.requantize %0 {multiplier = array<i32: 1073741824>, shift = array<i32: -4>, contract = "shift", min = -128 : i32, max = 127 : i32} : tensor<1x4xi8> -> tensor<1x4xi8>
      npu.yield %1 : tensor<1x4xi8>
    }
    %z = npu.layer "second" (%0 = %y : tensor<1x4xi8>) -> (tensor<1x4xi8>) attributes {rest = {memory = "act", base = 0 : i64, bytes = 229376 : i64, roles = ["ofm"]}} {
      %1 = qint.requantize %0 {multiplier = array<i32: 1073741824>, shift = array<i32: -4>, contract = "shift", min = -128 : i32, max = 127 : i32} : tensor<1x4xi8> -> tensor<1x4xi8>
      npu.yield %1 : tensor<1x4xi8>
    }
    func.return %z : tensor<1x4xi8>
  }
}

// CHECK:      npu.rests = [{memory = "act", base = 0 : i64, bytes = 229376 : i64, roles = ["ifm"]}, {memory = "act", base = 0 : i64, bytes = 229376 : i64, roles = ["ofm"]}]
// CHECK:      %[[Y:.*]] = npu.buffer "act" 4 : i64 {role = "ofm", tensor = "first", address = 262112 : i64}
// CHECK:      npu.issue "load" "move" source = %{{.*}}[0] target = %[[X:.*]][0] size = 4
// CHECK:      npu.issue "post" "post" source = %[[X]][0] {{.*}} target = %[[Y]][0]
// CHECK-NEXT: npu.issue "exec" "mark" layer = 1
// CHECK-NOT:  "load" "move" source = %[[Y]]
// CHECK:      npu.issue "post" "post" ctx = 1 source = %[[Y]][0] {{.*}} target = %[[R:.*]][0]
// CHECK-NEXT: npu.issue "store" "move" source = %[[R]][0]
