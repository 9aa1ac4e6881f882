// RUN: qmlir-opt --apply-policy="settings={data=%S/Inputs/samples.npy schema=symmetric_with_power2_scale}" --search-inputs %s | filecheck %s
// RUN: qmlir-opt --apply-policy="settings={data=%S/Inputs/samples.npy}" --search-inputs %s | filecheck %s --check-prefix=SAME

// Inputs [1, 1] and [3, 1], and a range that another picture has widened to 100. A scale of 1 would hold it, and three
// smaller powers of two are tried: all of them keep these samples exactly, and the widest of the best is taken.
// CHECK-LABEL: func.func @main
// CHECK: calib.observe %{{.*}} {qmlir.policy = {parameters = [1.000000e+00 : f64, 0 : i64]}, name = "x"
// SAME-LABEL: func.func @main
// SAME: calib.observe %{{.*}} {name = "x", range = [
func.func @main(%x: tensor<1x2xf32>) -> tensor<1x1xf32> {
  calib.observe %x {name = "x", range = [-1.0, 100.0]} : tensor<1x2xf32>
  %w = nn.constant <tensor<1x2xf32>, [1.0, 0.5]> : tensor<1x2xf32>
  %0 = nn.fully_connected %x, %w : tensor<1x2xf32>, tensor<1x2xf32> -> tensor<1x1xf32>
  calib.observe %0 {name = "y", range = [-1.0, 100.0]} : tensor<1x1xf32>
  func.return %0 : tensor<1x1xf32>
}
