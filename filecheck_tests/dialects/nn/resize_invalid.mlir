// What nn.resize refuses: (I1) to (I3).

// RUN: qmlir-opt --split-input-file --verify-diagnostics %s

%x = "test.op"() : () -> tensor<2xf32>
// i1_axis: expected-error@+1 {{'nn.resize' needs different axes of [2], got [1]}}
%0 = nn.resize %x {axes = array<i64: 1>, taps = [#qmlir.weights<tensor<1x1xi64>, [0]>], weights = [#qmlir.weights<tensor<1x1xf64>, [1.0]>]} : tensor<2xf32> -> tensor<1xf32>

// -----

%x = "test.op"() : () -> tensor<2xf32>
// i2_count: expected-error@+1 {{'nn.resize' needs taps and weights for each of its 1 axes}}
%0 = nn.resize %x {axes = array<i64: 0>, taps = [], weights = [#qmlir.weights<tensor<1x1xf64>, [1.0]>]} : tensor<2xf32> -> tensor<1xf32>

// -----

%x = "test.op"() : () -> tensor<2xf32>
// i2_shape: expected-error@+1 {{'nn.resize' needs taps [O, T] of int64 and weights [O, T] of float64 along axis 0, got int64 [1, 1] and float32 [1, 1]}}
%0 = nn.resize %x {axes = array<i64: 0>, taps = [#qmlir.weights<tensor<1x1xi64>, [0]>], weights = [#qmlir.weights<tensor<1x1xf32>, [1.0]>]} : tensor<2xf32> -> tensor<1xf32>

// -----

%x = "test.op"() : () -> tensor<2xf32>
// i3_outside: expected-error@+1 {{'nn.resize' reads outside axis 0 of [2]}}
%0 = nn.resize %x {axes = array<i64: 0>, taps = [#qmlir.weights<tensor<1x1xi64>, [2]>], weights = [#qmlir.weights<tensor<1x1xf64>, [1.0]>]} : tensor<2xf32> -> tensor<1xf32>
