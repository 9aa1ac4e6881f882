// RUN: qmlir-opt --global-pools %s | filecheck %s

// CHECK-LABEL: func.func @whole
// CHECK: nn.global_average_pool %x {qmlir.name = #qmlir.name<nodes ["pool"], tensors ["mean"]>} : tensor<1x4x3x2xf32> -> tensor<1x1x1x2xf32>
func.func @whole(%x: tensor<1x4x3x2xf32>) -> tensor<1x1x1x2xf32> {
  %y = nn.average_pool2d %x {window = array<i64: 4, 3>, strides = array<i64: 4, 3>, qmlir.name = #qmlir.name<nodes ["pool"], tensors ["mean"]>} : tensor<1x4x3x2xf32> -> tensor<1x1x1x2xf32>
  func.return %y : tensor<1x1x1x2xf32>
}

// Not all of the image, or all of it and some of the padding.
// CHECK-LABEL: func.func @part
// CHECK: nn.average_pool2d
// CHECK: nn.average_pool2d
func.func @part(%x: tensor<1x4x4x2xf32>) -> (tensor<1x1x1x2xf32>, tensor<1x1x1x2xf32>) {
  %y = nn.average_pool2d %x {window = array<i64: 3, 4>, strides = array<i64: 4, 4>} : tensor<1x4x4x2xf32> -> tensor<1x1x1x2xf32>
  %z = nn.average_pool2d %x {window = array<i64: 5, 4>, padding = array<i64: 1, 0, 0, 0>} : tensor<1x4x4x2xf32> -> tensor<1x1x1x2xf32>
  func.return %y, %z : tensor<1x1x1x2xf32>, tensor<1x1x1x2xf32>
}

// A model that came quantized keeps the rule it came with: operand and result of one scale.
// CHECK-LABEL: func.func @imported
// CHECK: nn.average_pool2d
func.func @imported(%x: tensor<1x2x2x1x!quant.uniform<i8:f32, 0.5>>) -> tensor<1x1x1x1x!quant.uniform<i8:f32, 0.5>> {
  %0 = quant.dcast %x : tensor<1x2x2x1x!quant.uniform<i8:f32, 0.5>> to tensor<1x2x2x1xf32>
  %1 = nn.average_pool2d %0 {window = array<i64: 2, 2>} : tensor<1x2x2x1xf32> -> tensor<1x1x1x1xf32>
  %2 = quant.qcast %1 : tensor<1x1x1x1xf32> to tensor<1x1x1x1x!quant.uniform<i8:f32, 0.5>>
  func.return %2 : tensor<1x1x1x1x!quant.uniform<i8:f32, 0.5>>
}
