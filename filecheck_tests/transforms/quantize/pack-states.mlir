// RUN: qmlir-opt --pack-states --split-input-file %s | filecheck %s

!q = !quant.uniform<i8:f32, 0.14285714285714285>
!x = !quant.uniform<i16:f32, 0.001>
!m = !quant.uniform<i16:f32, 0.002>

// Two integers a byte: packed where they enter, and unpacked for what reads them.
// CHECK-LABEL: func.func @main
// CHECK-SAME: %s: tensor<4x4xi8> {qmlir.state = #qmlir.state<1>}
// CHECK: %q = nn.divide_rows %x
// CHECK-NEXT: %[[I:.*]] = quant.scast %q : tensor<1x8x!quant.uniform<i8:f32, 0.14285714285714285>> to tensor<1x8xi8>
// CHECK-NEXT: %[[L:.*]] = nn.slice %[[I]] {offsets = array<i64: 0, 0>, sizes = array<i64: 1, 4>
// CHECK-NEXT: %[[H:.*]] = nn.slice %[[I]] {offsets = array<i64: 0, 4>, sizes = array<i64: 1, 4>
// CHECK: %[[A:.*]] = nn.and %[[L]],
// CHECK: %[[B:.*]] = nn.shift_left %[[H]],
// CHECK: %[[P:.*]] = nn.or %[[A]], %[[B]]
// CHECK: %n = nn.scatter_nd %s, %[[P]], %i : tensor<4x4xi8>, tensor<1x4xi8>, tensor<1x1xi64> -> tensor<4x4xi8>
// CHECK: %[[U:.*]] = nn.shift_left %n,
// CHECK-NEXT: %[[C:.*]] = nn.shift_right %[[U]],
// CHECK-NEXT: %[[D:.*]] = nn.shift_right %n,
// CHECK-NEXT: %[[E:.*]] = nn.concat %[[C]], %[[D]] {axis = 1 : i64}
// CHECK-NEXT: %[[F:.*]] = quant.scast %[[E]] : tensor<4x8xi8> to tensor<4x8x!quant.uniform<i8:f32, 0.14285714285714285>>
// CHECK-NEXT: %y = nn.multiply_rows %[[F]], %m
// CHECK-NEXT: func.return %y, %n :
func.func @main(%x: tensor<1x8x!x>, %i: tensor<1x1xi64>, %m: tensor<4x1x!m>, %s: tensor<4x8x!q> {qmlir.state = #qmlir.state<1>})
    -> (tensor<4x8x!x>, tensor<4x8x!q>) {
  %q = nn.divide_rows %x : tensor<1x8x!x> -> tensor<1x8x!q>
  %n = nn.scatter_nd %s, %q, %i : tensor<4x8x!q>, tensor<1x8x!q>, tensor<1x1xi64> -> tensor<4x8x!q>
  %y = nn.multiply_rows %n, %m : tensor<4x8x!q>, tensor<4x1x!m> -> tensor<4x8x!x>
  func.return %y, %n : tensor<4x8x!x>, tensor<4x8x!q>
}

// -----

// Rows that are no quotients may have other integers than those from −7 to 7.

!q = !quant.uniform<i8:f32, 0.14285714285714285>

// CHECK-LABEL: func.func @main
// CHECK-NOT: nn.or
func.func @main(%x: tensor<1x8x!q>, %i: tensor<1x1xi64>, %s: tensor<4x8x!q> {qmlir.state = #qmlir.state<0>}) -> tensor<4x8x!q> {
  %n = nn.scatter_nd %s, %x, %i : tensor<4x8x!q>, tensor<1x8x!q>, tensor<1x1xi64> -> tensor<4x8x!q>
  func.return %n : tensor<4x8x!q>
}

// -----

// Quotients of 8 bits stay as they are, and so do those of a state that begins with larger integers.

!q = !quant.uniform<i8:f32, 0.14285714285714285>
!e = !quant.uniform<i8:f32, 0.0078740157480314959>
!x = !quant.uniform<i16:f32, 0.001>

// CHECK-LABEL: func.func @main
// CHECK-NOT: nn.or
func.func @main(%x: tensor<1x8x!x>, %i: tensor<1x1xi64>, %s: tensor<4x8x!e> {qmlir.state = #qmlir.state<0>},
    %t: tensor<4x8x!q> {qmlir.state = #qmlir.state<1, reset = #qmlir.weights<tensor<i8>, [9]>>}) -> (tensor<4x8x!e>, tensor<4x8x!q>) {
  %q = nn.divide_rows %x : tensor<1x8x!x> -> tensor<1x8x!e>
  %n = nn.scatter_nd %s, %q, %i : tensor<4x8x!e>, tensor<1x8x!e>, tensor<1x1xi64> -> tensor<4x8x!e>
  %r = nn.divide_rows %x : tensor<1x8x!x> -> tensor<1x8x!q>
  %m = nn.scatter_nd %t, %r, %i : tensor<4x8x!q>, tensor<1x8x!q>, tensor<1x1xi64> -> tensor<4x8x!q>
  func.return %n, %m : tensor<4x8x!e>, tensor<4x8x!q>
}
