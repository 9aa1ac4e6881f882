// What a layer with parameters for blocks refuses: (N1) of all nn operations, (C1), (C2), (C3) of its own.

// RUN: qmlir-opt --split-input-file --verify-diagnostics %s

func.func @n1(%x: tensor<1x4xf64>, %w: tensor<2x4xi8>, %s: tensor<2x2xf32>) {
  // expected-error@+1 {{'nn.blocked_fully_connected' needs operands that are all f32 or all quantized, got f64}}
  %0 = nn.blocked_fully_connected %x, %w, %s, %s {block = 2 : i64} : tensor<1x4xf64>, tensor<2x4xi8>, tensor<2x2xf32>, tensor<2x2xf32> -> tensor<1x2xf64>
  func.return
}

// -----

func.func @c1_inputs(%x: tensor<1x5xf32>, %w: tensor<2x4xi8>, %s: tensor<2x2xf32>) {
  // expected-error@+1 {{'nn.blocked_fully_connected' needs x [N, I] and w [O, I], got [1, 5] and [2, 4]}}
  %0 = nn.blocked_fully_connected %x, %w, %s, %s {block = 2 : i64} : tensor<1x5xf32>, tensor<2x4xi8>, tensor<2x2xf32>, tensor<2x2xf32> -> tensor<1x2xf32>
  func.return
}

// -----

func.func @c1_scales(%x: tensor<1x4xf32>, %w: tensor<2x4xi8>, %s: tensor<2x2xf32>) {
  // expected-error@+1 {{'nn.blocked_fully_connected' needs scales [2, 4], got [2, 2]}}
  %0 = nn.blocked_fully_connected %x, %w, %s, %s {block = 1 : i64} : tensor<1x4xf32>, tensor<2x4xi8>, tensor<2x2xf32>, tensor<2x2xf32> -> tensor<1x2xf32>
  func.return
}

// -----

func.func @c1_zero_points(%x: tensor<1x4xf32>, %w: tensor<2x4xi8>, %s: tensor<2x2xf32>, %z: tensor<1x2xi8>) {
  // expected-error@+1 {{'nn.blocked_fully_connected' needs zero points [2, 2], got [1, 2]}}
  %0 = nn.blocked_fully_connected %x, %w, %s, %z {block = 2 : i64} : tensor<1x4xf32>, tensor<2x4xi8>, tensor<2x2xf32>, tensor<1x2xi8> -> tensor<1x2xf32>
  func.return
}

// -----

func.func @c1_bias(%x: tensor<1x4xf32>, %w: tensor<2x4xi8>, %s: tensor<2x2xf32>, %b: tensor<3xf32>) {
  // expected-error@+1 {{'nn.blocked_fully_connected' needs a bias of shape [2], got [3]}}
  %0 = nn.blocked_fully_connected %x, %w, %s, %s, %b {block = 2 : i64} : tensor<1x4xf32>, tensor<2x4xi8>, tensor<2x2xf32>, tensor<2x2xf32>, tensor<3xf32> -> tensor<1x2xf32>
  func.return
}

// -----

func.func @c2_weights(%x: tensor<1x4xf32>, %w: tensor<2x4xi32>, %s: tensor<2x2xf32>) {
  // expected-error@+1 {{'nn.blocked_fully_connected' needs weights of 2 to 16 bits, got i32}}
  %0 = nn.blocked_fully_connected %x, %w, %s, %s {block = 2 : i64} : tensor<1x4xf32>, tensor<2x4xi32>, tensor<2x2xf32>, tensor<2x2xf32> -> tensor<1x2xf32>
  func.return
}

// -----

func.func @c2_zero_points(%x: tensor<1x4xf32>, %w: tensor<2x4xi4>, %s: tensor<2x2xf32>, %z: tensor<2x2xi8>) {
  // expected-error@+1 {{'nn.blocked_fully_connected' needs zero points of i4 or f32, got i8}}
  %0 = nn.blocked_fully_connected %x, %w, %s, %z {block = 2 : i64} : tensor<1x4xf32>, tensor<2x4xi4>, tensor<2x2xf32>, tensor<2x2xi8> -> tensor<1x2xf32>
  func.return
}

// -----

func.func @c2_bias(%x: tensor<1x4x!quant.uniform<i8:f32, 0.5>>, %w: tensor<2x4xi8>, %s: tensor<2x2xf32>, %b: tensor<2xi32>) {
  // expected-error@+1 {{'nn.blocked_fully_connected' needs a bias of f32, got i32}}
  %0 = nn.blocked_fully_connected %x, %w, %s, %s, %b {block = 2 : i64} : tensor<1x4x!quant.uniform<i8:f32, 0.5>>, tensor<2x4xi8>, tensor<2x2xf32>, tensor<2x2xf32>, tensor<2xi32> -> tensor<1x2x!quant.uniform<i8:f32, 0.5>>
  func.return
}

// -----

func.func @c3(%x: tensor<1x4xf32>, %w: tensor<2x4xi8>, %s: tensor<2x2xf32>) {
  // expected-error@+1 {{'nn.blocked_fully_connected' needs blocks of 1 input or more, got 0}}
  %0 = nn.blocked_fully_connected %x, %w, %s, %s {block = 0 : i64} : tensor<1x4xf32>, tensor<2x4xi8>, tensor<2x2xf32>, tensor<2x2xf32> -> tensor<1x2xf32>
  func.return
}
