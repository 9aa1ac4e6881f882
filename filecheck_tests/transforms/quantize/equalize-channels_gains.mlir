// RUN: qmlir-opt --apply-policy="settings={data=%S/Inputs/samples.npy}" --equalize-channels %s | filecheck %s
// RUN: qmlir-opt --apply-policy="settings={data=%S/Inputs/samples.npy per-channel=false}" --equalize-channels %s | filecheck %s --check-prefix=SAME
// RUN: qmlir-opt --apply-policy="settings={data=%S/Inputs/samples.npy glow-exact=true}" --equalize-channels %s | filecheck %s --check-prefix=SAME
// RUN: qmlir-opt --apply-policy="settings={residuals=int16}" --widen-residuals --apply-policy="settings={data=%S/Inputs/samples.npy}" --equalize-channels %s | filecheck %s

// A layer reads gained channels that reach 3 and 300, by weights of 1. The gains are divided by 1/√10 and √10, whose
// mean logarithm is 0, and the weights multiplied.
// CHECK-LABEL: func.func @main
// CHECK-DAG: nn.constant <tensor<2xf32>, [3.16227{{.*}}, 31.6227{{.*}}]>
// CHECK-DAG: nn.constant <tensor<1x2xf32>, [0.31622{{.*}}, 3.16227{{.*}}]>
// CHECK-DAG: calib.observe %{{.*}} {name = "gained", range = [3.16227{{.*}} : f64, 94.868{{.*}} : f64]
// SAME-LABEL: func.func @main
// SAME-DAG: nn.constant <tensor<2xf32>, [1.0, 100.0]>
// SAME-DAG: nn.constant <tensor<1x2xf32>, [1.0, 1.0]>
func.func @main(%x: tensor<1x2xf32>) -> tensor<1x1xf32> {
  calib.observe %x {name = "x", range = [0.0, 3.0]} : tensor<1x2xf32>
  %s = nn.constant <tensor<2x2xf32>, [1.0, 1.0, 0.0, 0.0]> : tensor<2x2xf32>
  %g = nn.constant <tensor<2xf32>, [1.0, 100.0]> : tensor<2xf32>
  %0 = nn.matmul %x, %s : tensor<1x2xf32>, tensor<2x2xf32> -> tensor<1x2xf32>
  %1 = nn.mul %0, %g : tensor<1x2xf32>, tensor<2xf32> -> tensor<1x2xf32>
  calib.observe %1 {name = "gained", range = [0.0, 300.0]} : tensor<1x2xf32>
  %v = nn.constant <tensor<1x2xf32>, [1.0, 1.0]> : tensor<1x2xf32>
  %2 = nn.fully_connected %1, %v : tensor<1x2xf32>, tensor<1x2xf32> -> tensor<1x1xf32>
  calib.observe %2 {name = "y", range = [0.0, 303.0]} : tensor<1x1xf32>
  func.return %2 : tensor<1x1xf32>
}
