// Operations on bits and truth values.

// RUN: qmlir-opt %s | filecheck %s
// RUN: qmlir-opt --mlir-print-op-generic %s | qmlir-opt | filecheck %s

// CHECK-LABEL: func.func @ops
func.func @ops(%a0: tensor<30xi1>, %a1: tensor<30xi1>, %a2: tensor<30xi16>, %a3: tensor<30xi16>, %a4: tensor<30xui32>, %a5: tensor<90xi32>, %a6: tensor<90xi32>, %a7: tensor<90xui8>, %a8: tensor<90xui8>) {
  // CHECK: nn.and %a0, %a1 : tensor<30xi1>, tensor<30xi1> -> tensor<30xi1>
  %0 = nn.and %a0, %a1 : tensor<30xi1>, tensor<30xi1> -> tensor<30xi1>
  // CHECK: nn.or %a0, %a1 : tensor<30xi1>, tensor<30xi1> -> tensor<30xi1>
  %2 = nn.or %a0, %a1 : tensor<30xi1>, tensor<30xi1> -> tensor<30xi1>
  // CHECK: nn.xor %a0, %a1 : tensor<30xi1>, tensor<30xi1> -> tensor<30xi1>
  %4 = nn.xor %a0, %a1 : tensor<30xi1>, tensor<30xi1> -> tensor<30xi1>
  // CHECK: nn.not %a0 : tensor<30xi1> -> tensor<30xi1>
  %6 = nn.not %a0 : tensor<30xi1> -> tensor<30xi1>
  // CHECK: nn.shift_left %a5, %a6 : tensor<90xi32>, tensor<90xi32> -> tensor<90xi32>
  %8 = nn.shift_left %a5, %a6 : tensor<90xi32>, tensor<90xi32> -> tensor<90xi32>
  // CHECK: nn.shift_right %a5, %a6 : tensor<90xi32>, tensor<90xi32> -> tensor<90xi32>
  %10 = nn.shift_right %a5, %a6 : tensor<90xi32>, tensor<90xi32> -> tensor<90xi32>
  func.return
}
