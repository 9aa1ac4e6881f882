// Normalizations along an axis.

// RUN: qmlir-opt %s | filecheck %s
// RUN: qmlir-opt --mlir-print-op-generic %s | filecheck %s --check-prefix=GENERIC
// RUN: qmlir-opt --mlir-print-op-generic %s | qmlir-opt | filecheck %s

!a = !quant.uniform<i8:f32, 0.5:3>
!unit = !quant.uniform<i8:f32, 0.00390625:-128>

// CHECK-LABEL: func.func @softmax
func.func @softmax(%x: tensor<2x3xf32>, %q: tensor<2x3x!a>) {
  // CHECK: nn.softmax %x {axis = 1 : i64} : tensor<2x3xf32> -> tensor<2x3xf32>
  // GENERIC: "nn.softmax"(%{{.*}}) <{axis = 1 : i64}> : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %0 = nn.softmax %x {axis = 1 : i64} : tensor<2x3xf32> -> tensor<2x3xf32>
  // CHECK: nn.softmax %q {axis = 0 : i64} : tensor<2x3x!quant.uniform<i8:f32, 5.000000e-01:3>> -> tensor<2x3x!quant.uniform<i8:f32, 3.906250e-03:-128>>
  %1 = nn.softmax %q {axis = 0 : i64} : tensor<2x3x!a> -> tensor<2x3x!unit>
  func.return
}

!log = !quant.uniform<i8:f32, 0.0625:127>

// CHECK-LABEL: func.func @log_softmax
func.func @log_softmax(%x: tensor<2x3xf32>, %q: tensor<2x3x!a>) {
  // CHECK: nn.log_softmax %x {axis = 1 : i64} : tensor<2x3xf32> -> tensor<2x3xf32>
  // GENERIC: "nn.log_softmax"(%{{.*}}) <{axis = 1 : i64}> : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %0 = nn.log_softmax %x {axis = 1 : i64} : tensor<2x3xf32> -> tensor<2x3xf32>
  // CHECK: nn.log_softmax %q {axis = 0 : i64} : tensor<2x3x!quant.uniform<i8:f32, 5.000000e-01:3>> -> tensor<2x3x!quant.uniform<i8:f32, 6.250000e-02:127>>
  %1 = nn.log_softmax %q {axis = 0 : i64} : tensor<2x3x!a> -> tensor<2x3x!log>
  func.return
}

// CHECK-LABEL: func.func @over_trailing
func.func @over_trailing(%x: tensor<2x3xf32>, %d: tensor<2x3xf64>, %q: tensor<2x3x!a>) {
  // CHECK: nn.layer_norm %x {axis = 1 : i64, epsilon = 5.000000e-01 : f32} : tensor<2x3xf32> -> tensor<2x3xf32>
  // GENERIC: "nn.layer_norm"(%{{.*}}) <{
  %0 = nn.layer_norm %x {axis = 1 : i64, epsilon = 0.5 : f32} : tensor<2x3xf32> -> tensor<2x3xf32>
  // CHECK: nn.layer_norm %q {axis = 1 : i64, epsilon = 5.000000e-01 : f32} : tensor<2x3x!quant.uniform<i8:f32, 5.000000e-01:3>> -> tensor<2x3x!quant.uniform<i8:f32, 3.906250e-03:-128>>
  %1 = nn.layer_norm %q {axis = 1 : i64, epsilon = 0.5 : f32} : tensor<2x3x!a> -> tensor<2x3x!unit>
  // CHECK: nn.rms_norm %d {axis = 0 : i64, epsilon = 0.000000e+00 : f32} : tensor<2x3xf64> -> tensor<2x3xf64>
  %2 = nn.rms_norm %d {axis = 0 : i64, epsilon = 0.0 : f32} : tensor<2x3xf64> -> tensor<2x3xf64>
  func.return
}

// CHECK-LABEL: func.func @others
func.func @others(%x: tensor<2x3xf32>, %i: tensor<2x3xi32>, %v: tensor<2x1xi32>) {
  // CHECK: nn.lp_normalization %x {axis = 1 : i64, p = 2 : i64} : tensor<2x3xf32> -> tensor<2x3xf32>
  %0 = nn.lp_normalization %x {axis = 1 : i64, p = 2 : i64} : tensor<2x3xf32> -> tensor<2x3xf32>
  // CHECK: nn.local_response_normalization %x {size = 3 : i64, alpha = 1.000000e+00 : f32, beta = 7.500000e-01 : f32, bias = 1.000000e+00 : f32} : tensor<2x3xf32> -> tensor<2x3xf32>
  %1 = nn.local_response_normalization %x {size = 3 : i64, alpha = 1.0 : f32, beta = 0.75 : f32, bias = 1.0 : f32} : tensor<2x3xf32> -> tensor<2x3xf32>
  // CHECK: nn.root_quotient %i, %v : tensor<2x3xi32>, tensor<2x1xi32> -> tensor<2x3xi32>
  %2 = nn.root_quotient %i, %v : tensor<2x3xi32>, tensor<2x1xi32> -> tensor<2x3xi32>
  func.return
}
