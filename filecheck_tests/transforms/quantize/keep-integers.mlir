// RUN: qmlir-opt --apply-policy="settings={data=%S/Inputs/quarters.npy}" --keep-integers %s | filecheck %s
// RUN: qmlir-opt --apply-policy="settings={data=%S/Inputs/quarters.npy schema=symmetric}" --keep-integers %s | filecheck %s --check-prefix=OTHER

// All samples are multiples of 0.25, from 0 to 1: with that step, the integers are kept, where the range that a profile
// has learnt would round them. Values that are never negative begin at the least integer.
// CHECK-LABEL: func.func @steps
// CHECK: calib.observe %{{.*}} {qmlir.policy = {parameters = [2.500000e-01 : f64, -128 : i64]}, name = "x"
// OTHER-LABEL: func.func @steps
// OTHER: calib.observe %{{.*}} {name = "x", range = [
func.func @steps(%x: tensor<1x2xf32>) -> tensor<1x2xf32> {
  calib.observe %x {name = "x", range = [0.0, 0.9]} : tensor<1x2xf32>
  %0 = nn.relu %x : tensor<1x2xf32> -> tensor<1x2xf32>
  func.return %0 : tensor<1x2xf32>
}

// What a policy says about the input holds.
// CHECK-LABEL: func.func @told
// CHECK: calib.observe %{{.*}} {qmlir.policy = {range = [0.000000e+00 : f64, 2.000000e+00 : f64]}, name = "x"}
func.func @told(%x: tensor<1x2xf32>) -> tensor<1x2xf32> {
  calib.observe %x {name = "x", qmlir.policy = {range = [0.0, 2.0]}} : tensor<1x2xf32>
  %0 = nn.relu %x : tensor<1x2xf32> -> tensor<1x2xf32>
  func.return %0 : tensor<1x2xf32>
}
