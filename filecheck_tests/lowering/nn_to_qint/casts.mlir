// A runtime's way to quantize floats is said on each cast.

// RUN: qmlir-opt --nn-to-qint --elide-weights --split-input-file %s | filecheck %s

// CHECK-LABEL: func.func @reference
// CHECK: quant.qcast %x {qmlir.quantization = "float32_away"}
builtin.module attributes {qmlir.numerics = "litert-reference"} {
  func.func @reference(%x: tensor<4xf32>) -> tensor<4x!quant.uniform<i8:f32, 0.5:3>> {
    %0 = quant.qcast %x : tensor<4xf32> to tensor<4x!quant.uniform<i8:f32, 0.5:3>>
    func.return %0 : tensor<4x!quant.uniform<i8:f32, 0.5:3>>
  }
}

// -----

// CHECK-LABEL: func.func @xnnpack
// CHECK: quant.qcast %x {qmlir.quantization = "float32_reciprocal"}
builtin.module attributes {qmlir.numerics = "litert-xnnpack"} {
  func.func @xnnpack(%x: tensor<4xf32>) -> tensor<4x!quant.uniform<i8:f32, 0.5:3>> {
    %0 = quant.qcast %x : tensor<4xf32> to tensor<4x!quant.uniform<i8:f32, 0.5:3>>
    func.return %0 : tensor<4x!quant.uniform<i8:f32, 0.5:3>>
  }
}

// -----

// The optimized kernels compute the last elements, fewer than eight, in another way; of unsigned bytes they multiply the
// integers of the source model.
// CHECK-LABEL: func.func @builtin
// CHECK: quant.dcast {{.*}}qmlir.quantization = "float32_apart", qmlir.rest = "exact", qmlir.unsigned = 128 : i32
// CHECK: nn.reduce_sum {{.*}}qmlir.addition = "float32"
// CHECK: quant.qcast {{.*}}qmlir.quantization = "float32_reciprocal", qmlir.rest = "exact_away"
// CHECK: quant.qcast %y {qmlir.quantization = "float32_reciprocal"}
builtin.module attributes {qmlir.numerics = "litert-builtin"} {
  func.func @builtin(%x: tensor<3x4x!quant.uniform<u8:f32, 0.5:131>>, %y: tensor<8xf32>) -> (tensor<3x1x!quant.uniform<i8:f32, 0.5:3>>, tensor<8x!quant.uniform<i8:f32, 0.5:3>>) {
    %0 = quant.dcast %x : tensor<3x4x!quant.uniform<u8:f32, 0.5:131>> to tensor<3x4xf32>
    %1 = nn.reduce_sum %0 {axes = array<i64: 1>} : tensor<3x4xf32> -> tensor<3x1xf32>
    %2 = quant.qcast %1 : tensor<3x1xf32> to tensor<3x1x!quant.uniform<i8:f32, 0.5:3>>
    %3 = quant.qcast %y : tensor<8xf32> to tensor<8x!quant.uniform<i8:f32, 0.5:3>>
    func.return %2, %3 : tensor<3x1x!quant.uniform<i8:f32, 0.5:3>>, tensor<8x!quant.uniform<i8:f32, 0.5:3>>
  }
}

// -----

// XNNPACK adds along the last axis in an order that is not followed.
// CHECK-LABEL: func.func @sums
// CHECK: nn.reduce_mean %x {qmlir.addition = "float32_reciprocal", axes = array<i64: 1>}
// CHECK: nn.reduce_mean %x {axes = array<i64: 2>}
// CHECK: nn.cumulative_sum %x {qmlir.addition = "float32"
builtin.module attributes {qmlir.numerics = "litert-xnnpack"} {
  func.func @sums(%x: tensor<3x4x5xf32>) -> (tensor<3x1x5xf32>, tensor<3x4x1xf32>, tensor<3x4x5xf32>) {
    %0 = nn.reduce_mean %x {axes = array<i64: 1>} : tensor<3x4x5xf32> -> tensor<3x1x5xf32>
    %1 = nn.reduce_mean %x {axes = array<i64: 2>} : tensor<3x4x5xf32> -> tensor<3x4x1xf32>
    %2 = nn.cumulative_sum %x {axis = 1 : i64} : tensor<3x4x5xf32> -> tensor<3x4x5xf32>
    func.return %0, %1, %2 : tensor<3x1x5xf32>, tensor<3x4x1xf32>, tensor<3x4x5xf32>
  }
}

