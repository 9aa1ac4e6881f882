// RUN: qmlir-opt --choose-scales %s | filecheck %s

// A range that the policy fixes holds for all tensors of one type, whatever was observed of them, and for readers of
// another precision.
// CHECK: quant.qcast %x : {{.*}}!quant.uniform<i8:f32, 0.0078740157186985015>>
// CHECK: nn.max_pool2d
// CHECK: quant.qcast %p : {{.*}}!quant.uniform<i8:f32, 0.0078740157186985015>>
// CHECK: quant.qcast {{.*}}!quant.uniform<i16:f32, 3.0518509447574615E-5>>
func.func @main(%x: tensor<1x4x4x2xf32>) -> (tensor<1x2x2x2xf32>, tensor<1x2x2x2xf32>) {
  calib.observe %x {name = "x", range = [-3.0, 3.0], qmlir.policy = {range = [-1.0 : f64, 1.0 : f64], schema = "symmetric"}} : tensor<1x4x4x2xf32>
  %p = nn.max_pool2d %x {window = array<i64: 2, 2>, strides = array<i64: 2, 2>, qmlir.policy = {schema = "symmetric"}} : tensor<1x4x4x2xf32> -> tensor<1x2x2x2xf32>
  calib.observe %p {name = "p", range = [-3.0, 3.0]} : tensor<1x2x2x2xf32>
  %y = nn.relu %p : tensor<1x2x2x2xf32> -> tensor<1x2x2x2xf32>
  calib.observe %y {name = "y", range = [0.0, 3.0]} : tensor<1x2x2x2xf32>
  %z = nn.tanh %p {qmlir.policy = {precision = "int16", schema = "symmetric"}} : tensor<1x2x2x2xf32> -> tensor<1x2x2x2xf32>
  func.return %y, %z : tensor<1x2x2x2xf32>, tensor<1x2x2x2xf32>
}
