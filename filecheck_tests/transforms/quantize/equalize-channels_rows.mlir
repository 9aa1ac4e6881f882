// RUN: qmlir-opt --apply-policy="settings={data=%S/Inputs/samples.npy activations=dynamic}" --divide-rows --equalize-channels %s | filecheck %s
// RUN: qmlir-opt --apply-policy="settings={data=%S/Inputs/samples.npy activations=dynamic per-channel=false}" --divide-rows --equalize-channels %s | filecheck %s --check-prefix=SAME

// Of the channels that a row consists of, one is 1000 times as large. Its gain is divided, the weights of the layer that
// reads the row's quotients are multiplied, and the bounds of the layer's sums follow the weights.
// CHECK-LABEL: func.func @main
// CHECK: nn.constant <tensor<16xf32>, [1.24093{{.*}}, 39.2418{{.*}}]>
// CHECK: nn.row_magnitudes %[[X:.*]] : tensor<1x16xf32>
// CHECK: %[[Q:.*]] = nn.divide_rows %[[X]]
// CHECK: %[[W:.*]] = nn.constant <tensor<1x16xf32>, [0.80584{{.*}}, 25.4829{{.*}}]>
// CHECK: %[[S:.*]] = nn.fully_connected %[[Q]], %[[W]]
// CHECK-NEXT: calib.observe %[[S]] {name = "{{.*}} sums", range = [-37.5705{{.*}} : f64, 37.5705{{.*}} : f64]}
// SAME-LABEL: func.func @main
// SAME: nn.constant <tensor<16xf32>, [1.0, {{.*}}1000.0]>
// SAME: sums", range = [-1.600000e+01 : f64, 1.600000e+01 : f64]
func.func @main(%x: tensor<1x2xf32>) -> tensor<1x1xf32> {
  calib.observe %x {name = "x", range = [0.0, 3.0]} : tensor<1x2xf32>
  %s = nn.constant <tensor<2x16xf32>, [1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0]> : tensor<2x16xf32>
  %g = nn.constant <tensor<16xf32>, [1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1000.0]> : tensor<16xf32>
  %0 = nn.matmul %x, %s : tensor<1x2xf32>, tensor<2x16xf32> -> tensor<1x16xf32>
  %1 = nn.mul %0, %g : tensor<1x16xf32>, tensor<16xf32> -> tensor<1x16xf32>
  calib.observe %1 {name = "gained", range = [0.0, 3000.0]} : tensor<1x16xf32>
  %v = nn.constant <tensor<1x16xf32>, [1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0]> : tensor<1x16xf32>
  %2 = nn.fully_connected %1, %v : tensor<1x16xf32>, tensor<1x16xf32> -> tensor<1x1xf32>
  calib.observe %2 {name = "y", range = [0.0, 3045.0]} : tensor<1x1xf32>
  func.return %2 : tensor<1x1xf32>
}
