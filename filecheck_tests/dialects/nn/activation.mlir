// Functions of one element, on f32 and from one quantized type to another.

// RUN: qmlir-opt %s | filecheck %s
// RUN: qmlir-opt --mlir-print-op-generic %s | filecheck %s --check-prefix=GENERIC
// RUN: qmlir-opt --mlir-print-op-generic %s | qmlir-opt | filecheck %s

!a = !quant.uniform<i8:f32, 0.5:3>
!b = !quant.uniform<i8:f32, 0.25:-128>
!unit = !quant.uniform<i8:f32, 0.00390625:-128>

// CHECK-LABEL: func.func @float
func.func @float(%x: tensor<2x3xf32>) {
  // CHECK: nn.relu %x : tensor<2x3xf32> -> tensor<2x3xf32>
  // GENERIC: "nn.relu"(%{{.*}}) : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %0 = nn.relu %x : tensor<2x3xf32> -> tensor<2x3xf32>
  // CHECK: nn.clamp %x {max = 6.000000e+00 : f32, min = 0.000000e+00 : f32} : tensor<2x3xf32> -> tensor<2x3xf32>
  // GENERIC: "nn.clamp"(%{{.*}}) <{max = 6.000000e+00 : f32, min = 0.000000e+00 : f32}>
  %1 = nn.clamp %x {max = 6.0 : f32, min = 0.0 : f32} : tensor<2x3xf32> -> tensor<2x3xf32>
  // CHECK: nn.clamp %x {max = 0x7f800000 : f32} :
  %2 = nn.clamp %x {max = 0x7f800000 : f32} : tensor<2x3xf32> -> tensor<2x3xf32>
  // CHECK: nn.sigmoid %x :
  %3 = nn.sigmoid %x : tensor<2x3xf32> -> tensor<2x3xf32>
  // CHECK: nn.tanh %x :
  %4 = nn.tanh %x : tensor<2x3xf32> -> tensor<2x3xf32>
  // CHECK: nn.requantize %x :
  %5 = nn.requantize %x : tensor<2x3xf32> -> tensor<2x3xf32>
  func.return
}

// CHECK-LABEL: func.func @quantized
func.func @quantized(%x: tensor<2x!a>) {
  // CHECK: nn.relu %x : tensor<2x!quant.uniform<i8:f32, 5.000000e-01:3>> -> tensor<2x!quant.uniform<i8:f32, 2.500000e-01:-128>>
  %0 = nn.relu %x : tensor<2x!a> -> tensor<2x!b>
  // CHECK: nn.clamp %x {min = -1.000000e+00 : f32} : tensor<2x!quant.uniform<i8:f32, 5.000000e-01:3>> -> tensor<2x!quant.uniform<i8:f32, 5.000000e-01:3>>
  %1 = nn.clamp %x {min = -1.0 : f32} : tensor<2x!a> -> tensor<2x!a>
  // CHECK: nn.sigmoid %x : {{.*}} -> tensor<2x!quant.uniform<i8:f32, 3.906250e-03:-128>>
  %2 = nn.sigmoid %x : tensor<2x!a> -> tensor<2x!unit>
  // CHECK: nn.tanh %x :
  %3 = nn.tanh %x : tensor<2x!a> -> tensor<2x!b>
  // CHECK: nn.requantize %x : tensor<2x!quant.uniform<i8:f32, 5.000000e-01:3>> -> tensor<2x!quant.uniform<i8:f32, 2.500000e-01:-128>>
  %4 = nn.requantize %x : tensor<2x!a> -> tensor<2x!b>
  func.return
}

