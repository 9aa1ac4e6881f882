// RUN: qmlir-opt --qint-to-linalg --split-input-file --verify-diagnostics %s

func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error @+1 {{nn.relu "activation": has no form in linalg: only integers, data movement and casts leave; run --nn-to-qint first}}
  %y = nn.relu %x {qmlir.name = #qmlir.name<tensors ["activation"]>} : tensor<4xf32> -> tensor<4xf32>
  func.return %y : tensor<4xf32>
}

// -----

func.func @main(%x: tensor<4xf32>) -> tensor<1xf32> {
  // expected-error @+1 {{nn.reduce_max "nn.reduce_max": compares integers of 8 bits and more, got f32; quantize it; --quantize=fail-on-float=true tells what stays float}}
  %y = nn.reduce_max %x {axes = array<i64: 0>} : tensor<4xf32> -> tensor<1xf32>
  func.return %y : tensor<1xf32>
}

// -----

func.func @main(%x: tensor<4xi1>) -> tensor<1xi1> {
  // expected-error @+1 {{compares integers of 8 bits and more, got i1}}
  %y = nn.reduce_min %x {axes = array<i64: 0>} : tensor<4xi1> -> tensor<1xi1>
  func.return %y : tensor<1xi1>
}

// -----

func.func @main(%x: tensor<4xi8>, %u: tensor<3x4xi8>, %i: tensor<3x0xi64>) -> tensor<4xi8> {
  // expected-error @+1 {{needs indices that name a dimension, got tensor<3x0xi64>; use the updates instead}}
  %y = nn.scatter_nd %x, %u, %i : tensor<4xi8>, tensor<3x4xi8>, tensor<3x0xi64> -> tensor<4xi8>
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
