// What sums and products refuse: (N1), (N3), (C1).

// RUN: qmlir-opt --split-input-file --verify-diagnostics %s

func.func @n1(%x: tensor<3xf32>, %y: tensor<3xi8>) {
  // expected-error@+1 {{'nn.add' needs operands that are all f32, all f64, all iN, all uiN or all quantized, got f32, i8}}
  %0 = nn.add %x, %y : tensor<3xf32>, tensor<3xi8> -> tensor<3xf32>
  func.return
}

// -----

func.func @n3(%x: tensor<3xf32>) {
  // expected-error@+1 {{'nn.mul' clamps to an empty range: min 6.0 is above max 0.0}}
  %0 = nn.mul %x, %x {min = 6.0 : f32, max = 0.0 : f32} : tensor<3xf32>, tensor<3xf32> -> tensor<3xf32>
  func.return
}

// -----

func.func @c1(%x: tensor<2x3xf32>, %y: tensor<2xf32>) {
  // expected-error@+1 {{'nn.add' shapes do not broadcast: [2, 3] and [2]}}
  %0 = nn.add %x, %y : tensor<2x3xf32>, tensor<2xf32> -> tensor<2x3xf32>
  func.return
}

// -----

func.func @n3_integers(%x: tensor<3xi32>) {
  // expected-error@+1 {{'nn.sub' clamps floats, got i32}}
  %0 = nn.sub %x, %x {min = 0.0 : f32} : tensor<3xi32>, tensor<3xi32> -> tensor<3xi32>
  func.return
}

// -----

func.func @n1_truth(%x: tensor<3xi1>) {
  // expected-error@+1 {{'nn.pow' needs operands that are all f32, all f64, all iN, all uiN or all quantized, got i1, i1}}
  %0 = nn.pow %x, %x : tensor<3xi1>, tensor<3xi1> -> tensor<3xi1>
  func.return
}
