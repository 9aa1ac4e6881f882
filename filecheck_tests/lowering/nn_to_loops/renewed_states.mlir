// RUN: qmlir-opt --nn-to-loops --finish-loops --split-input-file %s | filecheck %s

// The next value of a state begins as a copy of the state, in which rows are replaced where the condition holds.

func.func @main(%here: tensor<1x3x1xi1>, %x: tensor<2x1x8xi8>, %s: tensor<2x3x8xi8> {qmlir.state = #qmlir.state<0>})
    -> tensor<2x3x8xi8> {
  %y = nn.where %here, %x, %s : tensor<1x3x1xi1>, tensor<2x1x8xi8>, tensor<2x3x8xi8> -> tensor<2x3x8xi8>
  func.return %y : tensor<2x3x8xi8>
}

// CHECK: func.func @main(%here: memref<1x3x1xi1>, %x: memref<2x1x8xi8>, %s: memref<2x3x8xi8>, %out0: memref<2x3x8xi8>)
// CHECK-NEXT: %y = memref.alloc()
// CHECK-NEXT: "memref.copy"(%s, %y)
// CHECK: func.call @nn_where_rows_0(%here, %x, %y,
// CHECK: "memref.copy"(%y, %out0)
// CHECK: func.func private @nn_where_rows_0(%x: memref<1x3x1xi1>, %p1: memref<2x1x8xi8>, %y: memref<2x3x8xi8>,
// CHECK: scf.if

// -----

// Rows at given places: two indices of each say the head and the place.

func.func @main(%at: tensor<2x1x2xi64>, %x: tensor<2x1x8xi8>, %s: tensor<2x3x8xi8> {qmlir.state = #qmlir.state<0>})
    -> tensor<2x3x8xi8> {
  %y = nn.scatter_nd %s, %x, %at : tensor<2x3x8xi8>, tensor<2x1x8xi8>, tensor<2x1x2xi64> -> tensor<2x3x8xi8>
  func.return %y : tensor<2x3x8xi8>
}

// CHECK: func.func @main(
// CHECK-NEXT: %y = memref.alloc()
// CHECK-NEXT: "memref.copy"(%s, %y)
// CHECK: func.call @nn_scatter_rows_0(

// -----

// A tensor that is no state, or whose result is none, is not copied ahead.

func.func @main(%at: tensor<1x1xi64>, %x: tensor<1x8xi8>, %s: tensor<3x8xi8> {qmlir.state = #qmlir.state<1>}, %t: tensor<3x8xi8>)
    -> (tensor<3x8xi8>, tensor<3x8xi8>) {
  %y = nn.scatter_nd %s, %x, %at : tensor<3x8xi8>, tensor<1x8xi8>, tensor<1x1xi64> -> tensor<3x8xi8>
  %n = nn.scatter_nd %t, %x, %at : tensor<3x8xi8>, tensor<1x8xi8>, tensor<1x1xi64> -> tensor<3x8xi8>
  func.return %y, %n : tensor<3x8xi8>, tensor<3x8xi8>
}

// CHECK: func.func @main(
// CHECK: func.call @nn_scatter_nd_0(
// CHECK: func.call @nn_scatter_nd_0(
// CHECK-NOT: nn_scatter_rows
