// RUN: not qmlir-opt --nn-to-loops --finish-loops %s 2>&1 | filecheck %s

// CHECK: func.call "block": has no lowering to loops; calls want inline first, on the whole network
func.func private @f(%x: tensor<4xf32>) -> tensor<4xf32> {
  func.return %x : tensor<4xf32>
}
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %y = func.call @f(%x) {qmlir.name = #qmlir.name<nodes ["block"]>} : (tensor<4xf32>) -> tensor<4xf32>
  func.return %y : tensor<4xf32>
}
