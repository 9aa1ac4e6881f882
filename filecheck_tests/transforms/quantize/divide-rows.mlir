// RUN: qmlir-opt --divide-rows %s | filecheck %s --check-prefix=STATIC
// RUN: qmlir-opt --apply-policy="settings={activations=dynamic}" --divide-rows %s | filecheck %s
// RUN: qmlir-opt --quantize="activations=dynamic" --elide-weights %s | filecheck %s --check-prefix=WHOLE

// STATIC-NOT: nn.divide_rows

// What the layer adds, and its clamp, go behind the product; the observer of the result stays with the result.
// CHECK-LABEL: func.func @main
// CHECK: %[[M:.*]] = nn.row_magnitudes %x : tensor<3x4xf32> -> tensor<3x1xf32>
// CHECK-NEXT: calib.observe %[[M]] {name = "layer magnitudes", range = [{{.*}}]}
// CHECK: %[[Q:.*]] = nn.divide_rows %x {qmlir.policy = {precision = "int8", schema = "symmetric"}}
// CHECK: %[[S:.*]] = nn.fully_connected %[[Q]], %w {{.*}} : tensor<3x4xf32>, tensor<2x4xf32> -> tensor<3x2xf32>
// CHECK-NEXT: calib.observe %[[S]] {name = "layer sums", range = [-4.000000e+00 : f64, 4.000000e+00 : f64]}
// CHECK-NEXT: %[[P:.*]] = nn.multiply_rows %[[S]], %[[M]]
// CHECK-NEXT: calib.observe %[[P]] {name = "layer nn.multiply_rows", range = [-9.000000e+00 : f64, 1.400000e+01 : f64]}
// CHECK-NEXT: %[[A:.*]] = nn.add %[[P]], %b
// CHECK: %r = nn.clamp %[[A]]
// CHECK-NEXT: calib.observe %r {name = "r", range = [{{.*}}]}

// WHOLE: nn.row_magnitudes {{.*}} : tensor<3x4x!quant.uniform<i16:f32, [[S:.*]]>> -> tensor<3x1x!quant.uniform<i32<0:32768>:f32, [[S]]>>
// WHOLE: nn.divide_rows {{.*}} -> tensor<3x4x!quant.uniform<i8:f32, 0.0078740157480314959>>
// WHOLE: nn.fully_connected {{.*}} -> tensor<3x2x!quant.uniform<i32:f32, {{.*}}>>
// WHOLE: nn.multiply_rows {{.*}} -> tensor<3x2x!quant.uniform<i16:f32, {{.*}}>>
func.func @main(%x: tensor<3x4xf32>) -> tensor<3x2xf32> {
  calib.observe %x {name = "x", range = [-1.0, 1.0]} : tensor<3x4xf32>
  %w = nn.constant <tensor<2x4xf32>, [1.0, -1.0, 0.5, 1.5, -1.0, 0.25, 0.25, 0.5]> : tensor<2x4xf32>
  %b = nn.constant <tensor<2xf32>, [9.0, -3.0]> : tensor<2xf32>
  %r = nn.fully_connected %x, %w, %b {min = 0.0 : f32, qmlir.name = #qmlir.name<nodes ["layer"], tensors ["r"]>} : tensor<3x4xf32>, tensor<2x4xf32>, tensor<2xf32> -> tensor<3x2xf32>
  calib.observe %r {name = "r", range = [0.0, 5.0]} : tensor<3x2xf32>
  func.return %r : tensor<3x2xf32>
}
