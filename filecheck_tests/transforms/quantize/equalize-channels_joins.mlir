// RUN: qmlir-opt --apply-policy="settings={data=%S/Inputs/samples.npy}" --equalize-channels %s | filecheck %s
// RUN: qmlir-opt --apply-policy="settings={data=%S/Inputs/samples.npy per-channel=false}" --equalize-channels %s | filecheck %s --check-prefix=SAME

// Channels that a concatenation joins have the largest of all of them in common, 3: 0.03 grows by 6.3, wherever it is made.
// CHECK-LABEL: func.func @joined
// CHECK-DAG: nn.constant <tensor<1x2xf32>, [0.0630957{{.*}}, 0.0]>
// CHECK-DAG: nn.constant <tensor<1x2xf32>, [1.0, 0.158489{{.*}}]>
// SAME-LABEL: func.func @joined
// SAME-DAG: nn.constant <tensor<1x2xf32>, [0.01, 0.0]>
func.func @joined(%x: tensor<1x2xf32>) -> tensor<1x1xf32> {
  calib.observe %x {name = "x", range = [0.0, 3.0]} : tensor<1x2xf32>
  %w = nn.constant <tensor<1x2xf32>, [1.0, 0.0]> : tensor<1x2xf32>
  %0 = nn.fully_connected %x, %w : tensor<1x2xf32>, tensor<1x2xf32> -> tensor<1x1xf32>
  calib.observe %0 {name = "one", range = [0.0, 3.0]} : tensor<1x1xf32>
  %u = nn.constant <tensor<1x2xf32>, [0.01, 0.0]> : tensor<1x2xf32>
  %1 = nn.fully_connected %x, %u : tensor<1x2xf32>, tensor<1x2xf32> -> tensor<1x1xf32>
  calib.observe %1 {name = "other", range = [0.0, 0.03]} : tensor<1x1xf32>
  %2 = nn.concat %0, %1 {axis = 1 : i64} : tensor<1x1xf32>, tensor<1x1xf32> -> tensor<1x2xf32>
  calib.observe %2 {name = "both", range = [0.0, 3.0]} : tensor<1x2xf32>
  %v = nn.constant <tensor<1x2xf32>, [1.0, 1.0]> : tensor<1x2xf32>
  %3 = nn.fully_connected %2, %v : tensor<1x2xf32>, tensor<1x2xf32> -> tensor<1x1xf32>
  calib.observe %3 {name = "y", range = [0.0, 3.03]} : tensor<1x1xf32>
  func.return %3 : tensor<1x1xf32>
}
