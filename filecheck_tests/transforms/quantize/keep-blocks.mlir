// Layers of divided rows keep the integers, scales and offsets of their file's blocks where the precision holds them.

// RUN: qmlir-opt --keep-blocks %s | filecheck %s
// RUN: qmlir-opt --apply-policy="settings={activations=dynamic weight-precision=int4}" --divide-rows --keep-blocks %s | filecheck %s --check-prefix=BOTH
// RUN: qmlir-opt --quantize="activations=dynamic weight-precision=int4" %s | filecheck %s --check-prefix=WHOLE
// RUN: qmlir-opt --rotate=what=run-time --quantize="activations=dynamic weight-precision=int4 rotate=run-time" %s | filecheck %s --check-prefix=WHOLE
// RUN: qmlir-opt --quantize="activations=dynamic" %s | filecheck %s --check-prefix=BYTES

// CHECK-NOT: nn.blocked_fully_connected

// BOTH-LABEL: func.func @main
// BOTH: %[[Q:.*]] = nn.divide_rows %x
// BOTH: %[[W:.*]] = nn.constant <tensor<2x4xui4>, [0x0, 0xf, 0x3, 0x9, 0x8, 0x1, 0xf, 0x0]>
// BOTH: %[[S:.*]] = nn.constant <tensor<2x2xf32>, [0.5, 0.25, 0.125, -0.5]>
// BOTH-NEXT: %[[Z:.*]] = nn.constant <tensor<2x2xf32>, [8.0, 4.0, 1.0, 2.5]>
// BOTH-NEXT: nn.blocked_fully_connected %[[Q]], %[[W]], %[[S]], %[[Z]] {{.*}}qmlir.policy = {precision = "int8", schema = "symmetric", weight_precision = "int4"}, block = 2 : i64}
// BOTH: nn.multiply_rows

// WHOLE: nn.blocked_fully_connected {{.*}}"i8 activations, i32 results, u4 weights in blocks of 2"

// Weights of 8 bits have a scale for each row.
// BYTES: nn.fully_connected {{.*}}"i8 activations, i32 results, i8 weights per channel"
func.func @main(%x: tensor<3x4xf32>) -> tensor<3x2xf32> {
  calib.observe %x {name = "x", range = [-1.0, 1.0]} : tensor<3x4xf32>
  %w = nn.constant <tensor<2x4xf32>, [-4.0, 3.5, -0.25, 1.25, 0.875, 0.0, -6.25, 1.25]> {qmlir.levels = #qmlir.levels<affine, bits = 4, least = 0, size = 2, scales = #qmlir.weights<tensor<2x2xf32>, [0.5, 0.25, 0.125, -0.5]>, offsets = #qmlir.weights<tensor<2x2xf32>, [-4.0, -1.0, -0.125, 1.25]>>} : tensor<2x4xf32>
  %r = nn.fully_connected %x, %w {qmlir.name = #qmlir.name<nodes ["layer"], tensors ["r"]>} : tensor<3x4xf32>, tensor<2x4xf32> -> tensor<3x2xf32>
  calib.observe %r {name = "r", range = [-9.0, 9.0]} : tensor<3x2xf32>
  func.return %r : tensor<3x2xf32>
}
