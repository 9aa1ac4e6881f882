// What nn.attend refuses: (C1) and (C2).

// RUN: qmlir-opt --split-input-file --verify-diagnostics %s

%x, %v = "test.op"() : () -> (tensor<3x5xf32>, tensor<4x8xf32>)
// c1: expected-error@+1 {{'nn.attend' needs [B…, M, K] and [B…, K, N], got [3, 5] and [4, 8]}}
%0 = nn.attend %x, %v : tensor<3x5xf32>, tensor<4x8xf32> -> tensor<3x8xf32>

// -----

%x, %v = "test.op"() : () -> (tensor<3x0xf32>, tensor<0x8xf32>)
// c1_empty: expected-error@+1 {{'nn.attend' has nothing to sum along the last axis of [3, 0]}}
%0 = nn.attend %x, %v : tensor<3x0xf32>, tensor<0x8xf32> -> tensor<3x8xf32>

// -----

%x, %v = "test.op"() : () -> (tensor<2x3x5xf32>, tensor<3x5x8xf32>)
// c2: expected-error@+1 {{do not broadcast}}
%0 = nn.attend %x, %v : tensor<2x3x5xf32>, tensor<3x5x8xf32> -> tensor<2x3x8xf32>
