// The pass as a whole: where integers meet what is not, and twice is once. Each family has a file of its own.

// RUN: qmlir-opt --nn-to-qint %s | filecheck %s
// RUN: qmlir-opt --nn-to-qint --nn-to-qint %s | filecheck %s

!a = !quant.uniform<i8:f32, 0.5:3>

// Casts to and from float keep their quantized side; one value has one cast, however often it is read.
// CHECK-LABEL: func.func @boundary
// CHECK-NEXT: %[[Q:.*]] = quant.qcast %x : tensor<4xf32> to tensor<4x!quant.uniform<i8:f32, 5.000000e-01:3>>
// CHECK-NEXT: %[[I:.*]] = quant.scast %[[Q]]
// CHECK-NEXT: %[[R:.*]] = qint.requantize %[[I]]
// CHECK-NEXT: %[[S:.*]] = quant.scast %[[R]]
// CHECK-NEXT: %[[F:.*]] = quant.dcast %[[S]]
// CHECK-NEXT: func.return %[[F]], %[[S]], %[[S]], %[[Q]]
func.func @boundary(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4x!a>, tensor<4x!a>, tensor<4x!a>) {
  %0 = quant.qcast %x : tensor<4xf32> to tensor<4x!a>
  %1 = nn.relu %0 : tensor<4x!a> -> tensor<4x!a>
  %2 = quant.dcast %1 : tensor<4x!a> to tensor<4xf32>
  func.return %2, %1, %1, %0 : tensor<4xf32>, tensor<4x!a>, tensor<4x!a>, tensor<4x!a>
}

!s = !quant.uniform<i8:f32, 3.90625e-03:-128>

// A fallback: a normalization on quantized types is computed in f32 between casts, and says why.
// CHECK-LABEL: func.func @fallback
// CHECK: %[[R:.*]] = qint.requantize
// CHECK-NEXT: %[[S:.*]] = quant.scast %[[R]]
// CHECK-NEXT: %[[F:.*]] = quant.dcast %[[S]]
// CHECK-NEXT: %[[M:.*]] = nn.lp_normalization %[[F]] {{.*}}#qmlir.decision<float, "target", "its division by a sum of magnitudes has no integer form on this target">{{.*}} : tensor<1x4xf32> -> tensor<1x4xf32>
// CHECK-NEXT: %[[Q:.*]] = quant.qcast %[[M]]
// CHECK-NEXT: %[[I:.*]] = quant.scast %[[Q]]
// CHECK-NEXT: nn.reshape %[[I]]
func.func @fallback(%x: tensor<1x4x!a>) -> tensor<4x!s> {
  %0 = nn.relu %x : tensor<1x4x!a> -> tensor<1x4x!a>
  %1 = nn.lp_normalization %0 {axis = 1 : i64, p = 1 : i64, qmlir.name = #qmlir.name<nodes ["prob"]>} : tensor<1x4x!a> -> tensor<1x4x!s>
  %2 = nn.reshape %1 {shape = array<i64: 4>} : tensor<1x4x!s> -> tensor<4x!s>
  func.return %2 : tensor<4x!s>
}

// Float networks, integers, quantized values that nobody computes on, other functions.
// CHECK-LABEL: func.func @untouched
// CHECK-NEXT: %[[R:.*]] = nn.relu %x : tensor<4xf32>
// CHECK-NEXT: func.return %[[R]], %q
// CHECK-LABEL: func.func private @other
// CHECK: qint.requantize
// CHECK: func.func private @declared
func.func @untouched(%x: tensor<4xf32>, %q: tensor<4x!a>) -> (tensor<4xf32>, tensor<4x!a>) {
  %0 = nn.relu %x : tensor<4xf32> -> tensor<4xf32>
  func.return %0, %q : tensor<4xf32>, tensor<4x!a>
}
func.func private @other(%q: tensor<4x!a>) -> tensor<4x!a> {
  %0 = nn.relu %q : tensor<4x!a> -> tensor<4x!a>
  func.return %0 : tensor<4x!a>
}
func.func private @declared(tensor<4x!a>) -> tensor<4x!a>
