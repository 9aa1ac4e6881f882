// RUN: qmlir-opt --apply-policy="settings={data=%S/Inputs/samples.npy schema=symmetric_with_power2_scale}" --align-scales %s | filecheck %s
// RUN: qmlir-opt --apply-policy="settings={data=%S/Inputs/samples.npy}" --align-scales %s | filecheck %s --check-prefix=SAME

// The tensor in between ends at 6, for which the best scale, 6/127, is no power of two: all of it is multiplied so that
// the scale is one, with the clamp, and the reader's weights are divided: 7.9375 is 127/16.
// CHECK-LABEL: func.func @pair
// CHECK: nn.fully_connected %{{.*}} {{.*}}min = 0.000000e+00 : f32, max = 7.937500e+00 : f32}
// SAME-LABEL: func.func @pair
// SAME: nn.fully_connected %{{.*}} {min = 0.000000e+00 : f32, max = 6.000000e+00 : f32}
func.func @pair(%x: tensor<1x2xf32>) -> tensor<1x1xf32> {
  calib.observe %x {name = "x", range = [0.0, 3.0]} : tensor<1x2xf32>
  %w = nn.constant <tensor<2x2xf32>, [2.0, 0.0, 0.0, 2.0]> : tensor<2x2xf32>
  %0 = nn.fully_connected %x, %w {min = 0.0 : f32, max = 6.0 : f32} : tensor<1x2xf32>, tensor<2x2xf32> -> tensor<1x2xf32>
  calib.observe %0 {name = "between", range = [0.0, 6.0]} : tensor<1x2xf32>
  %v = nn.constant <tensor<1x2xf32>, [1.0, 1.0]> : tensor<1x2xf32>
  %1 = nn.fully_connected %0, %v : tensor<1x2xf32>, tensor<1x2xf32> -> tensor<1x1xf32>
  calib.observe %1 {name = "y", range = [0.0, 12.0]} : tensor<1x1xf32>
  func.return %1 : tensor<1x1xf32>
}
