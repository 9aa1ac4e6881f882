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

// expected-error @+1 {{func.func "main": needs a body of one block, got 2; networks have no branches}}
func.func @main(%x: tensor<3xi8>) -> tensor<3xi8> {
  cf.br ^bb1
^bb1:
  func.return %x : tensor<3xi8>
}

// -----

func.func @main(%x: i32) -> i32 {
  // expected-error @+1 {{arith.addi "arith.addi": has no form in linalg}}
  %y = arith.addi %x, %x : i32
  func.return %y : i32
}
