// RUN: qmlir-opt --fold-slices %s | filecheck %s

// One operand holds all that the slice takes; the other reader keeps the concatenation.
// CHECK-LABEL: func.func @one
// CHECK-NEXT: %[[C:.*]] = nn.concat %a, %b
// CHECK-NEXT: %[[Y:.*]] = nn.slice %b {qmlir.name = #qmlir.name<nodes ["state"], tensors ["last"]>, offsets = array<i64: 0, 1>, sizes = array<i64: 1, 3>, strides = array<i64: 1, 1>} : tensor<1x4xf32> -> tensor<1x3xf32>
// CHECK-NEXT: func.return %[[C]], %[[Y]]
func.func @one(%a: tensor<1x4xf32>, %b: tensor<1x4xf32>) -> (tensor<1x8xf32>, tensor<1x3xf32>) {
  %c = nn.concat %a, %b {axis = 1 : i64} : tensor<1x4xf32>, tensor<1x4xf32> -> tensor<1x8xf32>
  %y = nn.slice %c {offsets = array<i64: 0, 5>, sizes = array<i64: 1, 3>, strides = array<i64: 1, 1>, qmlir.name = #qmlir.name<nodes ["state"], tensors ["last"]>} : tensor<1x8xf32> -> tensor<1x3xf32>
  func.return %c, %y : tensor<1x8xf32>, tensor<1x3xf32>
}

// Two of three, backwards.
// CHECK-LABEL: func.func @two
// CHECK-NEXT: %[[C:.*]] = nn.concat %b, %c {axis = 0 : i64} : tensor<3xf32>, tensor<4xf32> -> tensor<7xf32>
// CHECK-NEXT: %[[Y:.*]] = nn.slice %[[C]] {offsets = array<i64: 5>, sizes = array<i64: 2>, strides = array<i64: -4>}
// CHECK-NEXT: func.return %[[Y]]
func.func @two(%a: tensor<2xf32>, %b: tensor<3xf32>, %c: tensor<4xf32>) -> tensor<2xf32> {
  %0 = nn.concat %a, %b, %c {axis = 0 : i64} : tensor<2xf32>, tensor<3xf32>, tensor<4xf32> -> tensor<9xf32>
  %y = nn.slice %0 {offsets = array<i64: 7>, sizes = array<i64: 2>, strides = array<i64: -4>} : tensor<9xf32> -> tensor<2xf32>
  func.return %y : tensor<2xf32>
}

// All operands, or another axis, or no element.
// CHECK-LABEL: func.func @others
// CHECK-NEXT: %[[C:.*]] = nn.concat %a, %b
// CHECK-NEXT: nn.slice %[[C]]
// CHECK-NEXT: nn.slice %[[C]]
// CHECK-NEXT: nn.slice %[[C]]
func.func @others(%a: tensor<2x2xf32>, %b: tensor<2x2xf32>) -> (tensor<2x2xf32>, tensor<1x4xf32>, tensor<2x0xf32>) {
  %c = nn.concat %a, %b {axis = 1 : i64} : tensor<2x2xf32>, tensor<2x2xf32> -> tensor<2x4xf32>
  %x = nn.slice %c {offsets = array<i64: 0, 1>, sizes = array<i64: 2, 2>, strides = array<i64: 1, 1>} : tensor<2x4xf32> -> tensor<2x2xf32>
  %y = nn.slice %c {offsets = array<i64: 1, 0>, sizes = array<i64: 1, 4>, strides = array<i64: 1, 1>} : tensor<2x4xf32> -> tensor<1x4xf32>
  %z = nn.slice %c {offsets = array<i64: 0, 0>, sizes = array<i64: 2, 0>, strides = array<i64: 1, 1>} : tensor<2x4xf32> -> tensor<2x0xf32>
  func.return %x, %y, %z : tensor<2x2xf32>, tensor<1x4xf32>, tensor<2x0xf32>
}
