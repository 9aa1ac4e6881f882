// RUN: qmlir-opt --nn-to-qint %s | filecheck %s

!x = !quant.uniform<i16:f32, 0.5:7>
!q = !quant.uniform<i8:f32, 0.0078740157480314959>
!m = !quant.uniform<i32<0:32775>:f32, 0.5>
!s = !quant.uniform<i32:f32, 0.0009765625>

// The magnitudes are exact in steps of the rows; 127 stands for the quotient 1; products have 64 bits.
// CHECK-LABEL: func.func @exact
// CHECK: qint.row_magnitudes %{{.*}} {zero_point = 7 : i32} : tensor<3x5xi16> -> tensor<3x1xi32>
// CHECK: qint.divide_rows %{{.*}} {zero_point = 7 : i32, limit = 127 : i32} : tensor<3x5xi16> -> tensor<3x5xi8>
// CHECK: qint.mul {{.*}} : tensor<3x5xi32>, tensor<3x1xi32> -> tensor<3x5xi64>
// CHECK: qint.requantize {{.*}} : tensor<3x5xi64> -> tensor<3x5xi16>
func.func @exact(%x: tensor<3x5x!x>, %s: tensor<3x5x!s>) -> (tensor<3x5x!q>, tensor<3x5x!x>) {
  %m = nn.row_magnitudes %x : tensor<3x5x!x> -> tensor<3x1x!m>
  %q = nn.divide_rows %x : tensor<3x5x!x> -> tensor<3x5x!q>
  %y = nn.multiply_rows %s, %m : tensor<3x5x!s>, tensor<3x1x!m> -> tensor<3x5x!x>
  func.return %q, %y : tensor<3x5x!q>, tensor<3x5x!x>
}

// Magnitudes of another type are rounded to it.
// CHECK-LABEL: func.func @rounded
// CHECK: qint.row_magnitudes
// CHECK: qint.requantize {{.*}} : tensor<3x1xi32> -> tensor<3x1xi16>
func.func @rounded(%x: tensor<3x5x!x>) -> tensor<3x1x!x> {
  %m = nn.row_magnitudes %x : tensor<3x5x!x> -> tensor<3x1x!x>
  func.return %m : tensor<3x1x!x>
}
