// RUN: not qmlir-opt --qint-to-loops %s 2>&1 | filecheck %s

func.func @main(%x: tensor<64xi32>) -> tensor<64xi32> {
  %y = qint.requantize %x {qmlir.name = #qmlir.name<tensors ["wide"]>, multiplier = array<i32: 1073741824>, shift = array<i32: -4>, contract = "float_even", min = -2000000000 : i32, max = 127 : i32} : tensor<64xi32> -> tensor<64xi32>
  func.return %y : tensor<64xi32>
}

// CHECK: qint.requantize "wide": needs bounds below 2^30 under the contract float_even, got [-2000000000, 127]
