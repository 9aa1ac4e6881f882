// What comparisons and choices refuse: (N1), (C1), (C2).

// RUN: qmlir-opt --split-input-file --verify-diagnostics %s

func.func @n1(%x: tensor<3xf32>, %y: tensor<3xf64>) {
  // expected-error@+1 {{'nn.less' needs operands that are all f32, all f64, all iN, all uiN or all quantized, got f32, f64}}
  %0 = nn.less %x, %y : tensor<3xf32>, tensor<3xf64> -> tensor<3xi1>
  func.return
}

// -----

func.func @n1_integers(%x: tensor<3xi8>) {
  // expected-error@+1 {{'nn.is_nan' needs operands that are all f32, all f64 or all quantized, got i8}}
  %0 = nn.is_nan %x : tensor<3xi8> -> tensor<3xi1>
  func.return
}

// -----

func.func @quantized_result(%x: tensor<3x!quant.uniform<i8:f32, 0.5>>) {
  // expected-error@+1 {{'nn.less' result #0 must be tensor<3xi1> as its operands imply, got tensor<3x!quant.uniform<i8:f32, 5.000000e-01>>}}
  %0 = nn.less %x, %x : tensor<3x!quant.uniform<i8:f32, 0.5>>, tensor<3x!quant.uniform<i8:f32, 0.5>> -> tensor<3x!quant.uniform<i8:f32, 0.5>>
  func.return
}

// -----

func.func @two_types(%c: tensor<3xi1>, %x: tensor<3x!quant.uniform<i8:f32, 0.5>>, %y: tensor<3x!quant.uniform<i8:f32, 0.25>>) {
  // expected-error@+1 {{'nn.where' needs one quantized type for all operands and results, got !quant.uniform<i8:f32, 5.000000e-01> and !quant.uniform<i8:f32, 2.500000e-01>; put an nn.requantize before the operand that differs}}
  %0 = nn.where %c, %x, %y : tensor<3xi1>, tensor<3x!quant.uniform<i8:f32, 0.5>>, tensor<3x!quant.uniform<i8:f32, 0.25>> -> tensor<3x!quant.uniform<i8:f32, 0.5>>
  func.return
}

// -----

func.func @result(%x: tensor<3xf32>) {
  // expected-error@+1 {{'nn.equal' result #0 must be tensor<3xi1> as its operands imply, got tensor<3xf32>}}
  %0 = nn.equal %x, %x : tensor<3xf32>, tensor<3xf32> -> tensor<3xf32>
  func.return
}

// -----

func.func @c1(%c: tensor<2xi1>, %x: tensor<3xf32>) {
  // expected-error@+1 {{'nn.where' shapes do not broadcast: [2] and [3]}}
  %0 = nn.where %c, %x, %x : tensor<2xi1>, tensor<3xf32>, tensor<3xf32> -> tensor<3xf32>
  func.return
}

// -----

func.func @c2_condition(%c: tensor<3xi8>, %x: tensor<3xf32>) {
  // expected-error@+1 {{'nn.where' needs a condition of i1, got i8}}
  %0 = nn.where %c, %x, %x : tensor<3xi8>, tensor<3xf32>, tensor<3xf32> -> tensor<3xf32>
  func.return
}

// -----

func.func @c2(%x: tensor<3xf32>) {
  // expected-error@+1 {{'nn.is_inf' must look for infinities of some sign, got neither}}
  %0 = nn.is_inf %x {negative = false, positive = false} : tensor<3xf32> -> tensor<3xi1>
  func.return
}
