// Hadamard transforms of blocks of channels.

// RUN: qmlir-opt %s | filecheck %s
// RUN: qmlir-opt --mlir-print-op-generic %s | qmlir-opt | filecheck %s

!a = !quant.uniform<i8:f32, 0.5:3>
!b = !quant.uniform<i16:f32, 0.25>

// CHECK-LABEL: func.func @main
func.func @main(%x: tensor<3x12xf32>, %i: tensor<8xi32>, %q: tensor<2x8x!a>) {
  // CHECK: nn.hadamard %x {block = 4 : i64} : tensor<3x12xf32> -> tensor<3x12xf32>
  %0 = nn.hadamard %x {block = 4 : i64} : tensor<3x12xf32> -> tensor<3x12xf32>
  // CHECK: nn.hadamard %i {block = 8 : i64} : tensor<8xi32> -> tensor<8xi32>
  %1 = nn.hadamard %i {block = 8 : i64} : tensor<8xi32> -> tensor<8xi32>
  // CHECK: nn.hadamard %q {block = 2 : i64} : tensor<2x8x!quant.uniform<i8:f32, {{.*}}:3>> -> tensor<2x8x!quant.uniform<i16:f32, {{.*}}>>
  %2 = nn.hadamard %q {block = 2 : i64} : tensor<2x8x!a> -> tensor<2x8x!b>
  func.return
}
