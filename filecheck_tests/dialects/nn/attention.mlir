// A softmax and the matrix product that it weights.

// RUN: qmlir-opt %s | filecheck %s
// RUN: qmlir-opt --mlir-print-op-generic %s | qmlir-opt | filecheck %s

!x = !quant.uniform<i16:f32, 0.001>
!v = !quant.uniform<i8:f32, 0.02:3>

// CHECK-LABEL: func.func @attend
func.func @attend(%x: tensor<2x4x3x5xf32>, %v: tensor<1x5x8xf32>, %a: tensor<3x5x!x>, %b: tensor<5x8x!v>) {
  // CHECK: nn.attend %x, %v : tensor<2x4x3x5xf32>, tensor<1x5x8xf32> -> tensor<2x4x3x8xf32>
  %0 = nn.attend %x, %v : tensor<2x4x3x5xf32>, tensor<1x5x8xf32> -> tensor<2x4x3x8xf32>
  // The operands may have different storage types.
  // CHECK: nn.attend %a, %b : {{.*}} -> tensor<3x8x!quant.uniform<i8:f32, 2.{{.*}}>>
  %1 = nn.attend %a, %b : tensor<3x5x!x>, tensor<5x8x!v> -> tensor<3x8x!v>
  func.return
}
