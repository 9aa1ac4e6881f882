// RUN: qmlir-opt --apply-policy="settings={data=%S/Inputs/samples.npy}" --equalize-channels %s | filecheck %s
// RUN: qmlir-opt --apply-policy="settings={data=%S/Inputs/samples.npy per-channel=false}" --equalize-channels %s | filecheck %s --check-prefix=SAME
// RUN: qmlir-opt --apply-policy="settings={data=%S/Inputs/samples.npy glow-exact=true}" --equalize-channels %s | filecheck %s --check-prefix=SAME

// Inputs [1, 1] and [3, 1]. The channels in between reach 3 and 0.03, a hundredth. The second grows by
// 100 to the power 0.4, 6.3: its weights, and what is observed of it. The reader's weight for it shrinks by as much, so
// the function stays.
// CHECK-LABEL: func.func @pair
// CHECK-DAG: nn.constant <tensor<2x2xf32>, [1.0, 0.0, 0.0630957{{.*}}, 0.0]>
// CHECK-DAG: nn.constant <tensor<1x2xf32>, [1.0, 0.158489{{.*}}]>
// SAME-LABEL: func.func @pair
// SAME-DAG: nn.constant <tensor<2x2xf32>, [1.0, 0.0, 0.01, 0.0]>
// SAME-DAG: nn.constant <tensor<1x2xf32>, [1.0, 1.0]>
func.func @pair(%x: tensor<1x2xf32>) -> tensor<1x1xf32> {
  calib.observe %x {name = "x", range = [0.0, 3.0]} : tensor<1x2xf32>
  %w = nn.constant <tensor<2x2xf32>, [1.0, 0.0, 0.01, 0.0]> : tensor<2x2xf32>
  %0 = nn.fully_connected %x, %w : tensor<1x2xf32>, tensor<2x2xf32> -> tensor<1x2xf32>
  calib.observe %0 {name = "between", range = [0.0, 3.0]} : tensor<1x2xf32>
  %v = nn.constant <tensor<1x2xf32>, [1.0, 1.0]> : tensor<1x2xf32>
  %1 = nn.fully_connected %0, %v : tensor<1x2xf32>, tensor<1x2xf32> -> tensor<1x1xf32>
  calib.observe %1 {name = "y", range = [0.0, 3.03]} : tensor<1x1xf32>
  func.return %1 : tensor<1x1xf32>
}
