// RUN: not qmlir-opt --float-products %s 2>&1 | filecheck %s

// CHECK: nn.matmul "product": must have sums of products that float32 represents, got 2 products of integers up to 2147483648 and 2147483648
func.func @main(%x: tensor<1x2xi32>, %y: tensor<2x1xi32>) -> tensor<1x1xi32> {
  %z = nn.matmul %x, %y {qmlir.name = #qmlir.name<nodes ["product"], tensors ["z"]>} : tensor<1x2xi32>, tensor<2x1xi32> -> tensor<1x1xi32>
  func.return %z : tensor<1x1xi32>
}
