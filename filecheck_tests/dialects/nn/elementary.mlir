// Elementary functions of one element.

// RUN: qmlir-opt %s | filecheck %s
// RUN: qmlir-opt --mlir-print-op-generic %s | qmlir-opt | filecheck %s

// CHECK-LABEL: func.func @ops
func.func @ops(%a0: tensor<3x60xf32>, %a1: tensor<40xf64>) {
  // CHECK: nn.abs %a0 : tensor<3x60xf32> -> tensor<3x60xf32>
  %0 = nn.abs %a0 : tensor<3x60xf32> -> tensor<3x60xf32>
  // CHECK: nn.abs %a1 : tensor<40xf64> -> tensor<40xf64>
  %1 = nn.abs %a1 : tensor<40xf64> -> tensor<40xf64>
  // CHECK: nn.neg %a0 : tensor<3x60xf32> -> tensor<3x60xf32>
  %2 = nn.neg %a0 : tensor<3x60xf32> -> tensor<3x60xf32>
  // CHECK: nn.neg %a1 : tensor<40xf64> -> tensor<40xf64>
  %3 = nn.neg %a1 : tensor<40xf64> -> tensor<40xf64>
  // CHECK: nn.sign %a0 : tensor<3x60xf32> -> tensor<3x60xf32>
  %4 = nn.sign %a0 : tensor<3x60xf32> -> tensor<3x60xf32>
  // CHECK: nn.sign %a1 : tensor<40xf64> -> tensor<40xf64>
  %5 = nn.sign %a1 : tensor<40xf64> -> tensor<40xf64>
  // CHECK: nn.floor %a0 : tensor<3x60xf32> -> tensor<3x60xf32>
  %6 = nn.floor %a0 : tensor<3x60xf32> -> tensor<3x60xf32>
  // CHECK: nn.floor %a1 : tensor<40xf64> -> tensor<40xf64>
  %7 = nn.floor %a1 : tensor<40xf64> -> tensor<40xf64>
  // CHECK: nn.ceil %a0 : tensor<3x60xf32> -> tensor<3x60xf32>
  %8 = nn.ceil %a0 : tensor<3x60xf32> -> tensor<3x60xf32>
  // CHECK: nn.ceil %a1 : tensor<40xf64> -> tensor<40xf64>
  %9 = nn.ceil %a1 : tensor<40xf64> -> tensor<40xf64>
  // CHECK: nn.round %a0 : tensor<3x60xf32> -> tensor<3x60xf32>
  %10 = nn.round %a0 : tensor<3x60xf32> -> tensor<3x60xf32>
  // CHECK: nn.round %a1 : tensor<40xf64> -> tensor<40xf64>
  %11 = nn.round %a1 : tensor<40xf64> -> tensor<40xf64>
  // CHECK: nn.sqrt %a0 : tensor<3x60xf32> -> tensor<3x60xf32>
  %12 = nn.sqrt %a0 : tensor<3x60xf32> -> tensor<3x60xf32>
  // CHECK: nn.sqrt %a1 : tensor<40xf64> -> tensor<40xf64>
  %13 = nn.sqrt %a1 : tensor<40xf64> -> tensor<40xf64>
  // CHECK: nn.reciprocal %a0 : tensor<3x60xf32> -> tensor<3x60xf32>
  %14 = nn.reciprocal %a0 : tensor<3x60xf32> -> tensor<3x60xf32>
  // CHECK: nn.reciprocal %a1 : tensor<40xf64> -> tensor<40xf64>
  %15 = nn.reciprocal %a1 : tensor<40xf64> -> tensor<40xf64>
  // CHECK: nn.exp %a0 : tensor<3x60xf32> -> tensor<3x60xf32>
  %16 = nn.exp %a0 : tensor<3x60xf32> -> tensor<3x60xf32>
  // CHECK: nn.exp %a1 : tensor<40xf64> -> tensor<40xf64>
  %17 = nn.exp %a1 : tensor<40xf64> -> tensor<40xf64>
  // CHECK: nn.log %a0 : tensor<3x60xf32> -> tensor<3x60xf32>
  %18 = nn.log %a0 : tensor<3x60xf32> -> tensor<3x60xf32>
  // CHECK: nn.log %a1 : tensor<40xf64> -> tensor<40xf64>
  %19 = nn.log %a1 : tensor<40xf64> -> tensor<40xf64>
  // CHECK: nn.erf %a0 : tensor<3x60xf32> -> tensor<3x60xf32>
  %20 = nn.erf %a0 : tensor<3x60xf32> -> tensor<3x60xf32>
  // CHECK: nn.erf %a1 : tensor<40xf64> -> tensor<40xf64>
  %21 = nn.erf %a1 : tensor<40xf64> -> tensor<40xf64>
  // CHECK: nn.sin %a0 : tensor<3x60xf32> -> tensor<3x60xf32>
  %22 = nn.sin %a0 : tensor<3x60xf32> -> tensor<3x60xf32>
  // CHECK: nn.cos %a0 : tensor<3x60xf32> -> tensor<3x60xf32>
  %23 = nn.cos %a0 : tensor<3x60xf32> -> tensor<3x60xf32>
  // CHECK: nn.tan %a0 : tensor<3x60xf32> -> tensor<3x60xf32>
  %24 = nn.tan %a0 : tensor<3x60xf32> -> tensor<3x60xf32>
  // CHECK: nn.asin %a0 : tensor<3x60xf32> -> tensor<3x60xf32>
  %25 = nn.asin %a0 : tensor<3x60xf32> -> tensor<3x60xf32>
  // CHECK: nn.asin %a1 : tensor<40xf64> -> tensor<40xf64>
  %26 = nn.asin %a1 : tensor<40xf64> -> tensor<40xf64>
  // CHECK: nn.acos %a0 : tensor<3x60xf32> -> tensor<3x60xf32>
  %27 = nn.acos %a0 : tensor<3x60xf32> -> tensor<3x60xf32>
  // CHECK: nn.acos %a1 : tensor<40xf64> -> tensor<40xf64>
  %28 = nn.acos %a1 : tensor<40xf64> -> tensor<40xf64>
  // CHECK: nn.atan %a0 : tensor<3x60xf32> -> tensor<3x60xf32>
  %29 = nn.atan %a0 : tensor<3x60xf32> -> tensor<3x60xf32>
  // CHECK: nn.atan %a1 : tensor<40xf64> -> tensor<40xf64>
  %30 = nn.atan %a1 : tensor<40xf64> -> tensor<40xf64>
  // CHECK: nn.sinh %a0 : tensor<3x60xf32> -> tensor<3x60xf32>
  %31 = nn.sinh %a0 : tensor<3x60xf32> -> tensor<3x60xf32>
  // CHECK: nn.sinh %a1 : tensor<40xf64> -> tensor<40xf64>
  %32 = nn.sinh %a1 : tensor<40xf64> -> tensor<40xf64>
  // CHECK: nn.cosh %a0 : tensor<3x60xf32> -> tensor<3x60xf32>
  %33 = nn.cosh %a0 : tensor<3x60xf32> -> tensor<3x60xf32>
  // CHECK: nn.cosh %a1 : tensor<40xf64> -> tensor<40xf64>
  %34 = nn.cosh %a1 : tensor<40xf64> -> tensor<40xf64>
  // CHECK: nn.asinh %a0 : tensor<3x60xf32> -> tensor<3x60xf32>
  %35 = nn.asinh %a0 : tensor<3x60xf32> -> tensor<3x60xf32>
  // CHECK: nn.asinh %a1 : tensor<40xf64> -> tensor<40xf64>
  %36 = nn.asinh %a1 : tensor<40xf64> -> tensor<40xf64>
  // CHECK: nn.acosh %a0 : tensor<3x60xf32> -> tensor<3x60xf32>
  %37 = nn.acosh %a0 : tensor<3x60xf32> -> tensor<3x60xf32>
  // CHECK: nn.acosh %a1 : tensor<40xf64> -> tensor<40xf64>
  %38 = nn.acosh %a1 : tensor<40xf64> -> tensor<40xf64>
  // CHECK: nn.atanh %a0 : tensor<3x60xf32> -> tensor<3x60xf32>
  %39 = nn.atanh %a0 : tensor<3x60xf32> -> tensor<3x60xf32>
  // CHECK: nn.atanh %a1 : tensor<40xf64> -> tensor<40xf64>
  %40 = nn.atanh %a1 : tensor<40xf64> -> tensor<40xf64>
  // CHECK: nn.rsqrt %a0 : tensor<3x60xf32> -> tensor<3x60xf32>
  %41 = nn.rsqrt %a0 : tensor<3x60xf32> -> tensor<3x60xf32>
  func.return
}
