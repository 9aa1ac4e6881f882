// Comparisons, choices and searches are exact on integers.

// RUN: qmlir-opt --nn-to-qint --elide-weights %s | filecheck %s

// By default what integers stand for is compared exactly: tables hold the place of each number among those of both types.
// CHECK-LABEL: @order
func.func @order(%a: tensor<4x!quant.uniform<i8:f32, 0.001>>, %b: tensor<4x!quant.uniform<i16:f32, 0.5>>) -> tensor<4xi1> {
  // CHECK: %[[A:.*]] = quant.scast %a
  // CHECK: %[[B:.*]] = quant.scast %b
  // CHECK: %[[L:.*]] = qint.lookup %[[A]], {{.*}} : tensor<4xi8> -> tensor<4xi32>
  // CHECK: %[[R:.*]] = qint.lookup %[[B]], {{.*}} : tensor<4xi16> -> tensor<4xi32>
  // CHECK: %[[Y:.*]] = nn.less %[[L]], %[[R]] : tensor<4xi32>, tensor<4xi32> -> tensor<4xi1>
  // CHECK: func.return %[[Y]]
  %0 = nn.less %a, %b : tensor<4x!quant.uniform<i8:f32, 0.001>>, tensor<4x!quant.uniform<i16:f32, 0.5>> -> tensor<4xi1>
  func.return %0 : tensor<4xi1>
}

// Integers of one type compare as they are stored, the same less by 128 if they are unsigned.
// CHECK-LABEL: @one_type
func.func @one_type(%a: tensor<4x!quant.uniform<u8:f32, 0.5:3>>, %b: tensor<4x!quant.uniform<u8:f32, 0.5:3>>) -> tensor<4xi1> {
  // CHECK-NOT: tensor<4xi32>
  // CHECK: nn.less_equal {{.*}} : tensor<4xi8>, tensor<4xi8> -> tensor<4xi1>
  %0 = nn.less_equal %a, %b : tensor<4x!quant.uniform<u8:f32, 0.5:3>>, tensor<4x!quant.uniform<u8:f32, 0.5:3>> -> tensor<4xi1>
  func.return %0 : tensor<4xi1>
}

// An integer stands for a finite number.
// CHECK-LABEL: @finite
func.func @finite(%a: tensor<2x!quant.uniform<i8:f32, 0.5>>) -> (tensor<2xi1>, tensor<2xi1>) {
  // CHECK: nn.constant <tensor<2xi1>
  // CHECK: nn.constant <tensor<2xi1>
  // CHECK-NOT: nn.is
  %0 = nn.is_nan %a : tensor<2x!quant.uniform<i8:f32, 0.5>> -> tensor<2xi1>
  %1 = nn.is_inf %a : tensor<2x!quant.uniform<i8:f32, 0.5>> -> tensor<2xi1>
  func.return %0, %1 : tensor<2xi1>, tensor<2xi1>
}

// A choice takes integers of one type; the condition stays.
// CHECK-LABEL: @choice
func.func @choice(%c: tensor<4xi1>, %a: tensor<4x!quant.uniform<i16:f32, 0.5>>, %b: tensor<!quant.uniform<i16:f32, 0.5>>) -> tensor<4x!quant.uniform<i16:f32, 0.5>> {
  // CHECK: %[[A:.*]] = quant.scast %a
  // CHECK: %[[B:.*]] = quant.scast %b
  // CHECK: nn.where %c, %[[A]], %[[B]] : tensor<4xi1>, tensor<4xi16>, tensor<i16> -> tensor<4xi16>
  %0 = nn.where %c, %a, %b : tensor<4xi1>, tensor<4x!quant.uniform<i16:f32, 0.5>>, tensor<!quant.uniform<i16:f32, 0.5>> -> tensor<4x!quant.uniform<i16:f32, 0.5>>
  func.return %0 : tensor<4x!quant.uniform<i16:f32, 0.5>>
}

// Integers of 32 bits have no table: they are compared on floats.
// CHECK-LABEL: @wide
func.func @wide(%a: tensor<4x!quant.uniform<i32:f32, 0.5>>, %b: tensor<4x!quant.uniform<i32:f32, 0.5>>) -> tensor<4xi1> {
  // CHECK: nn.less {{.*}}"target cpu computes it on i8, i16, not on i32"{{.*}} : tensor<4xf32>, tensor<4xf32> -> tensor<4xi1>
  %0 = nn.less %a, %b : tensor<4x!quant.uniform<i32:f32, 0.5>>, tensor<4x!quant.uniform<i32:f32, 0.5>> -> tensor<4xi1>
  func.return %0 : tensor<4xi1>
}

// What is not zero has another integer than the zero point.
// CHECK-LABEL: @non_zero
func.func @non_zero(%x: tensor<4x!quant.uniform<i8:f32, 0.5:3>>) -> tensor<1x4xi64> {
  // CHECK: %[[Z:.*]] = nn.constant <tensor<i8>, [3]>
  // CHECK-NEXT: %[[E:.*]] = nn.equal %{{.*}}, %[[Z]]
  // CHECK-NEXT: %[[N:.*]] = nn.not %[[E]]
  // CHECK-NEXT: nn.non_zero %[[N]] : tensor<4xi1> -> tensor<1x4xi64>
  %0 = nn.non_zero %x : tensor<4x!quant.uniform<i8:f32, 0.5:3>> -> tensor<1x4xi64>
  func.return %0 : tensor<1x4xi64>
}

// The greatest integer stands for the greatest number, and equal integers for equal numbers.
// CHECK-LABEL: @searches
func.func @searches(%x: tensor<1x4x4x2x!quant.uniform<i8:f32, 0.5:3>>) -> (tensor<1x4x1x2xi64>, tensor<1x4x3x2xi64>, tensor<1x3x3x2xi64>) {
  // CHECK: %[[X:.*]] = quant.scast %x
  // CHECK-NEXT: nn.arg_min %[[X]] {axis = 2 : i64, last = true} : tensor<1x4x4x2xi8> -> tensor<1x4x1x2xi64>
  // CHECK-NEXT: nn.top_k %[[X]] {axis = 2 : i64, k = 3 : i64, largest = false} : tensor<1x4x4x2xi8> -> tensor<1x4x3x2xi64>
  // CHECK-NEXT: nn.max_pool2d_indices %[[X]] {window = array<i64: 2, 2>} : tensor<1x4x4x2xi8> -> tensor<1x3x3x2xi64>
  %0 = nn.arg_min %x {axis = 2 : i64, last = true} : tensor<1x4x4x2x!quant.uniform<i8:f32, 0.5:3>> -> tensor<1x4x1x2xi64>
  %1 = nn.top_k %x {axis = 2 : i64, k = 3 : i64, largest = false} : tensor<1x4x4x2x!quant.uniform<i8:f32, 0.5:3>> -> tensor<1x4x3x2xi64>
  %2 = nn.max_pool2d_indices %x {window = array<i64: 2, 2>} : tensor<1x4x4x2x!quant.uniform<i8:f32, 0.5:3>> -> tensor<1x3x3x2xi64>
  func.return %0, %1, %2 : tensor<1x4x1x2xi64>, tensor<1x4x3x2xi64>, tensor<1x3x3x2xi64>
}
