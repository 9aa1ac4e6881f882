// What qint.resize refuses: weights that are no integers, data that are too wide.

// RUN: qmlir-opt --split-input-file --verify-diagnostics %s

func.func @i2_weights(%x: tensor<2xi8>) {
  // expected-error@+1 {{'qint.resize' needs taps [O, T] of int64 and weights [O, T] of int32 along axis 0, got int64 [1, 1] and float64 [1, 1]}}
  %0 = qint.resize %x {axes = array<i64: 0>, taps = [#qmlir.weights<tensor<1x1xi64>, [0]>], weights = [#qmlir.weights<tensor<1x1xf64>, [1.0]>]} : tensor<2xi8> -> tensor<1xi32>
  func.return
}

// -----

func.func @q2_width(%x: tensor<2xi32>) {
  // expected-error@+1 {{'qint.resize' multiplies integers of at most 16 bits, got i32}}
  %0 = qint.resize %x {axes = array<i64: 0>, taps = [#qmlir.weights<tensor<1x1xi64>, [0]>], weights = [#qmlir.weights<tensor<1x1xi32>, [1]>]} : tensor<2xi32> -> tensor<1xi32>
  func.return
}
