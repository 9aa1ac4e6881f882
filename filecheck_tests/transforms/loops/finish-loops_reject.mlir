// RUN: not qmlir-opt --nn-to-loops --qint-to-loops --finish-loops %s 2>&1 | filecheck %s

// All operations without a lowering at once, by name.
// CHECK: 3 operations have no lowering to loops
// CHECK-SAME: qmlir.opaque "odd1"
// CHECK-SAME: calib.observe
// CHECK-SAME: nn.relu "r1"
func.func @main(%x: tensor<4xf32>, %q: tensor<4x!quant.uniform<i8:f32, 0.5>>) -> (tensor<4xf32>, tensor<4x!quant.uniform<i8:f32, 0.5>>) {
  %y = qmlir.opaque "com.example.Odd" (%x) {reason = "unknown", source = {}, qmlir.name = #qmlir.name<nodes ["odd1"], tensors ["y"]>} : (tensor<4xf32>) -> tensor<4xf32>
  calib.observe %y {name = "y"} : tensor<4xf32>
  %r = nn.relu %q {qmlir.name = #qmlir.name<nodes ["r1"], tensors ["r"]>} : tensor<4x!quant.uniform<i8:f32, 0.5>> -> tensor<4x!quant.uniform<i8:f32, 0.5>>
  func.return %y, %r : tensor<4xf32>, tensor<4x!quant.uniform<i8:f32, 0.5>>
}
