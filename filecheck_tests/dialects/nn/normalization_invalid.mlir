// What normalizations refuse: (C1).

// RUN: qmlir-opt --split-input-file --verify-diagnostics %s

func.func @c1_axis(%x: tensor<2x3xf32>) {
  // expected-error@+1 {{'nn.softmax' axis must lie in [0, 2), got 2}}
  %0 = nn.softmax %x {axis = 2 : i64} : tensor<2x3xf32> -> tensor<2x3xf32>
  func.return
}

// -----

func.func @c1_from_behind(%x: tensor<2x3xf32>) {
  // expected-error@+1 {{'nn.softmax' axis must lie in [0, 2), got -1}}
  %0 = nn.softmax %x {axis = -1 : i64} : tensor<2x3xf32> -> tensor<2x3xf32>
  func.return
}

// -----

func.func @c1_empty(%x: tensor<2x0xf32>) {
  // expected-error@+1 {{'nn.softmax' has nothing to sum along axis 1 of [2, 0]}}
  %0 = nn.softmax %x {axis = 1 : i64} : tensor<2x0xf32> -> tensor<2x0xf32>
  func.return
}
