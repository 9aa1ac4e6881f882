// What every operation on tensors refuses, (T1) to (T3): ir/interfaces.py.

// RUN: qmlir-opt --split-input-file --verify-diagnostics %s

%x = "test.op"() : () -> tensor<?x4xf32>
// t1: expected-error@+1 {{'nn.relu' needs static shapes, got tensor<?x4xf32>; bind symbolic dimensions on load}}
%0 = nn.relu %x : tensor<?x4xf32> -> tensor<?x4xf32>

// -----

!channels = !quant.uniform<i8:f32:2, {0.5, 0.25}>
%x = "test.op"() : () -> tensor<3x2x!channels>
// t2_rank: expected-error@+1 {{'nn.relu' has 2 scales along axis 2 of a tensor of shape [3, 2]; need one for each index of an axis it has}}
%0 = nn.relu %x : tensor<3x2x!channels> -> tensor<3x2x!channels>

// -----

!channels = !quant.uniform<i8:f32:0, {0.5, 0.25}>
// t2_size: expected-error@+1 {{'nn.constant' has 2 scales along axis 0 of a tensor of shape [3]; need one for each index of an axis it has}}
%0 = nn.constant <tensor<3xi8>, [1, 2, 3]> : tensor<3x!channels>

// -----

%x = "test.op"() : () -> tensor<3x4xf32>
// t3_shape: expected-error@+1 {{'nn.relu' result #0 must be tensor<3x4xf32> as its operands imply, got tensor<4x3xf32>}}
%0 = nn.relu %x : tensor<3x4xf32> -> tensor<4x3xf32>

// -----

%x = "test.op"() : () -> tensor<3x4xi8>
// t3_element: expected-error@+1 {{'nn.reshape' result #0 must be tensor<12xi8> as its operands imply, got tensor<12xi16>}}
%0 = nn.reshape %x {shape = array<i64: 12>} : tensor<3x4xi8> -> tensor<12xi16>
