// Weights become entries of a table that is fitted to them, and keep the floats beside them. These weights have five
// values, of which two are nearly equal: a table of four entries has one for both. 0 is an entry, because six terms do
// not fill steps of four.

// RUN: qmlir-opt --apply-policy="settings={weight-levels=codebook weight-precision=int2}" --choose-scales %s | filecheck %s
// RUN: qmlir-opt --apply-policy="settings={weight-levels=codebook weight-precision=int2 schema=symmetric_with_power2_scale}" --choose-scales %s | filecheck %s --check-prefix=POWER
// RUN: qmlir-opt --apply-policy="settings={weight-levels=codebook weight-precision=int2 per-channel=false}" --choose-scales %s | filecheck %s --check-prefix=TENSOR
// RUN: qmlir-opt --quantize="weight-levels=codebook weight-precision=int2" %s | filecheck %s --check-prefix=STORED
// RUN: qmlir-opt --quantize="weight-levels=even weight-precision=int2" %s | filecheck %s --check-prefix=EVEN
// RUN: not qmlir-opt --apply-policy="settings={weight-levels=codebook}" --choose-scales %s 2>&1 | filecheck %s --check-prefix=BITS
// RUN: not qmlir-opt --apply-policy="settings={weight-levels=codebook weight-precision=int4 granularity=group-32}" --choose-scales %s 2>&1 | filecheck %s --check-prefix=GROUPS
// RUN: not qmlir-opt --apply-policy="settings={weight-levels=codebook weight-precision=int4 glow-exact=true calibration=minmax}" --choose-scales %s 2>&1 | filecheck %s --check-prefix=GLOW
// RUN: not qmlir-opt --apply-policy="settings={weight-levels=odd weight-precision=int4}" --choose-scales %s 2>&1 | filecheck %s --check-prefix=NAME

// CHECK: %w = nn.constant {{.*}}qmlir.unrounded = #qmlir.weights<tensor<1x6xf32>, [1.0, -0.1{{[0-9]*}}, 0.1{{[0-9]*}}, 0.11{{[0-9]*}}, 1.0, 0.5]>, qmlir.levels = #qmlir.levels<codebook, bits = 2, table = #qmlir.weights<tensor<4xi8>, [0, 7, 32, 63]>>
// CHECK: quant.qcast %w : tensor<1x6xf32> to tensor<1x6x!quant.uniform<i8<-63:63>:f32:0, {0.0158{{[0-9]*}}}>>
// POWER: quant.qcast %w : tensor<1x6xf32> to tensor<1x6x!quant.uniform<i8<-63:63>:f32:0, {3.125000e-02}>>
// TENSOR: quant.qcast %w : tensor<1x6xf32> to tensor<1x6x!quant.uniform<i8<-63:63>:f32, 0.0158{{[0-9]*}}>>
// STORED: nn.constant <tensor<1x6xi8>, [63, 0, 7, 7, 63, 32]> {qmlir.levels = #qmlir.levels<codebook, bits = 2, table = #qmlir.weights<tensor<4xi8>, [0, 7, 32, 63]>>}
// STORED: "i8 activations, weights per channel from a codebook of 4 entries"
// EVEN: "i8 activations, i2 weights per channel"
// BITS: weight-levels=codebook needs weights of 2 to 6 bits, got weight-precision=int8; ask for weight-precision=int4, or weight-levels=even
// GROUPS: weight-levels=codebook has no multipliers of groups, got granularity=group-32; leave out one of the two
// GLOW: weight-levels=codebook has no form in Glow, got glow-exact=true; leave out glow-exact=true
// NAME: must be one of even, codebook, got odd
func.func @main(%x: tensor<1x6xf32>) -> tensor<1x1xf32> {
  calib.observe %x {name = "x", range = [-1.0, 1.0]} : tensor<1x6xf32>
  %w = nn.constant <tensor<1x6xf32>, [1.0, -0.1, 0.1, 0.11, 1.0, 0.5]> : tensor<1x6xf32>
  %y = nn.fully_connected %x, %w : tensor<1x6xf32>, tensor<1x6xf32> -> tensor<1x1xf32>
  calib.observe %y {name = "y", range = [-4.0, 4.0]} : tensor<1x1xf32>
  func.return %y : tensor<1x1xf32>
}
