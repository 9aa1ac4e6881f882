// What reductions refuse: (N1), (C1), (C2).

// RUN: qmlir-opt --split-input-file --verify-diagnostics %s

func.func @n1(%x: tensor<3xi1>) {
  // expected-error@+1 {{'nn.reduce_sum' needs operands that are all f32, all f64, all iN, all uiN or all quantized, got i1}}
  %0 = nn.reduce_sum %x {axes = array<i64: 0>} : tensor<3xi1> -> tensor<1xi1>
  func.return
}

// -----

func.func @n1_storage_only(%x: tensor<3xf8E5M2>) {
  // expected-error@+1 {{'nn.cumulative_sum' needs operands that are all f32, all f64, all iN, all uiN or all quantized, got f8E5M2}}
  %0 = nn.cumulative_sum %x {axis = 0 : i64} : tensor<3xf8E5M2> -> tensor<3xf8E5M2>
  func.return
}

// -----

func.func @c1(%x: tensor<3x4xf32>) {
  // expected-error@+1 {{'nn.reduce_max' needs ascending axes in [0, 2), got [1, 0]}}
  %0 = nn.reduce_max %x {axes = array<i64: 1, 0>} : tensor<3x4xf32> -> tensor<1x1xf32>
  func.return
}

// -----

func.func @c1_beyond(%x: tensor<3x4xf32>) {
  // expected-error@+1 {{'nn.reduce_min' needs ascending axes in [0, 2), got [2]}}
  %0 = nn.reduce_min %x {axes = array<i64: 2>} : tensor<3x4xf32> -> tensor<3x4xf32>
  func.return
}

// -----

func.func @c1_axis(%x: tensor<3x4xf32>) {
  // expected-error@+1 {{'nn.cumulative_product' axis must lie in [0, 2), got 2}}
  %0 = nn.cumulative_product %x {axis = 2 : i64} : tensor<3x4xf32> -> tensor<3x4xf32>
  func.return
}

// -----

func.func @c2(%x: tensor<3x0xf32>) {
  // expected-error@+1 {{'nn.arg_max' has nothing to choose from along axis 1 of [3, 0]}}
  %0 = nn.arg_max %x {axis = 1 : i64} : tensor<3x0xf32> -> tensor<3x1xi64>
  func.return
}

// -----

func.func @mean_of_integers(%x: tensor<3xi8>) {
  // expected-error@+1 {{'nn.reduce_mean' needs operands that are all f32, all f64 or all quantized, got i8}}
  %0 = nn.reduce_mean %x {axes = array<i64: 0>} : tensor<3xi8> -> tensor<1xi8>
  func.return
}

// -----

func.func @c2(%x: tensor<3x0x!quant.uniform<i8:f32, 0.5>>) {
  // expected-error@+1 {{'nn.reduce_mean' has no quantized mean of no elements, got axes [1] of [3, 0]}}
  %0 = nn.reduce_mean %x {axes = array<i64: 1>} : tensor<3x0x!quant.uniform<i8:f32, 0.5>> -> tensor<3x1x!quant.uniform<i8:f32, 0.5>>
  func.return
}

// -----

func.func @a1_name(%x: tensor<3x4xf32>) {
  // expected-error@+1 {{'nn.reduce_sum' qmlir.addition must be float32 or float32_reciprocal on f32, got float16}}
  %0 = nn.reduce_sum %x {axes = array<i64: 1>, qmlir.addition = "float16"} : tensor<3x4xf32> -> tensor<3x1xf32>
  func.return
}

// -----

func.func @a1_elements(%x: tensor<3x4xi32>) {
  // expected-error@+1 {{'nn.cumulative_sum' qmlir.addition must be float32 on f32, got float32}}
  %0 = nn.cumulative_sum %x {axis = 1 : i64, qmlir.addition = "float32"} : tensor<3x4xi32> -> tensor<3x4xi32>
  func.return
}
