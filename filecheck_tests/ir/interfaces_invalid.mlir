// What every operation on tensors refuses, (T1) to (T3): ir/interfaces.py.

// RUN: qmlir-opt --split-input-file --verify-diagnostics %s

func.func @t1(%x: tensor<?x4xf32>) {
  // expected-error@+1 {{'nn.relu' needs static shapes, got tensor<?x4xf32>; bind symbolic dimensions on load}}
  %0 = nn.relu %x : tensor<?x4xf32> -> tensor<?x4xf32>
  func.return
}

// -----

!channels = !quant.uniform<i8:f32:2, {0.5, 0.25}>
func.func @t2_rank(%x: tensor<3x2x!channels>) {
  // expected-error@+1 {{'nn.relu' has 2 scales along axis 2 of a tensor of shape [3, 2]; need one for each index of an axis it has}}
  %0 = nn.relu %x : tensor<3x2x!channels> -> tensor<3x2x!channels>
  func.return
}

// -----

!channels = !quant.uniform<i8:f32:0, {0.5, 0.25}>
func.func @t2_size() {
  // expected-error@+1 {{'nn.constant' has 2 scales along axis 0 of a tensor of shape [3]; need one for each index of an axis it has}}
  %0 = nn.constant <tensor<3xi8>, [1, 2, 3]> : tensor<3x!channels>
  func.return
}

// -----

func.func @t3_shape(%x: tensor<3x4xf32>) {
  // expected-error@+1 {{'nn.relu' result #0 must be tensor<3x4xf32> as its operands imply, got tensor<4x3xf32>}}
  %0 = nn.relu %x : tensor<3x4xf32> -> tensor<4x3xf32>
  func.return
}

// -----

func.func @t3_element(%x: tensor<3x4xi8>) {
  // expected-error@+1 {{'nn.reshape' result #0 must be tensor<12xi8> as its operands imply, got tensor<12xi16>}}
  %0 = nn.reshape %x {shape = array<i64: 12>} : tensor<3x4xi8> -> tensor<12xi16>
  func.return
}
