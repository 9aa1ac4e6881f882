// RUN: qmlir-opt --weights=inline --qint-to-npu=device=vta --split-input-file %s | filecheck %s

// An array without a unit for depthwise convolutions: groups of as many channels as a vector has, with zeros between
// channels that were apart.
func.func @depthwise(%x: tensor<1x64x64x32xi8>) -> tensor<1x62x62x32xi8> {
  %w = nn.constant <tensor<1x3x3x32xi8>, "0x010203040501020304050102030405010203040501020304050102030405010203040501020304050102030405010203040501020304050102030405010203040501020304050102030405010203040501020304050102030405010203040501020304050102030405010203040501020304050102030405010203040501020304050102030405010203040501020304050102030405010203040501020304050102030405010203040501020304050102030405010203040501020304050102030405010203040501020304050102030405010203040501020304050102030405010203040501020304050102030405010203040501020304050102030405010203040501020304050102030405010203040501020304050102030405010203"> : tensor<1x3x3x32xi8>
  %acc = qint.depthwise_conv2d %x, %w : tensor<1x64x64x32xi8>, tensor<1x3x3x32xi8> -> tensor<1x62x62x32xi32>
  %y = qint.requantize %acc {qmlir.name = #qmlir.name<nodes ["dw"]>, qmlir.decision = #qmlir.decision<quantized, "integer", "i8 activations">, multiplier = array<i32: 1073741824>, shift = array<i32: -4>, contract = "shift", min = -128 : i32, max = 127 : i32} : tensor<1x62x62x32xi32> -> tensor<1x62x62x32xi8>
  func.return %y : tensor<1x62x62x32xi8>
}
// CHECK-LABEL: func.func @depthwise
// CHECK-NOT:  npu.host
// CHECK:      %y = npu.layer "dw"
// CHECK-NEXT: nn.constant <tensor<32x3x3x16xi8>
// CHECK-NEXT: qint.conv2d {{.*}} {groups = 2 : i64}
// CHECK-NEXT: qint.requantize {{.*}} "device", "i8 activations; vta computes it, as a convolution of 2 groups of 16 channels, 16 times its MACs with zeros between channels that were apart"

// -----

// A window beyond what a command may meet: maxima along the rows, then along the columns, a layer each.
func.func @maxima(%x: tensor<1x70x70x16xi8>) -> tensor<1x1x1x16xi8> {
  %y = qint.max_pool2d %x {window = array<i64: 70, 70>} : tensor<1x70x70x16xi8> -> tensor<1x1x1x16xi8>
  func.return %y : tensor<1x1x1x16xi8>
}
// CHECK-LABEL: func.func @maxima
// CHECK-NOT:  npu.host
// CHECK:      %{{.*}} = npu.layer {{.*}} -> (tensor<1x1x70x16xi8>) {
// CHECK-NEXT: qint.max_pool2d {{.*}} {{[{].*}}window = array<i64: 70, 1>
// CHECK:      %y = npu.layer {{.*}} -> (tensor<1x1x1x16xi8>) {
// CHECK-NEXT: qint.max_pool2d {{.*}} {{[{].*}}window = array<i64: 1, 70>

// -----

// The mean of 64 elements whose halves are rounded up is what a shift makes of their sum.
func.func @mean(%x: tensor<1x8x8x16xi8>) -> tensor<1x1x1x16xi8> {
  %y = qint.average_pool2d %x {window = array<i64: 8, 8>, offset = 128 : i32} : tensor<1x8x8x16xi8> -> tensor<1x1x1x16xi8>
  func.return %y : tensor<1x1x1x16xi8>
}
// CHECK-LABEL: func.func @mean
// CHECK-NOT:  npu.host
// CHECK:      %y = npu.layer
// CHECK-NEXT: qint.global_sum_pool
// CHECK-NEXT: qint.requantize {{.*}}multiplier = array<i32: 1073741824>, shift = array<i32: -5>, contract = "shift"
