// RUN: not qmlir-opt --nn-to-loops %s 2>&1 | filecheck %s

func.func @main(%x: tensor<1x4xf32>, %w: tensor<3x4xf32>) -> tensor<1x3xf32> {
  %y = nn.fully_connected %x, %w {qmlir.name = #qmlir.name<nodes ["fc1"], tensors ["y"]>} : tensor<1x4xf32>, tensor<3x4xf32> -> tensor<1x3xf32>
  func.return %y : tensor<1x3xf32>
}

// CHECK: nn.fully_connected "fc1": needs constant weights, got a value computed at run time; fold constants first
