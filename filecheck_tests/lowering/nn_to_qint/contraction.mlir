// RUN: qmlir-opt --nn-to-qint --elide-weights --split-input-file %s | filecheck %s

!x = !quant.uniform<i8:f32, 0.5:3>
!w = !quant.uniform<i8<-127:127>:f32:0, {0.5,0.25}>
!b = !quant.uniform<i32:f32:0, {0.25,0.125}>
!y = !quant.uniform<i8:f32, 1.0:-5>

// Sums in i32, then a multiplier and a shift for each channel; the fused clamp becomes stored bounds. Names and
// decision go with what yields the result.
// CHECK-LABEL: func.func @conv2d
// CHECK: %[[W:.*]] = nn.constant <tensor<2x1x1x1xi8>, [1, 2]> {qmlir.name = #qmlir.name<tensors ["kernel"]>} : tensor<2x1x1x1xi8>
// CHECK-NEXT: %[[B:.*]] = nn.constant <tensor<2xi32>, [3, 4]> : tensor<2xi32>
// CHECK-NEXT: %[[X:.*]] = quant.scast %x
// CHECK-NEXT: %[[A:.*]] = qint.conv2d %[[X]], %[[W]], %[[B]] {zero_point = 3 : i32, strides = array<i64: 2, 2>, padding = array<i64: 1, 1, 1, 1>} : tensor<1x4x4x1xi8>, tensor<2x1x1x1xi8>, tensor<2xi32> -> tensor<1x3x3x2xi32>
// CHECK-NEXT: %[[Y:.*]] = qint.requantize %[[A]] {qmlir.decision = #qmlir.decision<quantized, "integer", "yes">, multiplier = array<i32: 1073741824, 1073741824>, shift = array<i32: -1, -2>, contract = "single", zero_point = -5 : i32, min = -5 : i32, max = 1 : i32} : tensor<1x3x3x2xi32> -> tensor<1x3x3x2xi8>
func.func @conv2d(%x: tensor<1x4x4x1x!x>) -> tensor<1x3x3x2x!y> {
  %w = nn.constant <tensor<2x1x1x1xi8>, [1, 2]> {qmlir.name = #qmlir.name<tensors ["kernel"]>} : tensor<2x1x1x1x!w>
  %b = nn.constant <tensor<2xi32>, [3, 4]> : tensor<2x!b>
  %y = nn.conv2d %x, %w, %b {strides = array<i64: 2, 2>, padding = array<i64: 1, 1, 1, 1>, min = 0.0 : f32, max = 6.0 : f32, qmlir.decision = #qmlir.decision<quantized, "integer", "yes">} : tensor<1x4x4x1x!x>, tensor<2x1x1x1x!w>, tensor<2x!b> -> tensor<1x3x3x2x!y>
  func.return %y : tensor<1x3x3x2x!y>
}

// -----

!x = !quant.uniform<i8:f32, 0.5:3>
!w = !quant.uniform<i8<-127:127>:f32:3, {0.5,0.25}>
!v = !quant.uniform<i8<-127:127>:f32, 0.5>
!y = !quant.uniform<i8:f32, 1.0:-5>

// Depthwise weights count their channels last; without a bias; a plain i32 bias is one whose scale is implied.
// CHECK-LABEL: func.func @depthwise_and_fully_connected
// CHECK: qint.depthwise_conv2d %{{.*}}, %{{.*}} {zero_point = 3 : i32, dilations = array<i64: 2, 2>} : tensor<1x3x3x2xi8>, tensor<1x2x2x2xi8> -> tensor<1x1x1x2xi32>
// CHECK-NEXT: qint.requantize {{.*}}multiplier = array<i32: 1073741824, 1073741824>
// CHECK-NEXT: nn.reshape %{{.*}} : tensor<1x1x1x2xi8> -> tensor<1x2xi8>
// CHECK-NEXT: qint.fully_connected %{{.*}} {zero_point = -5 : i32} : tensor<1x2xi8>, tensor<1x2xi8>, tensor<1xi32> -> tensor<1x1xi32>
// CHECK-NEXT: qint.requantize {{.*}}multiplier = array<i32: 1073741824>, shift = array<i32: 1>
func.func @depthwise_and_fully_connected(%x: tensor<1x3x3x2x!x>) -> tensor<1x1x!x> {
  %w = nn.constant <tensor<1x2x2x2xi8>, [1, 2, 3, 4, 5, 6, 7, 8]> : tensor<1x2x2x2x!w>
  %v = nn.constant <tensor<1x2xi8>, [1, 2]> : tensor<1x2x!v>
  %b = nn.constant <tensor<1xi32>, [100]> : tensor<1xi32>
  %0 = nn.depthwise_conv2d %x, %w {dilations = array<i64: 2, 2>} : tensor<1x3x3x2x!x>, tensor<1x2x2x2x!w> -> tensor<1x1x1x2x!y>
  %1 = nn.reshape %0 {shape = array<i64: 1, 2>} : tensor<1x1x1x2x!y> -> tensor<1x2x!y>
  %2 = nn.fully_connected %1, %v, %b : tensor<1x2x!y>, tensor<1x2x!v>, tensor<1xi32> -> tensor<1x1x!x>
  func.return %2 : tensor<1x1x!x>
}

// -----

!x = !quant.uniform<i8:f32, 0.5:3>
!y = !quant.uniform<i8:f32, 0.5:-5>

// CHECK-LABEL: func.func @matmul
// CHECK: qint.matmul %{{.*}}, %{{.*}} {lhs_zero_point = 3 : i32, rhs_zero_point = -5 : i32} : tensor<2x3xi8>, tensor<3x2xi8> -> tensor<2x2xi32>
// CHECK-NEXT: qint.requantize {{.*}}min = -3 : i32, max = 127 : i32}
func.func @matmul(%a: tensor<2x3x!x>, %b: tensor<3x2x!y>) -> tensor<2x2x!y> {
  %0 = nn.matmul %a, %b {min = 1.0 : f32} : tensor<2x3x!x>, tensor<3x2x!y> -> tensor<2x2x!y>
  func.return %0 : tensor<2x2x!y>
}

// -----

// Data of 32 bits have sums of 64.
!x = !quant.uniform<i32<-1073741824:1073741824>:f32, 9.3132257461547852E-10>
!w = !quant.uniform<i8:f32, 0.5>
!y = !quant.uniform<i32:f32, 1.0E-7>

// CHECK-LABEL: func.func @words
// CHECK: qint.matmul %{{.*}}, %{{.*}} : tensor<2x3xi32>, tensor<3x2xi8> -> tensor<2x2xi64>
// CHECK-NEXT: qint.requantize %{{.*}}contract = "single64"
func.func @words(%a: tensor<2x3x!x>, %b: tensor<3x2x!w>) -> tensor<2x2x!y> {
  %0 = nn.matmul %a, %b : tensor<2x3x!x>, tensor<3x2x!w> -> tensor<2x2x!y>
  func.return %0 : tensor<2x2x!y>
}

// -----

// Computed weights are the right side of a product of two computed matrices, with their zero point; unsigned weights
// become signed ones.
!x = !quant.uniform<i8:f32, 0.5>
!zero = !quant.uniform<i8:f32, 0.5:1>
!u8 = !quant.uniform<u8:f32, 0.5>

// CHECK-LABEL: func.func @computed_weights
// CHECK: qint.matmul %{{.*}}, %{{.*}} {rhs_zero_point = 1 : i32} : tensor<1x2xi8>, tensor<2x2xi8> -> tensor<1x2xi32>
// CHECK: qint.matmul %{{.*}}, %{{.*}} {rhs_zero_point = -128 : i32} : tensor<1x2xi8>, tensor<2x2xi8> -> tensor<1x2xi32>
func.func @computed_weights(%x: tensor<1x2x!x>, %z: tensor<2x2x!zero>, %u: tensor<2x2x!u8>) -> (tensor<1x2x!x>, tensor<1x2x!x>) {
  %0 = nn.fully_connected %x, %z : tensor<1x2x!x>, tensor<2x2x!zero> -> tensor<1x2x!x>
  %1 = nn.fully_connected %x, %u : tensor<1x2x!x>, tensor<2x2x!u8> -> tensor<1x2x!x>
  func.return %0, %1 : tensor<1x2x!x>, tensor<1x2x!x>
}

// -----

// Without an integer form: computed weights with several zero points; a bias still float or computed.
!x = !quant.uniform<i8:f32, 0.5>
!zeros = !quant.uniform<i8:f32:0, {0.5:1,0.5:2}>
!w = !quant.uniform<i8:f32, 0.5>

// CHECK-LABEL: func.func @weights
// CHECK: nn.fully_connected %{{.*}}#qmlir.decision<float, "target", "computed weights with several zero points have no integer form">{{.*}} : tensor<1x2xf32>, tensor<2x2xf32> -> tensor<1x2xf32>
// CHECK: nn.fully_connected %{{.*}}#qmlir.decision<float, "bias", "its bias is still float; run --quantize-bias">{{.*}} : tensor<1x2xf32>, tensor<2x2xf32>, tensor<2xf32> -> tensor<1x2xf32>
// CHECK: nn.fully_connected %{{.*}}#qmlir.decision<float, "bias", "its bias is computed at run time; only a constant bias can be quantized">
// CHECK-NOT: qint.
func.func @weights(%x: tensor<1x2x!x>, %z: tensor<2x2x!zeros>, %w: tensor<2x2x!w>, %c: tensor<2xf32>) -> (tensor<1x2x!x>, tensor<1x2x!x>, tensor<1x2x!x>) {
  %b = nn.constant <tensor<2xf32>, [1.0, 2.0]> : tensor<2xf32>
  %0 = nn.fully_connected %x, %z : tensor<1x2x!x>, tensor<2x2x!zeros> -> tensor<1x2x!x>
  %3 = nn.fully_connected %x, %w, %b : tensor<1x2x!x>, tensor<2x2x!w>, tensor<2xf32> -> tensor<1x2x!x>
  %4 = nn.fully_connected %x, %w, %c : tensor<1x2x!x>, tensor<2x2x!w>, tensor<2xf32> -> tensor<1x2x!x>
  func.return %0, %3, %4 : tensor<1x2x!x>, tensor<1x2x!x>, tensor<1x2x!x>
}

// -----

// Constant weights lose their zero points, one for each channel here: i8 where the differences fit, else i16. A result
// in i32 of scale s_x·s_w is the sums themselves.
!u = !quant.uniform<u8:f32, 0.5:128>
!near = !quant.uniform<u8:f32:0, {0.5:1,0.25:2}>
!far = !quant.uniform<u8:f32, 0.5>
!acc = !quant.uniform<i32:f32, 0.25>

// CHECK-LABEL: func.func @zero_points
// CHECK: %[[X:.*]] = qint.lookup %{{.*}}, <tensor<256xi8>
// CHECK: %[[W:.*]] = nn.constant <tensor<2x2xi8>, [0, 1, 1, 2]>
// CHECK-NEXT: qint.fully_connected %[[X]], %[[W]] : tensor<1x2xi8>, tensor<2x2xi8> -> tensor<1x2xi32>
// CHECK: %[[V:.*]] = nn.constant <tensor<2x2xi16>, [255, 2, 3, 4]>
// CHECK-NEXT: %[[S:.*]] = qint.fully_connected %[[X]], %[[V]] : tensor<1x2xi8>, tensor<2x2xi16> -> tensor<1x2xi32>
// CHECK: quant.scast %[[S]] : tensor<1x2xi32> to tensor<1x2x!quant.uniform<i32:f32, 2.500000e-01>>
func.func @zero_points(%x: tensor<1x2x!u>) -> (tensor<1x2x!u>, tensor<1x2x!acc>) {
  %w = nn.constant <tensor<2x2xui8>, [1, 2, 3, 4]> : tensor<2x2x!near>
  %v = nn.constant <tensor<2x2xui8>, [255, 2, 3, 4]> : tensor<2x2x!far>
  %0 = nn.fully_connected %x, %w : tensor<1x2x!u>, tensor<2x2x!near> -> tensor<1x2x!u>
  %1 = nn.fully_connected %x, %v : tensor<1x2x!u>, tensor<2x2x!far> -> tensor<1x2x!acc>
  func.return %0, %1 : tensor<1x2x!u>, tensor<1x2x!acc>
}

// -----

// The proof that sums fit i32: from the weights' values where they are constant (2^31 − 1 exactly fits), else from types.
// Where it fails the sums have 64 bits, the bias too, and the contract is that for these.
!x = !quant.uniform<i8<-1:1>:f32, 1.0>
!w = !quant.uniform<i8:f32, 1.0>
!b = !quant.uniform<i32:f32, 1.0>

// CHECK-LABEL: func.func @proof
// CHECK: qint.fully_connected %{{.*}} : tensor<1x1xi8>, tensor<1x1xi8>, tensor<1xi32> -> tensor<1x1xi32>
// CHECK-NEXT: qint.requantize %{{.*}}contract = "single",
// CHECK: %[[B:.*]] = nn.constant <tensor<1xi64>, [2147483520]> : tensor<1xi64>
// CHECK-NEXT: %[[A:.*]] = qint.fully_connected %{{.*}}, %{{.*}}, %[[B]] : tensor<1x1xi8>, tensor<1x1xi8>, tensor<1xi64> -> tensor<1x1xi64>
// CHECK-NEXT: qint.requantize %[[A]] {multiplier = array<i32: 1073741824>, shift = array<i32: 1>, contract = "single64",
// CHECK: nn.fully_connected %{{.*}}#qmlir.decision<float, "bias", "its bias is computed at run time; only a constant bias can be quantized">
func.func @proof(%x: tensor<1x1x!x>, %c: tensor<1x!b>) -> (tensor<1x1x!x>, tensor<1x1x!x>, tensor<1x1x!x>) {
  %w = nn.constant <tensor<1x1xi8>, [127]> : tensor<1x1x!w>
  %v = nn.constant <tensor<1x1xi8>, [-128]> : tensor<1x1x!w>
  %b = nn.constant <tensor<1xi32>, [2147483520]> : tensor<1x!b>
  %0 = nn.fully_connected %x, %w, %b : tensor<1x1x!x>, tensor<1x1x!w>, tensor<1x!b> -> tensor<1x1x!x>
  %1 = nn.fully_connected %x, %v, %b : tensor<1x1x!x>, tensor<1x1x!w>, tensor<1x!b> -> tensor<1x1x!x>
  %2 = nn.fully_connected %x, %w, %c : tensor<1x1x!x>, tensor<1x1x!w>, tensor<1x!b> -> tensor<1x1x!x>
  func.return %0, %1, %2 : tensor<1x1x!x>, tensor<1x1x!x>, tensor<1x1x!x>
}

// -----

!x = !quant.uniform<i8:f32, 0.5:127>
!y = !quant.uniform<i8:f32, 0.5:127>

// CHECK-LABEL: func.func @deep_product
// CHECK: qint.matmul %{{.*}} {lhs_zero_point = 127 : i32, rhs_zero_point = 127 : i32} : tensor<1x40000xi8>, tensor<40000x1xi8> -> tensor<1x1xi64>
// CHECK-NEXT: qint.requantize %{{.*}}contract = "single64",
func.func @deep_product(%a: tensor<1x40000x!x>, %b: tensor<40000x1x!y>) -> tensor<1x1x!y> {
  %0 = nn.matmul %a, %b : tensor<1x40000x!x>, tensor<40000x1x!y> -> tensor<1x1x!y>
  func.return %0 : tensor<1x1x!y>
}

// -----

// 16-bit data. A bias of 64 bits where 32 are enough becomes one of 32.
!x = !quant.uniform<i16:f32, 0.5>
!w = !quant.uniform<i8<-127:127>:f32, 0.5>
!y = !quant.uniform<i16:f32, 1.0>

// CHECK-LABEL: func.func @enough
// CHECK: %[[B:.*]] = nn.constant <tensor<2xi32>, [5, -5]> : tensor<2xi32>
// CHECK-NEXT: qint.fully_connected %{{.*}}, %{{.*}}, %[[B]] : tensor<1x2xi16>, tensor<2x2xi8>, tensor<2xi32> -> tensor<1x2xi32>
// CHECK-NEXT: qint.requantize %{{.*}}contract = "single",
func.func @enough(%x: tensor<1x2x!x>) -> tensor<1x2x!y> {
  %w = nn.constant <tensor<2x2xi8>, [1, 2, 3, 4]> : tensor<2x2x!w>
  %b = nn.constant <tensor<2xi64>, [5, -5]> : tensor<2xi64>
  %0 = nn.fully_connected %x, %w, %b : tensor<1x2x!x>, tensor<2x2x!w>, tensor<2xi64> -> tensor<1x2x!y>
  func.return %0 : tensor<1x2x!y>
}

// -----

// LiteRT sums 16-bit data in 64 bits, always; beside an i32 bias in 32.
!x = !quant.uniform<i16:f32, 0.5>
!w = !quant.uniform<i8<-127:127>:f32, 0.5>
!b = !quant.uniform<i32:f32, 0.25>
!y = !quant.uniform<i16:f32, 1.0>

// CHECK: builtin.module attributes {qmlir.numerics = "litert-reference"}
// CHECK: qint.fully_connected %{{.*}} : tensor<1x2xi16>, tensor<2x2xi8>, tensor<2xi64> -> tensor<1x2xi64>
// CHECK-NEXT: qint.requantize %{{.*}}contract = "away64",
// CHECK: qint.conv2d %{{.*}} : tensor<1x1x1x2xi16>, tensor<2x1x1x2xi8>, tensor<2xi64> -> tensor<1x1x1x2xi64>
// CHECK-NEXT: qint.requantize %{{.*}}contract = "reduced16",
// CHECK: qint.conv2d %{{.*}} : tensor<1x1x1x2xi16>, tensor<2x1x1x2xi8>, tensor<2xi32> -> tensor<1x1x1x2xi32>
// CHECK-NEXT: qint.requantize %{{.*}}contract = "double",
builtin.module attributes {qmlir.numerics = "litert-reference"} {
  func.func @runtime(%x: tensor<1x2x!x>) -> tensor<1x1x1x2x!y> {
    %w = nn.constant <tensor<2x2xi8>, [1, 2, 3, 4]> : tensor<2x2x!w>
    %v = nn.constant <tensor<2x1x1x2xi8>, [1, 2, 3, 4]> : tensor<2x1x1x2x!w>
    %b = nn.constant <tensor<2xi64>, [5, -5]> : tensor<2xi64>
    %c = nn.constant <tensor<2xi32>, [5, -5]> : tensor<2x!b>
    %0 = nn.fully_connected %x, %w, %b : tensor<1x2x!x>, tensor<2x2x!w>, tensor<2xi64> -> tensor<1x2x!x>
    %1 = nn.reshape %0 {shape = array<i64: 1, 1, 1, 2>} : tensor<1x2x!x> -> tensor<1x1x1x2x!x>
    %2 = nn.conv2d %1, %v, %b : tensor<1x1x1x2x!x>, tensor<2x1x1x2x!w>, tensor<2xi64> -> tensor<1x1x1x2x!x>
    %3 = nn.conv2d %2, %v, %c : tensor<1x1x1x2x!x>, tensor<2x1x1x2x!w>, tensor<2x!b> -> tensor<1x1x1x2x!y>
    func.return %3 : tensor<1x1x1x2x!y>
  }
}

// -----

// A bias of more than 48 bits.
!x = !quant.uniform<i16:f32, 1.0>
!w = !quant.uniform<i8:f32, 1.0>

// CHECK-LABEL: func.func @beyond
// CHECK: nn.fully_connected %{{.*}}#qmlir.decision<float, "bias", "its bias 1.40737e+14 in channel 0 does not fit 48 bits in steps of 1">
func.func @beyond(%x: tensor<1x1x!x>) -> tensor<1x1x!x> {
  %w = nn.constant <tensor<1x1xi8>, [127]> : tensor<1x1x!w>
  %a = nn.constant <tensor<1xf32>, [1.40737488355328e14]> : tensor<1xf32>
  %0 = nn.fully_connected %x, %w, %a : tensor<1x1x!x>, tensor<1x1x!w>, tensor<1xf32> -> tensor<1x1x!x>
  func.return %0 : tensor<1x1x!x>
}

// -----

// XNNPACK leaves products whose right side has a zero point to the other kernels.
!a = !quant.uniform<i8:f32, 0.5:3>
!b = !quant.uniform<i8:f32, 0.25>
!s = !quant.uniform<i8:f32, 0.25:-4>

module attributes {qmlir.numerics = "litert-xnnpack"} {
// CHECK-LABEL: func.func @xnnpack
// CHECK: qint.matmul
// CHECK-NEXT: qint.requantize {{.*}}contract = "float_even"
// CHECK: qint.matmul
// CHECK-NEXT: qint.requantize {{.*}}contract = "double"
func.func @xnnpack(%x: tensor<2x3x!a>, %y: tensor<3x2x!b>, %z: tensor<3x2x!a>) -> (tensor<2x2x!s>, tensor<2x2x!s>) {
  %0 = nn.matmul %x, %y : tensor<2x3x!a>, tensor<3x2x!b> -> tensor<2x2x!s>
  %1 = nn.matmul %x, %z : tensor<2x3x!a>, tensor<3x2x!a> -> tensor<2x2x!s>
  func.return %0, %1 : tensor<2x2x!s>, tensor<2x2x!s>
}
}

// -----

// A layer that stays float has its bias in floats, also where that came as plain integers, in steps of s_x · s_w.
!x = !quant.uniform<i8:f32, 0.5>
!w = !quant.uniform<i8:f32:0, {0.25,0.5}>
!y = !quant.uniform<i8:f32, 1.0e-11>

// CHECK-LABEL: func.func @plain_bias
// CHECK: %[[B:.*]] = nn.constant <tensor<2xf32>, [5.368709e+08, 0.5]> : tensor<2xf32>
// CHECK: nn.fully_connected %{{.*}}, %{{.*}}, %[[B]] {qmlir.decision = #qmlir.decision<float, "factor", {{.*}}>} : tensor<1x2xf32>, tensor<2x2xf32>, tensor<2xf32> -> tensor<1x2xf32>
func.func @plain_bias(%x: tensor<1x2x!x>) -> tensor<1x2x!y> {
  %w = nn.constant <tensor<2x2xi8>, [1, 2, 3, 4]> : tensor<2x2x!w>
  %b = nn.constant <tensor<2xi64>, [4294967296, 2]> : tensor<2xi64>
  %0 = nn.fully_connected %x, %w, %b : tensor<1x2x!x>, tensor<2x2x!w>, tensor<2xi64> -> tensor<1x2x!y>
  func.return %0 : tensor<1x2x!y>
}
