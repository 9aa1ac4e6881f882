// Between element types.

// RUN: qmlir-opt %s | filecheck %s
// RUN: qmlir-opt --mlir-print-op-generic %s | qmlir-opt | filecheck %s

// CHECK-LABEL: func.func @ops
func.func @ops(%a0: tensor<90xf32>, %a1: tensor<9xf32>, %a2: tensor<90xi64>) {
  // CHECK: nn.cast %a0 : tensor<90xf32> -> tensor<90xf16>
  %0 = nn.cast %a0 : tensor<90xf32> -> tensor<90xf16>
  // CHECK: nn.cast %a1 {saturate = false} : tensor<9xf32> -> tensor<9xf32>
  %1 = nn.cast %a1 {saturate = false} : tensor<9xf32> -> tensor<9xf32>
  // CHECK: nn.bitcast %a0 : tensor<90xf32> -> tensor<90xi32>
  %2 = nn.bitcast %a0 : tensor<90xf32> -> tensor<90xi32>
  func.return
}
