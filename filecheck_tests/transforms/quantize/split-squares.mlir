// RUN: qmlir-opt --apply-policy="settings={precision=int16}" --split-squares %s | filecheck %s
// RUN: qmlir-opt --split-squares %s | filecheck %s --check-prefix=BYTES
// RUN: qmlir-opt --quantize="precision=int16" %s | filecheck %s --check-prefix=WHOLE

// The difference has the range that the square's greatest value tells, and no calibration narrows it.
// CHECK-LABEL: func.func @main
// CHECK-NEXT: calib.observe
// CHECK-NEXT: calib.observe
// CHECK-NEXT: %[[D:.*]] = nn.sub %a, %b : tensor<1x4xf32>, tensor<1x4xf32> -> tensor<1x4xf32>
// CHECK-NEXT: calib.observe %[[D]] {qmlir.policy = {calibration = "minmax"}, name = "y difference", range = [-3.{{.*}}, 3.
// CHECK-NEXT: %y = nn.mul %[[D]], %[[D]] {qmlir.name = #qmlir.name<nodes ["y"], tensors ["y"]>}
// CHECK-NEXT: calib.observe %y {name = "y"
// BYTES: nn.squared_difference
// WHOLE-LABEL: func.func @main
// WHOLE: nn.sub {{.*}}-> tensor<1x4x!quant.uniform<i16:f32, 9.15{{.*}}>>
// WHOLE: nn.mul {{.*}}-> tensor<1x4x!quant.uniform<i16:f32, 1.37{{.*}}>>
func.func @main(%a: tensor<1x4xf32>, %b: tensor<1x4xf32>) -> tensor<1x4xf32> {
  calib.observe %a {name = "a", range = [-2.0, 2.0]} : tensor<1x4xf32>
  calib.observe %b {name = "b", range = [-1.0, 1.0]} : tensor<1x4xf32>
  %y = nn.squared_difference %a, %b {qmlir.name = #qmlir.name<nodes ["y"], tensors ["y"]>} : tensor<1x4xf32>, tensor<1x4xf32> -> tensor<1x4xf32>
  calib.observe %y {name = "y", range = [0.0, 9.0]} : tensor<1x4xf32>
  func.return %y : tensor<1x4xf32>
}

// What is to stay float, and what has no range, stays as it is; the operation's own policy wins.
// CHECK-LABEL: func.func @kept
// CHECK: nn.squared_difference %a, %b {qmlir.policy = {keep_float = true}}
// CHECK: nn.squared_difference %a, %b :
// CHECK: nn.squared_difference %a, %b {qmlir.policy = {precision = "int8"}}
func.func @kept(%a: tensor<1x4xf32>, %b: tensor<1x4xf32>) -> (tensor<1x4xf32>, tensor<1x4xf32>, tensor<1x4xf32>) {
  %0 = nn.squared_difference %a, %b {qmlir.policy = {keep_float = true}} : tensor<1x4xf32>, tensor<1x4xf32> -> tensor<1x4xf32>
  calib.observe %0 {name = "kept", range = [0.0, 9.0]} : tensor<1x4xf32>
  %1 = nn.squared_difference %a, %b : tensor<1x4xf32>, tensor<1x4xf32> -> tensor<1x4xf32>
  %2 = nn.squared_difference %a, %b {qmlir.policy = {precision = "int8"}} : tensor<1x4xf32>, tensor<1x4xf32> -> tensor<1x4xf32>
  calib.observe %2 {name = "bytes", range = [0.0, 9.0]} : tensor<1x4xf32>
  func.return %0, %1, %2 : tensor<1x4xf32>, tensor<1x4xf32>, tensor<1x4xf32>
}