// CHECK-LABEL: func.func @more
func.func @more(%a0: tensor<3x60xf32>, %a1: tensor<40xf64>) {
  // CHECK: nn.gelu %a0 : tensor<3x60xf32> -> tensor<3x60xf32>
  %0 = nn.gelu %a0 : tensor<3x60xf32> -> tensor<3x60xf32>
  // CHECK: nn.gelu %a0 {tanh = true} : tensor<3x60xf32> -> tensor<3x60xf32>
  %1 = nn.gelu %a0 {tanh = true} : tensor<3x60xf32> -> tensor<3x60xf32>
  // CHECK: nn.hard_sigmoid %a0 {alpha = 3.000000e-01 : f32, beta = 4.000000e-01 : f32} : tensor<3x60xf32> -> tensor<3x60xf32>
  %2 = nn.hard_sigmoid %a0 {alpha = 3.000000e-01 : f32, beta = 4.000000e-01 : f32} : tensor<3x60xf32> -> tensor<3x60xf32>
  // CHECK: nn.hard_swish %a0 : tensor<3x60xf32> -> tensor<3x60xf32>
  %4 = nn.hard_swish %a0 : tensor<3x60xf32> -> tensor<3x60xf32>
  // CHECK: nn.leaky_relu %a0 {alpha = 1.000000e-01 : f32} : tensor<3x60xf32> -> tensor<3x60xf32>
  %6 = nn.leaky_relu %a0 {alpha = 1.000000e-01 : f32} : tensor<3x60xf32> -> tensor<3x60xf32>
  // CHECK: nn.elu %a0 {alpha = 1.500000e+00 : f32} : tensor<3x60xf32> -> tensor<3x60xf32>
  %8 = nn.elu %a0 {alpha = 1.500000e+00 : f32} : tensor<3x60xf32> -> tensor<3x60xf32>
  // CHECK: nn.selu %a0 {alpha = 1.500000e+00 : f32, gamma = 1.100000e+00 : f32} : tensor<3x60xf32> -> tensor<3x60xf32>
  %10 = nn.selu %a0 {alpha = 1.500000e+00 : f32, gamma = 1.100000e+00 : f32} : tensor<3x60xf32> -> tensor<3x60xf32>
  // CHECK: nn.celu %a0 {alpha = 2.000000e+00 : f32} : tensor<3x60xf32> -> tensor<3x60xf32>
  %12 = nn.celu %a0 {alpha = 2.000000e+00 : f32} : tensor<3x60xf32> -> tensor<3x60xf32>
  // CHECK: nn.softplus %a0 : tensor<3x60xf32> -> tensor<3x60xf32>
  %14 = nn.softplus %a0 : tensor<3x60xf32> -> tensor<3x60xf32>
  // CHECK: nn.softsign %a0 : tensor<3x60xf32> -> tensor<3x60xf32>
  %16 = nn.softsign %a0 : tensor<3x60xf32> -> tensor<3x60xf32>
  // CHECK: nn.mish %a0 : tensor<3x60xf32> -> tensor<3x60xf32>
  %18 = nn.mish %a0 : tensor<3x60xf32> -> tensor<3x60xf32>
  // CHECK: nn.swish %a0 {alpha = 1.500000e+00 : f32} : tensor<3x60xf32> -> tensor<3x60xf32>
  %20 = nn.swish %a0 {alpha = 1.500000e+00 : f32} : tensor<3x60xf32> -> tensor<3x60xf32>
  // CHECK: nn.thresholded_relu %a0 {alpha = 1.250000e+00 : f32} : tensor<3x60xf32> -> tensor<3x60xf32>
  %22 = nn.thresholded_relu %a0 {alpha = 1.250000e+00 : f32} : tensor<3x60xf32> -> tensor<3x60xf32>
  // CHECK: nn.binarize %a0 {threshold = 1.500000e+00 : f32} : tensor<3x60xf32> -> tensor<3x60xf32>
  %26 = nn.binarize %a0 {threshold = 1.500000e+00 : f32} : tensor<3x60xf32> -> tensor<3x60xf32>
  // CHECK: nn.shrink %a0 {bias = 7.500000e-01 : f32, threshold = 1.500000e+00 : f32} : tensor<3x60xf32> -> tensor<3x60xf32>
  %24 = nn.shrink %a0 {bias = 7.500000e-01 : f32, threshold = 1.500000e+00 : f32} : tensor<3x60xf32> -> tensor<3x60xf32>
  func.return
}
