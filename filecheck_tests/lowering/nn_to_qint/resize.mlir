// RUN: qmlir-opt --nn-to-qint --inline-weights --split-input-file %s | filecheck %s

!a = !quant.uniform<i8:f32, 0.5:3>
!b = !quant.uniform<i8:f32, 0.25>

// Weights in multiples of 2^-15 whose rows add up; then one change of scale.
// CHECK-LABEL: func.func @linear
// CHECK: %[[S:.*]] = qint.resize %{{.*}} {axes = array<i64: 0>, taps = [#qmlir.weights<tensor<1x2xi64>, [0, 1]>], weights = [#qmlir.weights<tensor<1x2xi32>, [10923, 21845]>], zero_point = 3 : i32} : tensor<2xi8> -> tensor<1xi32>
// CHECK-NEXT: qint.requantize %[[S]] {{{.*}}multiplier = array<i32: 1073741824>, shift = array<i32: -13>
func.func @linear(%x: tensor<2x!a>) -> tensor<1x!b> {
  %0 = nn.resize %x {axes = array<i64: 0>, taps = [#qmlir.weights<tensor<1x2xi64>, [0, 1]>], weights = [#qmlir.weights<tensor<1x2xf64>, [0.3333333333333333, 0.6666666666666667]>]} : tensor<2x!a> -> tensor<1x!b>
  func.return %0 : tensor<1x!b>
}

// Along three axes 32 bits are too few for thirds: sums have 64, and the last bits of longer sums are dropped.
// CHECK-LABEL: func.func @volume
// CHECK: %[[S:.*]] = qint.resize {{.*}}dropped = {{[0-9]+}} : i32} : tensor<2x2x2xi8> -> tensor<1x1x1xi64>
// CHECK-NEXT: qint.requantize %[[S]] {{.*}}contract = "single64"
func.func @volume(%x: tensor<2x2x2x!a>) -> tensor<1x1x1x!b> {
  %0 = nn.resize %x {axes = array<i64: 0, 1, 2>, taps = [#qmlir.weights<tensor<1x2xi64>, [0, 1]>, #qmlir.weights<tensor<1x2xi64>, [0, 1]>, #qmlir.weights<tensor<1x2xi64>, [0, 1]>], weights = [#qmlir.weights<tensor<1x2xf64>, [0.3333333333333333, 0.6666666666666667]>, #qmlir.weights<tensor<1x2xf64>, [0.3333333333333333, 0.6666666666666667]>, #qmlir.weights<tensor<1x2xf64>, [0.3333333333333333, 0.6666666666666667]>]} : tensor<2x2x2x!a> -> tensor<1x1x1x!b>
  func.return %0 : tensor<1x1x1x!b>
}

// -----

// LiteRT's reference kernel has places of 10 bits; of unsigned integers it computes in float32. XNNPACK has weights of 11
// bits. All of it where the tables are those of TFLite's places: two rows become three, 0, 2/3 and 4/3.
!a = !quant.uniform<i8:f32, 0.5:3>
!u = !quant.uniform<u8:f32, 0.5:3>

module attributes {qmlir.numerics = "litert-reference"} {
// CHECK-LABEL: func.func @reference
// CHECK: qint.interpolate {{.*}}bits = array<i32: 10>, rounding = "half_away"}
// CHECK: qint.interpolate {{.*}}bits = array<i32: 30>, rounding = "float32", offset = 128 : i32}
func.func @reference(%x: tensor<1x2x4x1x!a>, %y: tensor<1x2x4x1x!u>) -> (tensor<1x3x4x1x!a>, tensor<1x3x4x1x!u>) {
  %0 = nn.resize %x {axes = array<i64: 1>, taps = [#qmlir.weights<tensor<3x2xi64>, [0, 1, 0, 1, 1, 1]>], weights = [#qmlir.weights<tensor<3x2xf64>, [1.0, 0.0, 0.3333333134651184, 0.6666666865348816, 0.6666666269302368, 0.3333333730697632]>]} : tensor<1x2x4x1x!a> -> tensor<1x3x4x1x!a>
  %1 = nn.resize %y {axes = array<i64: 1>, taps = [#qmlir.weights<tensor<3x2xi64>, [0, 1, 0, 1, 1, 1]>], weights = [#qmlir.weights<tensor<3x2xf64>, [1.0, 0.0, 0.3333333134651184, 0.6666666865348816, 0.6666666269302368, 0.3333333730697632]>]} : tensor<1x2x4x1x!u> -> tensor<1x3x4x1x!u>
  func.return %0, %1 : tensor<1x3x4x1x!a>, tensor<1x3x4x1x!u>
}
}

// -----

// The optimized kernel multiplies the weights first.
!u = !quant.uniform<u8:f32, 0.5:3>

module attributes {qmlir.numerics = "litert-builtin"} {
// CHECK-LABEL: func.func @builtin
// CHECK: qint.interpolate {{.*}}bits = array<i32: 30>, rounding = "float32_product", offset = 128 : i32}
func.func @builtin(%y: tensor<1x2x4x1x!u>) -> tensor<1x3x4x1x!u> {
  %1 = nn.resize %y {axes = array<i64: 1>, taps = [#qmlir.weights<tensor<3x2xi64>, [0, 1, 0, 1, 1, 1]>], weights = [#qmlir.weights<tensor<3x2xf64>, [1.0, 0.0, 0.3333333134651184, 0.6666666865348816, 0.6666666269302368, 0.3333333730697632]>]} : tensor<1x2x4x1x!u> -> tensor<1x3x4x1x!u>
  func.return %1 : tensor<1x3x4x1x!u>
}
}

// -----

// Of 16 bits sums have 64, and are rounded at once.
!w = !quant.uniform<i16:f32, 0.5>

// CHECK-LABEL: func.func @wide
// CHECK: qint.interpolate {{.*}}weights = [#qmlir.weights<tensor<1x2xi32>, [24576, 8192]>], bits = array<i32: 15>, rounding = "half_up"}
func.func @wide(%x: tensor<1x2x4x!w>) -> tensor<1x1x4x!w> {
  %0 = nn.resize %x {axes = array<i64: 1>, taps = [#qmlir.weights<tensor<1x2xi64>, [0, 1]>], weights = [#qmlir.weights<tensor<1x2xf64>, [0.75, 0.25]>]} : tensor<1x2x4x!w> -> tensor<1x1x4x!w>
  func.return %0 : tensor<1x1x4x!w>
}

// -----

// Along four axes 64 bits are too few for thirds of words: it stays float, and says why.
!w = !quant.uniform<i16:f32, 0.5>
!v = !quant.uniform<i16:f32, 0.25>

// CHECK-LABEL: func.func @four
// CHECK: nn.resize {{.*}}#qmlir.decision<float, "target", "its weights in {{[0-9]+}} bits would be up to {{.*}} steps of its result off">
func.func @four(%x: tensor<2x2x2x2x!w>) -> tensor<1x1x1x1x!v> {
  %0 = nn.resize %x {axes = array<i64: 0, 1, 2, 3>, taps = [#qmlir.weights<tensor<1x2xi64>, [0, 1]>, #qmlir.weights<tensor<1x2xi64>, [0, 1]>, #qmlir.weights<tensor<1x2xi64>, [0, 1]>, #qmlir.weights<tensor<1x2xi64>, [0, 1]>], weights = [#qmlir.weights<tensor<1x2xf64>, [0.3333333333333333, 0.6666666666666667]>, #qmlir.weights<tensor<1x2xf64>, [0.3333333333333333, 0.6666666666666667]>, #qmlir.weights<tensor<1x2xf64>, [0.3333333333333333, 0.6666666666666667]>, #qmlir.weights<tensor<1x2xf64>, [0.3333333333333333, 0.6666666666666667]>]} : tensor<2x2x2x2x!w> -> tensor<1x1x1x1x!v>
  func.return %0 : tensor<1x1x1x1x!v>
}
