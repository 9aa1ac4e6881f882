// RUN: qmlir-opt --qint-to-tosa --weights=elide %s | filecheck %s

// A guess, and two comparisons with the thresholds beside it; the u8 leaves as the i8 of its bits.
// CHECK-LABEL: func.func @quantize(%{{.*}}: tensor<4xf32>) -> tensor<4xi8>
// CHECK: "tosa.equal"
// CHECK: "tosa.select"
// CHECK: "tosa.mul"
// CHECK: "tosa.cast"({{.*}}) : (tensor<4xf32>) -> tensor<4xi32>
// CHECK-COUNT-2: "tosa.gather"({{.*}}) : (tensor<1x257x1xf32>, tensor<1x4xi32>) -> tensor<1x4x1xf32>
// CHECK: dense<-256>
// CHECK: "tosa.cast"({{.*}}) : (tensor<4xi32>) -> tensor<4xi8>
func.func @quantize(%x: tensor<4xf32>) -> tensor<4x!quant.uniform<u8:f32, 0.5:200>> {
  %q = quant.qcast %x : tensor<4xf32> to tensor<4x!quant.uniform<u8:f32, 0.5:200>>
  func.return %q : tensor<4x!quant.uniform<u8:f32, 0.5:200>>
}

// A table for each channel, one after the other.
// CHECK-LABEL: func.func @dequantize(%{{.*}}: tensor<2x3xi8>) -> tensor<2x3xf32>
// CHECK: dense<{{\[\[128\], \[384\]\]}}> : tensor<2x1xi32>
// CHECK: "tosa.gather"({{.*}}) : (tensor<1x512x1xf32>, tensor<1x6xi32>) -> tensor<1x6x1xf32>
func.func @dequantize(%i: tensor<2x3xi8>) -> tensor<2x3xf32> {
  %q = quant.scast %i : tensor<2x3xi8> to tensor<2x3x!quant.uniform<u8:f32:0, {0.5:200, 0.25}>>
  %y = quant.dcast %q : tensor<2x3x!quant.uniform<u8:f32:0, {0.5:200, 0.25}>> to tensor<2x3xf32>
  func.return %y : tensor<2x3xf32>
}
