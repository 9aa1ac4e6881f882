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

// The quotient 1 is a whole number of steps, also of a scale that was rounded to f32, or one more than is stored.
!f = !quant.uniform<i8:f32, 0.007874015718698502>
!p = !quant.uniform<i8:f32, 0.0078125>
!w = !quant.uniform<i8<-7:7>:f32, 0.14285714285714285>
// CHECK-LABEL: func.func @whole
// CHECK: qint.divide_rows %{{.*}}limit = 127 : i32
// CHECK: qint.divide_rows %{{.*}}limit = 127 : i32
// CHECK: qint.divide_rows %{{.*}}limit = 7 : i32
func.func @whole(%x: tensor<3x5x!x>) -> (tensor<3x5x!f>, tensor<3x5x!p>, tensor<3x5x!w>) {
  %f = nn.divide_rows %x : tensor<3x5x!x> -> tensor<3x5x!f>
  %p = nn.divide_rows %x : tensor<3x5x!x> -> tensor<3x5x!p>
  %w = nn.divide_rows %x : tensor<3x5x!x> -> tensor<3x5x!w>
  func.return %f, %p, %w : tensor<3x5x!f>, tensor<3x5x!p>, tensor<3x5x!w>
}

// Other scales have no integers: 1 would be 7.4375 steps, or far more steps than are stored. Floats compute these.
!n = !quant.uniform<i8:f32, 0.13445378151260504>
!l = !quant.uniform<i8:f32, 0.005>
// CHECK-LABEL: func.func @other
// CHECK-NOT: qint.divide_rows
// CHECK: nn.divide_rows %{{.*}}"its quotients have a scale of 1 / N, N a whole number up to 128, not 0.134454">
// CHECK: nn.divide_rows %{{.*}}"its quotients have a scale of 1 / N, N a whole number up to 128, not 0.005">
func.func @other(%x: tensor<3x5x!x>) -> (tensor<3x5x!n>, tensor<3x5x!l>) {
  %n = nn.divide_rows %x : tensor<3x5x!x> -> tensor<3x5x!n>
  %l = nn.divide_rows %x : tensor<3x5x!x> -> tensor<3x5x!l>
  func.return %n, %l : tensor<3x5x!n>, tensor<3x5x!l>
}
