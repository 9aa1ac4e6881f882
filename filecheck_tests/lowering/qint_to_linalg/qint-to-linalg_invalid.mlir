// RUN: qmlir-opt --qint-to-linalg --split-input-file --verify-diagnostics %s

func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error @+1 {{nn.relu "activation": has no form in linalg: only integers, data movement and casts leave; run --nn-to-qint first}}
  %y = nn.relu %x {qmlir.name = #qmlir.name<tensors ["activation"]>} : tensor<4xf32> -> tensor<4xf32>
  func.return %y : tensor<4xf32>
}

// -----

func.func @main(%x: tensor<4xi32>) -> tensor<4xi8> {
  // expected-error @+1 {{needs a contract of single, shift, double, upup, got float_even}}
  %y = qint.requantize %x {multiplier = array<i32: 1073741824>, shift = array<i32: -4>, contract = "float_even", min = -128 : i32, max = 127 : i32} : tensor<4xi32> -> tensor<4xi8>
  func.return %y : tensor<4xi8>
}

// -----

func.func @main(%x: tensor<1x2x2x1xi8>, %w: tensor<1x2x2x1xi8>) -> tensor<1x2x1x1xi32> {
  // expected-error @+1 {{needs padding that i8 holds, got 200}}
  %y = qint.conv2d %x, %w {zero_point = 200 : i32, padding = array<i64: 1, 0, 0, 0>} : tensor<1x2x2x1xi8>, tensor<1x2x2x1xi8> -> tensor<1x2x1x1xi32>
  func.return %y : tensor<1x2x1x1xi32>
}

// -----

func.func @main() -> tensor<2xi1> {
  // expected-error @+1 {{has no constants of one bit upstream, got bool[2]}}
  %y = nn.constant <tensor<2xi1>, [true, false]> : tensor<2xi1>
  func.return %y : tensor<2xi1>
}

// -----

func.func @main(%x: tensor<4xf32>) -> tensor<4x!quant.uniform<i4:f32, 0.5>> {
  // expected-error @+1 {{needs storage of (8, 16, 32) bits, got !quant.uniform<i4:f32, 5.000000e-01>}}
  %q = quant.qcast %x : tensor<4xf32> to tensor<4x!quant.uniform<i4:f32, 0.5>>
  func.return %q : tensor<4x!quant.uniform<i4:f32, 0.5>>
}

// -----

func.func @main(%x: tensor<4xf64>) -> tensor<4x!quant.uniform<i8:f64, 0.5>> {
  // expected-error @+1 {{needs an expressed type of f32}}
  %q = quant.qcast %x : tensor<4xf64> to tensor<4x!quant.uniform<i8:f64, 0.5>>
  func.return %q : tensor<4x!quant.uniform<i8:f64, 0.5>>
}

// -----

func.func @saturating(%x: tensor<1x3xi8>, %w: tensor<2x3xi8>) -> tensor<1x2xi32> {
  // expected-error@+1 {{has no form in linalg yet}}
  %0 = qint.saturating_fully_connected %x, %w : tensor<1x3xi8>, tensor<2x3xi8> -> tensor<1x2xi32>
  func.return %0 : tensor<1x2xi32>
}

// -----

func.func @float_add(%x: tensor<2xi8>) -> tensor<2xi8> {
  // expected-error@+1 {{has no form in linalg yet}}
  %0 = qint.float_add %x, %x {ratios = array<i32: 1, 0, 1, 0>, constant = array<i32: 0, 0>, min = 0 : i32, max = 7 : i32} : tensor<2xi8>, tensor<2xi8> -> tensor<2xi8>
  func.return %0 : tensor<2xi8>
}

// -----

func.func @float_sum(%x: tensor<2xi32>) -> tensor<2xi8> {
  // expected-error@+1 {{needs a contract of single, shift, double, upup, got float_sum}}
  %0 = qint.requantize %x {multiplier = array<i32: 1073741824>, shift = array<i32: 0>, contract = "float_sum", before = 3 : i32, min = 0 : i32, max = 7 : i32} : tensor<2xi32> -> tensor<2xi8>
  func.return %0 : tensor<2xi8>
}
