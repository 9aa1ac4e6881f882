// RUN: qmlir-opt --qint-to-linalg %s | filecheck %s

// Half to even, by one scale; the function's own quantized result is its stored integers.
// CHECK-LABEL: func.func @quantize(%{{.*}}: tensor<4xf32>) -> tensor<4xi8>
// CHECK: arith.divf %{{.*}}, %{{.*}} : f64
// CHECK: math.roundeven
// CHECK: arith.maxnumf
// CHECK: arith.fptosi
// CHECK: arith.trunci %{{.*}} : i32 to i8
func.func @quantize(%x: tensor<4xf32>) -> tensor<4x!quant.uniform<u8:f32, 0.5:200>> {
  %q = quant.qcast %x : tensor<4xf32> to tensor<4x!quant.uniform<u8:f32, 0.5:200>>
  func.return %q : tensor<4x!quant.uniform<u8:f32, 0.5:200>>
}

// CHECK-LABEL: func.func @dequantize(%{{.*}}: tensor<2x3xi8>) -> tensor<2x3xf32>
// CHECK: arith.constant dense<{{.*}}> : tensor<2x1xf64>
// CHECK: arith.extui %{{.*}} : i8 to i64
// CHECK: arith.truncf %{{.*}} : f64 to f32
func.func @dequantize(%i: tensor<2x3xi8>) -> tensor<2x3xf32> {
  %q = quant.scast %i : tensor<2x3xi8> to tensor<2x3x!quant.uniform<u8:f32:0, {0.5:200, 0.25}>>
  %y = quant.dcast %q : tensor<2x3x!quant.uniform<u8:f32:0, {0.5:200, 0.25}>> to tensor<2x3xf32>
  func.return %y : tensor<2x3xf32>
}

// ONNX's quotient is one of f32.
// CHECK-LABEL: func.func @quantize_in_float32
// CHECK: %[[S:.*]] = arith.constant 5.000000e-01 : f32
// CHECK: %[[Q:.*]] = arith.divf %{{.*}}, %[[S]] : f32
// CHECK: arith.extf %[[Q]] : f32 to f64
func.func @quantize_in_float32(%x: tensor<4xf32>) -> tensor<4x!quant.uniform<u8:f32, 0.5:200>> {
  %q = quant.qcast %x {qmlir.quantization = "float32"} : tensor<4xf32> to tensor<4x!quant.uniform<u8:f32, 0.5:200>>
  func.return %q : tensor<4x!quant.uniform<u8:f32, 0.5:200>>
}