// -----

// CHECK-LABEL: func.func @default
// CHECK: quant.qcast %x : tensor
func.func @default(%x: tensor<4xf32>) -> tensor<4x!quant.uniform<i8:f32, 0.5:3>> {
  %0 = quant.qcast %x : tensor<4xf32> to tensor<4x!quant.uniform<i8:f32, 0.5:3>>
  func.return %0 : tensor<4x!quant.uniform<i8:f32, 0.5:3>>
}

// -----

!a = !quant.uniform<i8:f32, 0.5:3>

// Truth values become quantized by a choice, plain integers by a table of those within the range; others saturate.
// CHECK-LABEL: func.func @into
// CHECK-DAG: %[[F:.*]] = nn.constant <tensor<i8>, [3]>
// CHECK-DAG: %[[T:.*]] = nn.constant <tensor<i8>, [5]>
// CHECK: nn.where %t, %[[T]], %[[F]] : tensor<4xi1>, tensor<i8>, tensor<i8> -> tensor<4xi8>
// CHECK: nn.maximum %i
// CHECK: nn.minimum
// CHECK: %[[I:.*]] = nn.cast {{.*}} : tensor<4xi64> -> tensor<4xi8>
// CHECK: qint.lookup %[[I]], {{.*}} : tensor<4xi8> -> tensor<4xi8>
func.func @into(%t: tensor<4xi1>, %i: tensor<4xi64>) -> (tensor<4x!a>, tensor<4x!a>) {
  %0 = nn.cast %t : tensor<4xi1> -> tensor<4xf32>
  %1 = quant.qcast %0 : tensor<4xf32> to tensor<4x!a>
  %2 = nn.cast %i : tensor<4xi64> -> tensor<4xf32>
  %3 = quant.qcast %2 : tensor<4xf32> to tensor<4x!a>
  func.return %1, %3 : tensor<4x!a>, tensor<4x!a>
}

// -----

!a = !quant.uniform<i8:f32, 0.5:3>

// Quantized numbers become integers by a table, truth values by a comparison with the zero point.
// CHECK-LABEL: func.func @out_of
// CHECK: %[[X:.*]] = quant.scast %x
// CHECK: %[[I:.*]] = qint.lookup %[[X]], {{.*}} : tensor<4xi8> -> tensor<4xi32>
// CHECK: nn.cast %[[I]] : tensor<4xi32> -> tensor<4xi64>
// CHECK: %[[Z:.*]] = nn.constant <tensor<i8>, [3]>
// CHECK: %[[E:.*]] = nn.equal %[[X]], %[[Z]]
// CHECK: nn.not %[[E]]
func.func @out_of(%x: tensor<4x!a>) -> (tensor<4xi64>, tensor<4xi1>) {
  %0 = quant.dcast %x : tensor<4x!a> to tensor<4xf32>
  %1 = nn.cast %0 : tensor<4xf32> -> tensor<4xi64>
  %2 = nn.cast %0 : tensor<4xf32> -> tensor<4xi1>
  func.return %1, %2 : tensor<4xi64>, tensor<4xi1>
}

// -----

!far = !quant.uniform<i8:f32, 1000.0>

// Integers beyond 16 bits have no table, and unsigned integers neither: the casts stay.
// CHECK-LABEL: func.func @no_table
// CHECK: nn.cast %i : tensor<4xi64> -> tensor<4xf32>
// CHECK: nn.cast %u : tensor<4xui8> -> tensor<4xf32>
func.func @no_table(%i: tensor<4xi64>, %u: tensor<4xui8>) -> (tensor<4x!far>, tensor<4x!quant.uniform<i8:f32, 0.5>>) {
  %0 = nn.cast %i : tensor<4xi64> -> tensor<4xf32>
  %1 = quant.qcast %0 : tensor<4xf32> to tensor<4x!far>
  %2 = nn.cast %u : tensor<4xui8> -> tensor<4xf32>
  %3 = quant.qcast %2 : tensor<4xf32> to tensor<4x!quant.uniform<i8:f32, 0.5>>
  func.return %1, %3 : tensor<4x!far>, tensor<4x!quant.uniform<i8:f32, 0.5>>
}
