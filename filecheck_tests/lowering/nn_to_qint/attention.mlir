// RUN: qmlir-opt --nn-to-qint --elide-weights --split-input-file %s | filecheck %s

// As many steps as sums of 32 bits hold, for six values up to 131 away from their zero point; no more than 15 bits.
!x = !quant.uniform<i8:f32, 0.05:3>
!v = !quant.uniform<i8:f32, 0.02:3>
!y = !quant.uniform<i8:f32, 0.01:-5>

// CHECK-LABEL: func.func @bytes
// CHECK: %[[E:.*]] = qint.exponentials %{{.*}}, <tensor<223xi16>, elided> {axis = 1 : i64} : tensor<4x6xi8> -> tensor<4x6xi16>
// CHECK: %[[S:.*]] = qint.matmul %[[E]], %{{.*}} {rhs_zero_point = 3 : i32} : tensor<4x6xi16>, tensor<6x2xi8> -> tensor<4x2xi32>
// CHECK: qint.row_quotient %[[S]], %[[E]] {unit = 33554432 : i64, fraction = 24 : i32, offset = 512 : i32, zero_point = -5 : i32, min = -128 : i32, max = 127 : i32} : tensor<4x2xi32>, tensor<4x6xi16> -> tensor<4x2xi8>
func.func @bytes(%x: tensor<4x6x!x>, %v: tensor<6x2x!v>) -> tensor<4x2x!y> {
  %0 = nn.attend %x, %v : tensor<4x6x!x>, tensor<6x2x!v> -> tensor<4x2x!y>
  func.return %0 : tensor<4x2x!y>
}

// -----

// Sums of values of 16 bits have 64 bits.
!x = !quant.uniform<i16:f32, 0.001>
!v = !quant.uniform<i16:f32, 0.001>

// CHECK-LABEL: func.func @wide
// CHECK: qint.matmul {{.*}} : tensor<4x6xi16>, tensor<6x2xi16> -> tensor<4x2xi64>
func.func @wide(%x: tensor<4x6x!x>, %v: tensor<6x2x!v>) -> tensor<4x2x!v> {
  %0 = nn.attend %x, %v : tensor<4x6x!x>, tensor<6x2x!v> -> tensor<4x2x!v>
  func.return %0 : tensor<4x2x!v>
}
