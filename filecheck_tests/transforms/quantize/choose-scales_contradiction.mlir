// RUN: not qmlir-opt --choose-scales --split-input-file %s 2>&1 | filecheck %s

// A concat gives its operands and its result one type; the policy gives them two.
// CHECK: tensor "a": tensors of one type, as pools and concats have them, cannot have several ranges or parameters
// CHECK-SAME: "a" of the network's inputs: !quant.uniform<i8:f32, 5.000000e-01>; "y" of nn.concat: !quant.uniform<i8:f32, 2.500000e-01:3>
// CHECK-SAME: give one of them, or the same for all
func.func @parameters(%a: tensor<1x2xf32>, %b: tensor<1x2xf32>) -> tensor<1x4xf32> {
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

// -----

// Two ranges.
// CHECK: tensor "x": tensors of one type, as pools and concats have them, cannot have several ranges or parameters
// CHECK-SAME: "x" of the network's inputs: [-1, 1]; "p" of nn.max_pool2d: [0, 6]
func.func @ranges(%x: tensor<1x4x4x2xf32>) -> tensor<1x2x2x2xf32> {
  calib.observe %x {name = "x", range = [-3.0, 3.0], qmlir.policy = {range = [-1.0 : f64, 1.0 : f64]}} : tensor<1x4x4x2xf32>
  %p = nn.max_pool2d %x {window = array<i64: 2, 2>, strides = array<i64: 2, 2>} : tensor<1x4x4x2xf32> -> tensor<1x2x2x2xf32>
  calib.observe %p {name = "p", range = [-3.0, 3.0], qmlir.policy = {range = [0.0 : f64, 6.0 : f64]}} : tensor<1x2x2x2xf32>
  %y = nn.relu %p : tensor<1x2x2x2xf32> -> tensor<1x2x2x2xf32>
  calib.observe %y {name = "y", range = [0.0, 3.0]} : tensor<1x2x2x2xf32>
  func.return %y : tensor<1x2x2x2xf32>
}

// -----

// A range and parameters.
// CHECK: tensor "x": tensors of one type, as pools and concats have them, cannot have several ranges or parameters
// CHECK-SAME: "p" of nn.max_pool2d: !quant.uniform<i8:f32, 5.000000e-01>; "x" of the network's inputs: [-1, 1]
func.func @both(%x: tensor<1x4x4x2xf32>) -> tensor<1x2x2x2xf32> {
  calib.observe %x {name = "x", range = [-3.0, 3.0], qmlir.policy = {range = [-1.0 : f64, 1.0 : f64]}} : tensor<1x4x4x2xf32>
  %p = nn.max_pool2d %x {window = array<i64: 2, 2>, strides = array<i64: 2, 2>} : tensor<1x4x4x2xf32> -> tensor<1x2x2x2xf32>
  calib.observe %p {name = "p", range = [-3.0, 3.0], qmlir.policy = {parameters = [0.5 : f64, 0 : i64]}} : tensor<1x2x2x2xf32>
  %y = nn.relu %p : tensor<1x2x2x2xf32> -> tensor<1x2x2x2xf32>
  calib.observe %y {name = "y", range = [0.0, 3.0]} : tensor<1x2x2x2xf32>
  func.return %y : tensor<1x2x2x2xf32>
}

// -----

// A range that a constant, and a function's own range, reach beyond.
// CHECK: tensor "s": a fixed range must hold what constants and functions bring into tensors of its type
// CHECK-SAME: "y" of nn.concat: [-1, 0.5]; "c" of nn.constant: [0, 5]; "s" of nn.sigmoid: [0, 0.996094]; widen it, or drop it
func.func @beyond(%x: tensor<1x2xf32>) -> tensor<1x4xf32> {
  calib.observe %x {name = "x", range = [-1.0, 1.0]} : tensor<1x2xf32>
  %s = nn.sigmoid %x {qmlir.name = #qmlir.name<tensors ["s"]>} : tensor<1x2xf32> -> tensor<1x2xf32>
  %c = nn.constant <tensor<1x2xf32>, [0.0, 5.0]> {qmlir.name = #qmlir.name<tensors ["c"]>} : tensor<1x2xf32>
  %y = nn.concat %c, %s {axis = 1 : i64} : tensor<1x2xf32>, tensor<1x2xf32> -> tensor<1x4xf32>
  calib.observe %y {name = "y", range = [0.0, 5.0], qmlir.policy = {range = [-1.0 : f64, 0.5 : f64]}} : tensor<1x4xf32>
  %z = nn.relu %y : tensor<1x4xf32> -> tensor<1x4xf32>
  calib.observe %z {name = "z", range = [0.0, 5.0]} : tensor<1x4xf32>
  func.return %z : tensor<1x4xf32>
}

// -----

// A range for what the model itself quantizes.
// CHECK: tensor "x": tensors of one type, as pools and concats have them, cannot have several ranges or parameters
// CHECK-SAME: a cast of the model: !quant.uniform<i8:f32, 2.500000e-01>; "x" of the network's inputs: [-1, 1]
func.func @imported(%x: tensor<1x2xf32>) -> tensor<1x2xf32> {
  calib.observe %x {name = "x", range = [-3.0, 3.0], qmlir.policy = {range = [-1.0 : f64, 1.0 : f64]}} : tensor<1x2xf32>
  %q = quant.qcast %x : tensor<1x2xf32> to tensor<1x2x!quant.uniform<i8:f32, 0.25>>
  %d = quant.dcast %q : tensor<1x2x!quant.uniform<i8:f32, 0.25>> to tensor<1x2xf32>
  %y = nn.relu %x : tensor<1x2xf32> -> tensor<1x2xf32>
  calib.observe %y {name = "y", range = [0.0, 3.0]} : tensor<1x2xf32>
  %z = nn.add %y, %d : tensor<1x2xf32>, tensor<1x2xf32> -> tensor<1x2xf32>
  calib.observe %z {name = "z", range = [0.0, 3.0]} : tensor<1x2xf32>
  func.return %z : tensor<1x2xf32>
}
