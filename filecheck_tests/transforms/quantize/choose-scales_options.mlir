// Each option that decides how values are stored, on one layer.

// RUN: qmlir-opt --apply-policy="settings={precision=uint8}" --choose-scales %s | filecheck %s --check-prefix=UINT8
// RUN: qmlir-opt --apply-policy="settings={precision=int16 schema=symmetric}" --choose-scales %s | filecheck %s --check-prefix=INT16
// RUN: qmlir-opt --apply-policy="settings={precision=int16 weight-precision=int8}" --choose-scales %s | filecheck %s --check-prefix=MIXED
// RUN: qmlir-opt --apply-policy="settings={weight-precision=int4 per-channel=false}" --choose-scales %s | filecheck %s --check-prefix=INT4
// RUN: qmlir-opt --apply-policy="settings={calibration=minmax}" --choose-scales %s | filecheck %s --check-prefix=MINMAX
// RUN: qmlir-opt --apply-policy="settings={calibration=moving_average}" --choose-scales %s | filecheck %s --check-prefix=AVERAGE
// RUN: qmlir-opt --apply-policy="settings={glow-exact=true calibration=minmax}" --choose-scales %s | filecheck %s --check-prefix=GLOW
// RUN: qmlir-opt --apply-policy="settings={bias=int8}" --choose-scales %s | filecheck %s --check-prefix=ROOM
// RUN: qmlir-opt --quantize="bias=int8" %s | filecheck %s --check-prefix=BIAS8
// RUN: qmlir-opt --quantize="bias=int64" %s | filecheck %s --check-prefix=BIAS64
// RUN: not qmlir-opt --apply-policy="settings={calibration=percentile-99.9}" --choose-scales %s 2>&1 | filecheck %s --check-prefix=PERCENT
// RUN: not qmlir-opt --apply-policy="settings={calibration=mse-99}" --choose-scales %s 2>&1 | filecheck %s --check-prefix=NUMBER
// RUN: not qmlir-opt --apply-policy="settings={granularity=group-32}" --choose-scales %s 2>&1 | filecheck %s --check-prefix=GROUPS
// RUN: not qmlir-opt --apply-policy="settings={calibration=kl}" --choose-scales %s 2>&1 | filecheck %s --check-prefix=KL
// RUN: not qmlir-opt --apply-policy="settings={glow-exact=true calibration=mse}" --choose-scales %s 2>&1 | filecheck %s --check-prefix=GLOWMSE
// RUN: not qmlir-opt --apply-policy="settings={weight-precision=int9}" --choose-scales %s 2>&1 | filecheck %s --check-prefix=INT9

// UINT8: quant.qcast %x : {{.*}}!quant.uniform<u8:f32, 0.0078431377187371254:128>>
// UINT8: quant.qcast %w : {{.*}}!quant.uniform<i8<-127:127>:f32:0,
// INT16: quant.qcast %x : {{.*}}!quant.uniform<i16:f32, 3.0518509447574615E-5>>
// INT16: quant.qcast %w : {{.*}}!quant.uniform<i16<-32767:32767>:f32:0,
// MIXED: quant.qcast %x : {{.*}}!quant.uniform<i16:f32, 3.0518043786287308E-5>>
// MIXED: quant.qcast %w : {{.*}}!quant.uniform<i8<-127:127>:f32:0,
// INT4: quant.qcast %w : {{.*}}!quant.uniform<i4<-7:7>:f32, {{[0-9.]+}}>>
// MINMAX: quant.qcast %y : {{.*}}!quant.uniform<i8:f32, 0.015686275437474251:-128>>
// AVERAGE: quant.qcast %y : {{.*}}!quant.uniform<i8:f32, 0.0078431377187371254:-128>>
// GLOW: quant.qcast %w : {{.*}}!quant.uniform<i8:f32:0, {0.0078740157186985015,3.906250e-03}>>

// A bias of 8 bits has a scale of its own, 10 / 127, and the weights keep theirs.
// ROOM: quant.qcast %w : {{.*}}<i8<-127:127>:f32:0, {0.0078740157186985015,0.0039370078593492508}>>
// BIAS8: nn.constant <tensor<2xi8>, [0, 127]> : {{.*}}<i8:f32:0, {{{.*}},0.078740157186985015}>>
// BIAS8: nn.fully_connected
// BIAS8-SAME: <quantized, "integer", "i8 activations, i8 weights per channel">
// BIAS64: nn.fully_connected
// BIAS64-SAME: <quantized, "integer"
// BIAS64-SAME: tensor<2xi64>

// PERCENT: tensor "x": calibration percentile-99.9 needs a histogram
// NUMBER: must be one of auto, minmax, moving_average, percentile, kl, kl_tvm, mse, aciq, got mse-99
// GROUPS: granularity=group-32 needs weights of 2 to 6 bits, got weight-precision=int8
// KL: tensor "x": calibration kl needs a histogram; profile the network on data, or use minmax
// GLOWMSE: Glow calibrates by minmax and kl only, got mse
// INT9: must be one of same, int2, int3, int4, int5, int6, int7, int8, int16, got int9
func.func @main(%x: tensor<1x2xf32>) -> tensor<1x2xf32> {
  calib.observe %x {name = "x", range = [-1.0, 1.0], average = [-0.5, 0.5]} : tensor<1x2xf32>
  %w = nn.constant <tensor<2x2xf32>, [1.0, 0.5, -0.5, 0.25]> : tensor<2x2xf32>
  %b = nn.constant <tensor<2xf32>, [0.0, 10.0]> : tensor<2xf32>
  %y = nn.fully_connected %x, %w, %b : tensor<1x2xf32>, tensor<2x2xf32>, tensor<2xf32> -> tensor<1x2xf32>
  calib.observe %y {name = "y", range = [0.0, 4.0], average = [0.0, 2.0]} : tensor<1x2xf32>
  func.return %y : tensor<1x2xf32>
}
