// RUN: not qmlir-opt --choose-scales %s 2>&1 | filecheck %s

// A concat gives its operands and its result one type; the policy gives them two.
// CHECK: tensor "a": tensors of one type, as pools and concats have them, cannot have several parameters
// CHECK-SAME: "a" of the network's inputs: !quant.uniform<i8:f32, 5.000000e-01>; "y" of nn.concat: !quant.uniform<i8:f32, 2.500000e-01:3>
// CHECK-SAME: give one of them, or the same for all
func.func @main(%a: tensor<1x2xf32>, %b: tensor<1x2xf32>) -> tensor<1x4xf32> {
  calib.observe %a {name = "a", range = [-1.0, 1.0], qmlir.policy = {parameters = [0.5 : f64, 0 : i64]}} : tensor<1x2xf32>
  calib.observe %b {name = "b", range = [-1.0, 1.0]} : tensor<1x2xf32>
  %0 = nn.relu %a : tensor<1x2xf32> -> tensor<1x2xf32>
  calib.observe %0 {name = "r", range = [0.0, 1.0]} : tensor<1x2xf32>
  %y = nn.concat %a, %b {axis = 1 : i64} : tensor<1x2xf32>, tensor<1x2xf32> -> tensor<1x4xf32>
  calib.observe %y {name = "y", range = [-1.0, 1.0], qmlir.policy = {parameters = [0.25 : f64, 3 : i64]}} : tensor<1x4xf32>
  %z = nn.relu %y : tensor<1x4xf32> -> tensor<1x4xf32>
  calib.observe %z {name = "z", range = [0.0, 1.0]} : tensor<1x4xf32>
  func.return %z : tensor<1x4xf32>
}
