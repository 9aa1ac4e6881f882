// RUN: qmlir-opt %s --smooth-relu | filecheck %s

// CHECK-LABEL: func.func @main
// CHECK-NEXT: %y = example.squareplus %x {qmlir.name = #qmlir.name<nodes ["act"], tensors ["y"]>} : tensor<4xf32> -> tensor<4xf32>
// CHECK-NEXT: func.return %y
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %y = nn.relu %x {qmlir.name = #qmlir.name<nodes ["act"], tensors ["y"]>} : tensor<4xf32> -> tensor<4xf32>
  func.return %y : tensor<4xf32>
}
