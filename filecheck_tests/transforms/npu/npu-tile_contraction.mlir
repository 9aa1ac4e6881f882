// RUN: qmlir-opt --npu-tile --elide-weights --split-input-file %s | filecheck %s

// Constants come first, so that they can come while the layer before still computes; then data, sums, what follows.
builtin.module attributes {npu.device = "nmp"} {
  func.func @main(%x: tensor<1x4x4x2xi8>) -> tensor<1x4x4x2xi8> {
    %y = "npu.layer"(%x) <{label = "conv"}> ({
    ^bb0(%a: tensor<1x4x4x2xi8>):
      %w = nn.constant <tensor<2x1x1x2xi8>, [1, 2, 3, 4]> : tensor<2x1x1x2xi8>
      %b = nn.constant <tensor<2xi32>, [5, 6]> : tensor<2xi32>
      %s = qint.conv2d %a, %w, %b : tensor<1x4x4x2xi8>, tensor<2x1x1x2xi8>, tensor<2xi32> -> tensor<1x4x4x2xi32>
      %r = qint.requantize %s {multiplier = array<i32: 1073741824>, shift = array<i32: -3>, contract = "shift", min = -128 : i32, max = 127 : i32} : tensor<1x4x4x2xi32> -> tensor<1x4x4x2xi8>
      npu.yield %r : tensor<1x4x4x2xi8>
    }) : (tensor<1x4x4x2xi8>) -> tensor<1x4x4x2xi8>
    func.return %y : tensor<1x4x4x2xi8>
  }
}

// CHECK:      %[[Y:.*]] = npu.buffer "dram" 32 : i64 {role = "ofm", tensor = "conv"
// CHECK:      %[[B:.*]] = npu.buffer "acc" 8 : i64 {role = "bias"}
// CHECK-NEXT: npu.issue "load" "move" source = %{{.*}}[0] target = %[[B]][0] size = 8
// Padded to a tile of 16 by 32.
// CHECK:      %[[W:.*]] = npu.buffer "wgt" 512 : i64 {role = "weights"}
// CHECK-NEXT: npu.issue "load" "move" source = %{{.*}}[0] target = %[[W]][0] size = 512
// CHECK-NEXT: %[[S:.*]] = npu.buffer "acc" 128 : i64 {role = "acc"}
// CHECK-NEXT: %[[X:.*]] = npu.buffer "act" 32 : i64 {role = "ifm"}
// CHECK-NEXT: npu.issue "load" "move" source = %{{.*}}[0] target = %[[X]][0] size = 32 rows = 1 planes = 1
// CHECK-NEXT: npu.issue "exec" "convolve" data = %[[X]][0] weights = %[[W]][0] bias = %[[B]][0] sums = %[[S]][0] init = bias data_bits = 8 weight_bits = 8 sum_bits = 32 bias_bits = 32 bias_shift = 0 zero_point = 0 weight_zero_point = 0 rows = 16 columns = 1 channels = 2 row_pitch = 2 pixel_pitch = 2 out_rows = 16 out_columns = 1
// CHECK-NEXT: %[[R:.*]] = npu.buffer "act" 32 : i64 {role = "ofm"}
// CHECK:      npu.issue "post" "set-context" step = requantize
// CHECK-NEXT: npu.issue "post" "post" source = %[[S]][0]
// CHECK-NEXT: npu.issue "store" "move" source = %[[R]][0] target = %[[Y]][0] size = 32

// -----

// Depthwise, without a bias, on a device that reads and writes tensors itself: only weights are brought.
builtin.module attributes {npu.device = "ethos-u55-like"} {
  func.func @main(%x: tensor<1x4x4x2xi8>) -> tensor<1x4x4x2xi8> {
    %y = "npu.layer"(%x) <{label = "dw"}> ({
    ^bb0(%a: tensor<1x4x4x2xi8>):
      %w = nn.constant <tensor<1x1x2x2xi8>, [1, 2, 3, 4]> : tensor<1x1x2x2xi8>
      %s = qint.depthwise_conv2d %a, %w {padding = array<i64: 0, 0, 1, 0>, zero_point = 7 : i32} : tensor<1x4x4x2xi8>, tensor<1x1x2x2xi8> -> tensor<1x4x4x2xi32>
      %r = qint.requantize %s {multiplier = array<i32: 1073741824>, shift = array<i32: -3>, contract = "single", min = -128 : i32, max = 127 : i32} : tensor<1x4x4x2xi32> -> tensor<1x4x4x2xi8>
      npu.yield %r : tensor<1x4x4x2xi8>
    }) : (tensor<1x4x4x2xi8>) -> tensor<1x4x4x2xi8>
    func.return %y : tensor<1x4x4x2xi8>
  }
}

// CHECK:      %[[X:.*]] = npu.buffer "sram" 32 : i64 {role = "ifm"
// CHECK:      %[[Y:.*]] = npu.buffer "sram" 32 : i64 {role = "ofm", tensor = "dw"
// CHECK:      npu.issue "dma" "move" source = %{{.*}}[0] target = %[[W:.*]][0] size = 4
// CHECK:      npu.issue "kernel" "convolve-depthwise" data = %[[X]][0] weights = %[[W]][0] bias = %[[S:.*]][0] sums = %[[S]][0] init = zero
// CHECK-SAME: zero_point = 7
// CHECK-SAME: top = 0 left = 1
// CHECK:      npu.issue "kernel" "post" source = %[[S]][0]
// CHECK-SAME: target = %[[Y]][0]
