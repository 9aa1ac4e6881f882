// RUN: qmlir-opt --apply-profile="file=%S/Inputs/relu.yaml" %s | filecheck %s
// RUN: qmlir-opt --apply-profile="file=%S/Inputs/ranges.yaml" %s | filecheck %s
// RUN: qmlir-opt --apply-profile="file=%S/Inputs/glow.yaml" %s | filecheck %s

// CHECK: calib.observe %x {name = "x", range = [-1.500000e+00 : f64, 6.000000e+00 : f64]
// CHECK: calib.observe %{{.*}} {name = "r", range = [0.000000e+00 : f64, 6.000000e+00 : f64]
func.func @main(%x: tensor<1x4xf32>) -> tensor<1x4xf32> {
  calib.observe %x {name = "x"} : tensor<1x4xf32>
  %0 = nn.relu %x : tensor<1x4xf32> -> tensor<1x4xf32>
  calib.observe %0 {name = "r", range = [-9.0, 9.0]} : tensor<1x4xf32>
  func.return %0 : tensor<1x4xf32>
}

// Of another function the profile knows nothing.
// CHECK: calib.observe %y {name = "y"}
func.func private @other(%y: tensor<1x4xf32>) -> tensor<1x4xf32> {
  calib.observe %y {name = "y"} : tensor<1x4xf32>
  func.return %y : tensor<1x4xf32>
}
