// What qint.resize refuses: weights that are no integers, data that are too wide, bits dropped of short sums.

// RUN: qmlir-opt --split-input-file --verify-diagnostics %s

%x = "test.op"() : () -> tensor<2xi8>
// i2_weights: expected-error@+1 {{'qint.resize' needs taps [O, T] of int64 and weights [O, T] of int32 along axis 0, got int64 [1, 1] and float64 [1, 1]}}
%0 = qint.resize %x {axes = array<i64: 0>, taps = [#qmlir.weights<tensor<1x1xi64>, [0]>], weights = [#qmlir.weights<tensor<1x1xf64>, [1.0]>]} : tensor<2xi8> -> tensor<1xi32>

// -----

%x = "test.op"() : () -> tensor<2xi32>
// q2_width: expected-error@+1 {{'qint.resize' multiplies integers of at most 16 bits, got i32}}
%0 = qint.resize %x {axes = array<i64: 0>, taps = [#qmlir.weights<tensor<1x1xi64>, [0]>], weights = [#qmlir.weights<tensor<1x1xi32>, [1]>]} : tensor<2xi32> -> tensor<1xi32>

// -----

%x = "test.op"() : () -> tensor<2xi8>
// p1_dropped: expected-error@+1 {{'qint.resize' drops 0 to 0 bits of its sums, got 3}}
%0 = qint.resize %x {axes = array<i64: 0>, taps = [#qmlir.weights<tensor<1x1xi64>, [0]>], weights = [#qmlir.weights<tensor<1x1xi32>, [1]>], dropped = 3 : i32} : tensor<2xi8> -> tensor<1xi32>

// -----

%x = "test.op"() : () -> tensor<1x2x3xi32>
// p1: expected-error@+1 {{'qint.interpolate' needs integers of 8 or 16 bits, got i32}}
%0 = qint.interpolate %x {axes = array<i64: 1>, taps = [#qmlir.weights<tensor<1x2xi64>, [0, 1]>], weights = [#qmlir.weights<tensor<1x2xi32>, [3, 1]>], bits = array<i32: 2>, rounding = "half_away"} : tensor<1x2x3xi32> -> tensor<1x1x3xi32>

// -----

%x = "test.op"() : () -> tensor<1x2x3xi8>
// p2_bits: expected-error@+1 {{'qint.interpolate' needs bits from 0 to 30 for each axis, got [2, 2]}}
%0 = qint.interpolate %x {axes = array<i64: 1>, taps = [#qmlir.weights<tensor<1x2xi64>, [0, 1]>], weights = [#qmlir.weights<tensor<1x2xi32>, [3, 1]>], bits = array<i32: 2, 2>, rounding = "half_away"} : tensor<1x2x3xi8> -> tensor<1x1x3xi8>

// -----

%x = "test.op"() : () -> tensor<1x2x3xi8>
// p2_sum: expected-error@+1 {{'qint.interpolate' needs weights that are parts of 1 = 2^3 along axis 1}}
%0 = qint.interpolate %x {axes = array<i64: 1>, taps = [#qmlir.weights<tensor<1x2xi64>, [0, 1]>], weights = [#qmlir.weights<tensor<1x2xi32>, [3, 1]>], bits = array<i32: 3>, rounding = "half_away"} : tensor<1x2x3xi8> -> tensor<1x1x3xi8>

// -----

%x = "test.op"() : () -> tensor<1x2x3xi8>
// p2_negative: expected-error@+1 {{'qint.interpolate' needs weights that are parts of 1 = 2^2 along axis 1}}
%0 = qint.interpolate %x {axes = array<i64: 1>, taps = [#qmlir.weights<tensor<1x2xi64>, [0, 1]>], weights = [#qmlir.weights<tensor<1x2xi32>, [5, -1]>], bits = array<i32: 2>, rounding = "half_away"} : tensor<1x2x3xi8> -> tensor<1x1x3xi8>

// -----

%x = "test.op"() : () -> tensor<1x2x3xi8>
// p3: expected-error@+1 {{'qint.interpolate' rounds half_up, half_away, float32, float32_product, got down}}
%0 = qint.interpolate %x {axes = array<i64: 1>, taps = [#qmlir.weights<tensor<1x2xi64>, [0, 1]>], weights = [#qmlir.weights<tensor<1x2xi32>, [3, 1]>], bits = array<i32: 2>, rounding = "down"} : tensor<1x2x3xi8> -> tensor<1x1x3xi8>

// -----

%x = "test.op"() : () -> tensor<1x2x3xi8>
// p3_significant: expected-error@+1 {{'qint.interpolate' needs weights of 24 significant bits along axis 1}}
%0 = qint.interpolate %x {axes = array<i64: 1>, taps = [#qmlir.weights<tensor<1x2xi64>, [0, 1]>], weights = [#qmlir.weights<tensor<1x2xi32>, [134217729, 1]>], bits = array<i32: 28>, rounding = "float32"} : tensor<1x2x3xi8> -> tensor<1x1x3xi8>

// -----

%x = "test.op"() : () -> tensor<1x2x3xi8>
// p4: expected-error@+1 {{'qint.interpolate' has sums beyond its bits: 16777343}}
%0 = qint.interpolate %x {axes = array<i64: 1>, taps = [#qmlir.weights<tensor<1x2xi64>, [0, 1]>], weights = [#qmlir.weights<tensor<1x2xi32>, [3, 1]>], bits = array<i32: 2>, rounding = "float32", offset = 16777216 : i32} : tensor<1x2x3xi8> -> tensor<1x1x3xi8>
