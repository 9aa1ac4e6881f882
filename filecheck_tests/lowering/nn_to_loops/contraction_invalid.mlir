// RUN: not qmlir-opt --nn-to-loops %s 2>&1 | filecheck %s

func.func @main(%x: tensor<1x60x60x16xf32>, %w: tensor<1x60x60x16xf32>) -> tensor<1x1x1x16xf32> {
  %y = nn.depthwise_conv2d %x, %w {qmlir.name = #qmlir.name<nodes ["dw1"], tensors ["y"]>} : tensor<1x60x60x16xf32>, tensor<1x60x60x16xf32> -> tensor<1x1x1x16xf32>
  func.return %y : tensor<1x1x1x16xf32>
}

// CHECK: nn.depthwise_conv2d "dw1": needs the input of one output within 49152 bytes, got 57616
