// RUN: qmlir-opt --quantize-bias --split-input-file %s | filecheck %s

!x = !quant.uniform<i8:f32, 0.5:3>
!w = !quant.uniform<i8<-127:127>:f32:0, {0.25,0.125}>
!y = !quant.uniform<i8:f32, 1.0>

// Per channel: scales s_x·s_w[c], zero point 0; names stay with the bias.
// CHECK-LABEL: func.func @per_channel
// CHECK: %[[B:.*]] = nn.constant <tensor<2xi32>, [8, -32]> {qmlir.name = #qmlir.name<tensors ["bias"]>} : tensor<2x!quant.uniform<i32:f32:0, {1.250000e-01,6.250000e-02}>>
// CHECK-NEXT: nn.fully_connected %x, %{{.*}}, %[[B]]
// CHECK-NOT: tensor<2xf32>
func.func @per_channel(%x: tensor<1x2x!x>) -> tensor<1x2x!y> {
  %w = nn.constant <tensor<2x2xi8>, [1, 2, 3, 4]> : tensor<2x2x!w>
  %b = nn.constant <tensor<2xf32>, [1.0, -2.0]> {qmlir.name = #qmlir.name<tensors ["bias"]>} : tensor<2xf32>
  %y = nn.fully_connected %x, %w, %b : tensor<1x2x!x>, tensor<2x2x!w>, tensor<2xf32> -> tensor<1x2x!y>
  func.return %y : tensor<1x2x!y>
}

// -----

!x = !quant.uniform<i8:f32, 0.5:3>
!w = !quant.uniform<i8<-127:127>:f32, 0.25>
!y = !quant.uniform<i8:f32, 1.0>

// Per tensor, halves to even. The float constant stays for whoever else reads it.
// CHECK-LABEL: func.func @per_tensor
// CHECK: %[[F:.*]] = nn.constant <tensor<3xf32>, [0.1875, 0.3125, -1.0]>
// CHECK: %[[B:.*]] = nn.constant <tensor<3xi32>, [2, 2, -8]> : tensor<3x!quant.uniform<i32:f32, 1.250000e-01>>
// CHECK-NEXT: nn.conv2d %x, %{{.*}}, %[[B]]
// CHECK-NEXT: func.return %{{.*}}, %[[F]]
func.func @per_tensor(%x: tensor<1x2x2x1x!x>) -> (tensor<1x2x2x3x!y>, tensor<3xf32>) {
  %w = nn.constant <tensor<3x1x1x1xi8>, [1, 2, 3]> : tensor<3x1x1x1x!w>
  %b = nn.constant <tensor<3xf32>, [0.1875, 0.3125, -1.0]> : tensor<3xf32>
  %y = nn.conv2d %x, %w, %b : tensor<1x2x2x1x!x>, tensor<3x1x1x1x!w>, tensor<3xf32> -> tensor<1x2x2x3x!y>
  func.return %y, %b : tensor<1x2x2x3x!y>, tensor<3xf32>
}

// -----

// A product of scales too small for an f32 scale: a plain i32 bias implies it.
!x = !quant.uniform<i8:f32, 1.0e-30>
!w = !quant.uniform<i8<-127:127>:f32, 1.0e-30>
!y = !quant.uniform<i8:f32, 1.0e-30>

// CHECK-LABEL: func.func @tiny_scales
// CHECK: nn.constant <tensor<1xi32>, [0]> : tensor<1xi32>
func.func @tiny_scales(%x: tensor<1x1x!x>) -> tensor<1x1x!y> {
  %w = nn.constant <tensor<1x1xi8>, [100]> : tensor<1x1x!w>
  %b = nn.constant <tensor<1xf32>, [0.0]> : tensor<1xf32>
  %y = nn.fully_connected %x, %w, %b : tensor<1x1x!x>, tensor<1x1x!w>, tensor<1xf32> -> tensor<1x1x!y>
  func.return %y : tensor<1x1x!y>
}

// -----

// A bias that 32 bits do not hold: plain i64, in the same steps.
!x = !quant.uniform<i8:f32, 0.5>
!w = !quant.uniform<i8<-127:127>:f32, 0.001>
!y = !quant.uniform<i8:f32, 1.0>

// CHECK-LABEL: func.func @wide
// CHECK: %[[B:.*]] = nn.constant <tensor<2xi64>, [2000, 6000000000000]> : tensor<2xi64>
// CHECK-NEXT: nn.fully_connected %x, %{{.*}}, %[[B]] : {{.*}}, tensor<2xi64> ->
func.func @wide(%x: tensor<1x2x!x>) -> tensor<1x2x!y> {
  %w = nn.constant <tensor<2x2xi8>, [1, 2, 3, 4]> : tensor<2x2x!w>
  %a = nn.constant <tensor<2xf32>, [1.0, 3.0e9]> : tensor<2xf32>
  %0 = nn.fully_connected %x, %w, %a : tensor<1x2x!x>, tensor<2x2x!w>, tensor<2xf32> -> tensor<1x2x!y>
  func.return %0 : tensor<1x2x!y>
}

// Stays f32, and the operation is recorded as float: too large a bias, one that is computed, not a number.

// CHECK-LABEL: func.func @non_matches
// CHECK: nn.fully_connected {{.*}}#qmlir.decision<float, "bias", "its bias 3e+12 in channel 1 does not fit 48 bits in steps of 0.0005">{{.*}}, tensor<2xf32> ->
// CHECK: nn.fully_connected {{.*}}#qmlir.decision<float, "bias", "its bias is computed at run time; only a constant bias can be quantized">{{.*}}, tensor<2xf32> ->
// CHECK: nn.fully_connected {{.*}}#qmlir.decision<float, "bias", "its bias nan in channel 0 does not fit
func.func @non_matches(%x: tensor<1x2x!x>, %c: tensor<2xf32>) -> (tensor<1x2x!y>, tensor<1x2x!y>, tensor<1x2x!y>) {
  %w = nn.constant <tensor<2x2xi8>, [1, 2, 3, 4]> : tensor<2x2x!w>
  %a = nn.constant <tensor<2xf32>, [1.0, 3.0e12]> : tensor<2xf32>
  %n = nn.constant <tensor<2xf32>, [0x7fc00000, 1.0]> : tensor<2xf32>
  %0 = nn.fully_connected %x, %w, %a : tensor<1x2x!x>, tensor<2x2x!w>, tensor<2xf32> -> tensor<1x2x!y>
  %1 = nn.fully_connected %x, %w, %c : tensor<1x2x!x>, tensor<2x2x!w>, tensor<2xf32> -> tensor<1x2x!y>
  %2 = nn.fully_connected %x, %w, %n : tensor<1x2x!x>, tensor<2x2x!w>, tensor<2xf32> -> tensor<1x2x!y>
  func.return %0, %1, %2 : tensor<1x2x!y>, tensor<1x2x!y>, tensor<1x2x!y>
}

// A float layer has nothing to do with it, nor one without a bias.

// CHECK-LABEL: func.func @untouched
// CHECK-NOT: qmlir.decision
func.func @untouched(%x: tensor<1x2xf32>, %q: tensor<1x2x!x>) -> (tensor<1x2xf32>, tensor<1x2x!x>) {
  %w = nn.constant <tensor<2x2xf32>, [1.0, 2.0, 3.0, 4.0]> : tensor<2x2xf32>
  %b = nn.constant <tensor<2xf32>, [1.0, 2.0]> : tensor<2xf32>
  %v = nn.constant <tensor<2x2xi8>, [1, 2, 3, 4]> : tensor<2x2x!w>
  %0 = nn.fully_connected %x, %w, %b : tensor<1x2xf32>, tensor<2x2xf32>, tensor<2xf32> -> tensor<1x2xf32>
  %1 = nn.fully_connected %q, %v : tensor<1x2x!x>, tensor<2x2x!w> -> tensor<1x2x!x>
  func.return %0, %1 : tensor<1x2xf32>, tensor<1x2x!x>
}
