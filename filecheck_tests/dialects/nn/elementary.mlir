// Elementary functions of one element.

// RUN: qmlir-opt %s | filecheck %s
// RUN: qmlir-opt --mlir-print-op-generic %s | qmlir-opt | filecheck %s

// CHECK-LABEL: func.func @ops
func.func @ops(%a0: tensor<3x60xf32>, %a1: tensor<40xf64>) {
  // CHECK: nn.abs %a0 : tensor<3x60xf32> -> tensor<3x60xf32>
  %0 = nn.abs %a0 : tensor<3x60xf32> -> tensor<3x60xf32>
  // CHECK: nn.neg %a0 : tensor<3x60xf32> -> tensor<3x60xf32>
  %2 = nn.neg %a0 : tensor<3x60xf32> -> tensor<3x60xf32>
  // CHECK: nn.sign %a0 : tensor<3x60xf32> -> tensor<3x60xf32>
  %4 = nn.sign %a0 : tensor<3x60xf32> -> tensor<3x60xf32>
  // CHECK: nn.floor %a0 : tensor<3x60xf32> -> tensor<3x60xf32>
  %6 = nn.floor %a0 : tensor<3x60xf32> -> tensor<3x60xf32>
  // CHECK: nn.ceil %a0 : tensor<3x60xf32> -> tensor<3x60xf32>
  %8 = nn.ceil %a0 : tensor<3x60xf32> -> tensor<3x60xf32>
  // CHECK: nn.round %a0 : tensor<3x60xf32> -> tensor<3x60xf32>
  %10 = nn.round %a0 : tensor<3x60xf32> -> tensor<3x60xf32>
  // CHECK: nn.sqrt %a0 : tensor<3x60xf32> -> tensor<3x60xf32>
  %12 = nn.sqrt %a0 : tensor<3x60xf32> -> tensor<3x60xf32>
  // CHECK: nn.reciprocal %a0 : tensor<3x60xf32> -> tensor<3x60xf32>
  %14 = nn.reciprocal %a0 : tensor<3x60xf32> -> tensor<3x60xf32>
  // CHECK: nn.exp %a0 : tensor<3x60xf32> -> tensor<3x60xf32>
  %16 = nn.exp %a0 : tensor<3x60xf32> -> tensor<3x60xf32>
  // CHECK: nn.log %a0 : tensor<3x60xf32> -> tensor<3x60xf32>
  %18 = nn.log %a0 : tensor<3x60xf32> -> tensor<3x60xf32>
  // CHECK: nn.erf %a0 : tensor<3x60xf32> -> tensor<3x60xf32>
  %20 = nn.erf %a0 : tensor<3x60xf32> -> tensor<3x60xf32>
  // CHECK: nn.sin %a0 : tensor<3x60xf32> -> tensor<3x60xf32>
  %22 = nn.sin %a0 : tensor<3x60xf32> -> tensor<3x60xf32>
  // CHECK: nn.cos %a0 : tensor<3x60xf32> -> tensor<3x60xf32>
  %23 = nn.cos %a0 : tensor<3x60xf32> -> tensor<3x60xf32>
  // CHECK: nn.tan %a0 : tensor<3x60xf32> -> tensor<3x60xf32>
  %24 = nn.tan %a0 : tensor<3x60xf32> -> tensor<3x60xf32>
  // CHECK: nn.asin %a0 : tensor<3x60xf32> -> tensor<3x60xf32>
  %25 = nn.asin %a0 : tensor<3x60xf32> -> tensor<3x60xf32>
  // CHECK: nn.acos %a0 : tensor<3x60xf32> -> tensor<3x60xf32>
  %27 = nn.acos %a0 : tensor<3x60xf32> -> tensor<3x60xf32>
  // CHECK: nn.atan %a0 : tensor<3x60xf32> -> tensor<3x60xf32>
  %29 = nn.atan %a0 : tensor<3x60xf32> -> tensor<3x60xf32>
  // CHECK: nn.sinh %a0 : tensor<3x60xf32> -> tensor<3x60xf32>
  %31 = nn.sinh %a0 : tensor<3x60xf32> -> tensor<3x60xf32>
  // CHECK: nn.cosh %a0 : tensor<3x60xf32> -> tensor<3x60xf32>
  %33 = nn.cosh %a0 : tensor<3x60xf32> -> tensor<3x60xf32>
  // CHECK: nn.asinh %a0 : tensor<3x60xf32> -> tensor<3x60xf32>
  %35 = nn.asinh %a0 : tensor<3x60xf32> -> tensor<3x60xf32>
  // CHECK: nn.acosh %a0 : tensor<3x60xf32> -> tensor<3x60xf32>
  %37 = nn.acosh %a0 : tensor<3x60xf32> -> tensor<3x60xf32>
  // CHECK: nn.atanh %a0 : tensor<3x60xf32> -> tensor<3x60xf32>
  %39 = nn.atanh %a0 : tensor<3x60xf32> -> tensor<3x60xf32>
  // CHECK: nn.rsqrt %a0 : tensor<3x60xf32> -> tensor<3x60xf32>
  %41 = nn.rsqrt %a0 : tensor<3x60xf32> -> tensor<3x60xf32>
  func.return
}
