// Sums of more than 32 terms: the weights become multiples of their group's integer, and keep the floats beside them.

// RUN: qmlir-opt --apply-policy="settings={granularity=group-32 weight-precision=int4}" --choose-scales %s | filecheck %s
// RUN: qmlir-opt --quantize="granularity=group-32 weight-precision=int4" %s | filecheck %s --check-prefix=STORED
// RUN: qmlir-opt --quantize="granularity=group-64 weight-precision=int4" %s | filecheck %s --check-prefix=CHANNEL
// RUN: qmlir-opt --quantize="granularity=group-128 weight-precision=int4" %s | filecheck %s --check-prefix=CHANNEL
// RUN: qmlir-opt --quantize="granularity=channel weight-precision=int4" %s | filecheck %s --check-prefix=CHANNEL

// CHECK: %w = nn.constant {{.*}}qmlir.unrounded = #qmlir.weights<tensor<1x36xf32>{{.*}}qmlir.levels = #qmlir.levels<groups, bits = 4, size = 32, multipliers = #qmlir.weights<tensor<1x2xi8>, [18, 9]>>
// CHECK: quant.qcast %w : tensor<1x36xf32> to tensor<1x36x!quant.uniform<i8<-126:126>:f32:0, {0.0079365083947777748}>>
// STORED: nn.constant <tensor<1x36xi8>, [126, -126, {{.*}}, 63, -63, 63, -63]> {qmlir.levels = #qmlir.levels<groups, bits = 4, size = 32,
// STORED: "i8 activations, i4 weights in groups of 32"

// Sums that are no longer than a group have a scale for each channel only.
// CHANNEL: nn.constant <tensor<1x36xi8>, [7, -7, {{.*}}, 3, -3]> : tensor<1x36x!quant.uniform<i4<-7:7>:f32:0, {0.1428571492433548}>>
func.func @main(%x: tensor<1x36xf32>) -> tensor<1x1xf32> {
  calib.observe %x {name = "x", range = [-1.0, 1.0]} : tensor<1x36xf32>
  %w = nn.constant <tensor<1x36xf32>, [1.0, -1.0, 1.0, -1.0, 1.0, -1.0, 1.0, -1.0, 1.0, -1.0, 1.0, -1.0, 1.0, -1.0, 1.0, -1.0, 1.0, -1.0, 1.0, -1.0, 1.0, -1.0, 1.0, -1.0, 1.0, -1.0, 1.0, -1.0, 1.0, -1.0, 1.0, -1.0, 0.5, -0.5, 0.5, -0.5]> : tensor<1x36xf32>
  %y = nn.fully_connected %x, %w : tensor<1x36xf32>, tensor<1x36xf32> -> tensor<1x1xf32>
  calib.observe %y {name = "y", range = [-4.0, 4.0]} : tensor<1x1xf32>
  func.return %y : tensor<1x1xf32>
}
