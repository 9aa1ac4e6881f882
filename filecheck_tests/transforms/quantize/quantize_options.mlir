// Each option of `quantize` with each of its values, on one layer; calibrations need more, see choose-scales_calibration.

// A schema ties scale and zero point of what lies in [-1, 3] and in [0, 4]: 4 / 255 and 4 / 255, 3 / 127 and 4 / 127,
// 3 / 127 and 4 / 255, and powers of two above the second pair.
// RUN: qmlir-opt --quantize="schema=asymmetric" %s | filecheck %s --check-prefix=ASYMMETRIC
// RUN: qmlir-opt --quantize="schema=symmetric" %s | filecheck %s --check-prefix=SYMMETRIC
// RUN: qmlir-opt --quantize="schema=symmetric_with_uint8" %s | filecheck %s --check-prefix=WITHUINT8
// RUN: qmlir-opt --quantize="schema=symmetric_with_power2_scale" %s | filecheck %s --check-prefix=POWER2
// ASYMMETRIC: quant.qcast %x : {{.*}}!quant.uniform<i8:f32, 0.015686275437474251:-64>>
// ASYMMETRIC: quant.dcast {{.*}}!quant.uniform<i8:f32, 0.015686275437474251:-128>>
// SYMMETRIC: quant.qcast %x : {{.*}}<i8:f32, 0.023622047156095505>>
// SYMMETRIC: quant.dcast {{.*}}<i8:f32, 0.031496062874794006>>
// WITHUINT8: quant.qcast %x : {{.*}}<i8:f32, 0.023622047156095505>>
// WITHUINT8: quant.dcast {{.*}}<i8:f32, 0.015686275437474251:-128>>
// POWER2: func.func @main{{.*}} attributes {qmlir.scales = #qmlir.power_of_two}
// POWER2: quant.qcast %x : {{.*}}<i8:f32, 3.125000e-02>>
// POWER2: nn.constant <tensor<2x2xi8>, [64, 32, -64, 32]> : {{.*}}{1.562500e-02,7.812500e-03}
// POWER2: quant.dcast {{.*}}<i8:f32, 6.250000e-02>>

// Storage of activations, and with it of weights and biases.
// RUN: qmlir-opt --quantize="precision=int8" %s | filecheck %s --check-prefix=INT8
// RUN: qmlir-opt --quantize="precision=uint8" %s | filecheck %s --check-prefix=UINT8
// RUN: qmlir-opt --quantize="precision=int16" %s | filecheck %s --check-prefix=INT16
// INT8: quant.qcast %x : {{.*}}!quant.uniform<i8:f32, 0.015686275437474251:-64>>
// INT8: nn.constant <tensor<2x2xi8>, [127, 64, -127, 64]> : {{.*}}<i8<-127:127>:f32:0, {0.0078740157186985015,0.0039370078593492508}>>
// INT8: nn.constant <tensor<2xi32>, [4048, 161925]> : {{.*}}<i32:f32:0,
// UINT8: quant.qcast %x : {{.*}}!quant.uniform<u8:f32, 0.015686275437474251:64>>
// UINT8: nn.constant <tensor<2x2xi8>, [127, 64, -127, 64]> : {{.*}}<i8<-127:127>:f32:0, {0.0078740157186985015,0.0039370078593492508}>>
// INT16: quant.qcast %x : {{.*}}!quant.uniform<i16:f32, 6.1036087572574615E-5:-16384>>
// INT16: nn.constant <tensor<2x2xi16>, [32767, 16384, -32767, 16384]>
// INT16: nn.constant <tensor<2xi64>, [268423168, 10736926737]> : tensor<2xi64>

// The integers of weights: a symmetric scale is 127 steps to either side, or 128 to the negative side only.
// RUN: qmlir-opt --quantize="weight-range=auto" %s | filecheck %s --check-prefix=SAME
// RUN: qmlir-opt --quantize="weight-range=narrow glow-exact=true calibration=minmax" %s | filecheck %s --check-prefix=NARROW
// RUN: qmlir-opt --quantize="residuals=same" %s | filecheck %s --check-prefix=SAME
// RUN: qmlir-opt --quantize="residuals=int16" %s | filecheck %s --check-prefix=SAME
// RUN: qmlir-opt --quantize="residuals=auto" %s | filecheck %s --check-prefix=SAME
// RUN: qmlir-opt --quantize="residuals=outliers" %s | filecheck %s --check-prefix=SAME
// RUN: qmlir-opt --quantize="effort=fast" %s | filecheck %s --check-prefix=SAME
// RUN: qmlir-opt --quantize="effort=default" %s | filecheck %s --check-prefix=SAME
// RUN: qmlir-opt --quantize="effort=best" %s | filecheck %s --check-prefix=SAME
// RUN: qmlir-opt --quantize="weight-range=full" %s | filecheck %s --check-prefix=FULL
// NARROW: nn.constant <tensor<2x2xi8>, [127, 64, -127, 64]> : {{.*}}<i8<-127:127>:f32:0,
// FULL: nn.constant <tensor<2x2xi8>, [127, 64, -128, 64]> : {{.*}}<i8:f32:0, {0.0078740157186985015,3.906250e-03}>>

// Storage of weights.
// RUN: qmlir-opt --quantize="weight-precision=same" %s | filecheck %s --check-prefix=SAME
// RUN: qmlir-opt --quantize="weight-precision=int2" %s | filecheck %s --check-prefix=WEIGHTS2
// RUN: qmlir-opt --quantize="weight-precision=int3" %s | filecheck %s --check-prefix=WEIGHTS3
// RUN: qmlir-opt --quantize="weight-precision=int4" %s | filecheck %s --check-prefix=WEIGHTS4
// RUN: qmlir-opt --quantize="weight-precision=int5" %s | filecheck %s --check-prefix=WEIGHTS5
// RUN: qmlir-opt --quantize="weight-precision=int6" %s | filecheck %s --check-prefix=WEIGHTS6
// RUN: qmlir-opt --quantize="weight-precision=int7" %s | filecheck %s --check-prefix=WEIGHTS7
// RUN: qmlir-opt --quantize="weight-precision=int8 precision=int16" %s | filecheck %s --check-prefix=WEIGHTS8
// RUN: qmlir-opt --quantize="weight-precision=int16" %s | filecheck %s --check-prefix=WEIGHTS16
// SAME: nn.constant <tensor<2x2xi8>, [127, 64, -127, 64]> : {{.*}}<i8<-127:127>:f32:0, {0.0078740157186985015,0.0039370078593492508}>>
// WEIGHTS2: quant.qcast %x : {{.*}}!quant.uniform<i8:f32, 0.015686275437474251:-64>>
// WEIGHTS2: nn.constant <tensor<2x2xi8>, [1, 1, -1, 1]> : {{.*}}!quant.uniform<i2<-1:1>:f32:0,
// WEIGHTS2: "i8 activations, i2 weights per channel"
// WEIGHTS3: quant.qcast %x : {{.*}}!quant.uniform<i8:f32, 0.015686275437474251:-64>>
// WEIGHTS3: nn.constant <tensor<2x2xi8>, [3, 2, -3, 2]> : {{.*}}!quant.uniform<i3<-3:3>:f32:0,
// WEIGHTS3: "i8 activations, i3 weights per channel"
// WEIGHTS4: quant.qcast %x : {{.*}}!quant.uniform<i8:f32, 0.015686275437474251:-64>>
// WEIGHTS4: nn.constant <tensor<2x2xi8>, [7, 4, -7, 4]> : {{.*}}!quant.uniform<i4<-7:7>:f32:0,
// WEIGHTS4: "i8 activations, i4 weights per channel"
// WEIGHTS5: quant.qcast %x : {{.*}}!quant.uniform<i8:f32, 0.015686275437474251:-64>>
// WEIGHTS5: nn.constant <tensor<2x2xi8>, [15, 8, -15, 8]> : {{.*}}!quant.uniform<i5<-15:15>:f32:0,
// WEIGHTS5: "i8 activations, i5 weights per channel"
// WEIGHTS6: quant.qcast %x : {{.*}}!quant.uniform<i8:f32, 0.015686275437474251:-64>>
// WEIGHTS6: nn.constant <tensor<2x2xi8>, [31, 16, -31, 16]> : {{.*}}!quant.uniform<i6<-31:31>:f32:0,
// WEIGHTS6: "i8 activations, i6 weights per channel"
// WEIGHTS7: quant.qcast %x : {{.*}}!quant.uniform<i8:f32, 0.015686275437474251:-64>>
// WEIGHTS7: nn.constant <tensor<2x2xi8>, [63, 31, -63, 31]> : {{.*}}!quant.uniform<i7<-63:63>:f32:0,
// WEIGHTS7: "i8 activations, i7 weights per channel"
// WEIGHTS8: quant.qcast %x : {{.*}}!quant.uniform<i16:
// WEIGHTS8: nn.constant <tensor<2x2xi8>, [127, 64, -127, 64]> : {{.*}}<i8<-127:127>:f32:0, {0.0078740157186985015,0.0039370078593492508}>>
// WEIGHTS16: quant.qcast %x : {{.*}}!quant.uniform<i8:f32, 0.015686275437474251:-64>>
// WEIGHTS16: nn.constant <tensor<2x2xi16>, [32767, 16384, -32767, 16384]>

// One scale for each output channel, or one for all.
// RUN: qmlir-opt --quantize="per-channel=true" %s | filecheck %s --check-prefix=CHANNEL
// RUN: qmlir-opt --quantize="per-channel=false" %s | filecheck %s --check-prefix=TENSOR
// CHANNEL: nn.constant <tensor<2x2xi8>, [127, 64, -127, 64]> : {{.*}}<i8<-127:127>:f32:0, {0.0078740157186985015,0.0039370078593492508}>>
// TENSOR: nn.constant <tensor<2x2xi8>, [127, 64, -64, 32]> : {{.*}}<i8<-127:127>:f32, 0.0078740157186985015>>

// Storage of biases: of 8 and 16 bits they have scales of their own, as 10 in units of s_x * s_w fits neither.
// RUN: qmlir-opt --quantize="bias=auto" %s | filecheck %s --check-prefix=AUTO
// RUN: qmlir-opt --quantize="bias=int8" %s | filecheck %s --check-prefix=BIAS8
// RUN: qmlir-opt --quantize="bias=int16" %s | filecheck %s --check-prefix=BIAS16
// RUN: qmlir-opt --quantize="bias=int32" %s | filecheck %s --check-prefix=BIAS32
// RUN: qmlir-opt --quantize="bias=int64" %s | filecheck %s --check-prefix=BIAS64
// AUTO: nn.constant <tensor<2xi32>, [4048, 161925]> : {{.*}}<i32:f32:0,
// BIAS8: nn.constant <tensor<2xi8>, [127, 127]> : {{.*}}<i8:f32:0, {0.0039370078593492508,0.078740157186985015}>>
// BIAS16: nn.constant <tensor<2xi16>, [4048, 32767]> : {{.*}}<i16:f32:0, {{{.*}},3.0518509447574615E-4}>>
// BIAS32: nn.constant <tensor<2xi32>, [4048, 161925]> : {{.*}}<i32:f32:0,
// BIAS64: nn.constant <tensor<2xi64>, [4048, 161925]> : tensor<2xi64>

// Glow keeps -128 for weights.
// RUN: qmlir-opt --quantize="glow-exact=false" %s | filecheck %s --check-prefix=OURS
// RUN: qmlir-opt --quantize="glow-exact=true calibration=minmax" %s | filecheck %s --check-prefix=GLOW
// OURS: nn.constant <tensor<2x2xi8>, [127, 64, -127, 64]> : {{.*}}<i8<-127:127>:f32:0, {0.0078740157186985015,0.0039370078593492508}>>
// GLOW: nn.constant <tensor<2x2xi8>, [127, 64, -128, 64]> : {{.*}}<i8:f32:0, {0.0078740157186985015,3.906250e-03}>>

// How weights are rounded; without data each goes to the nearest integer.
// RUN: qmlir-opt --quantize="rounding=auto" %s | filecheck %s --check-prefix=OURS
// RUN: qmlir-opt --quantize="rounding=nearest" %s | filecheck %s --check-prefix=OURS
// RUN: not qmlir-opt --quantize="rounding=gptq" %s 2>&1 | filecheck %s --check-prefix=NOSAMPLES
// RUN: not qmlir-opt --quantize="rounding=adaround" %s 2>&1 | filecheck %s --check-prefix=NOSAMPLES
// NOSAMPLES: error: rounding {{gptq|adaround}}: needs samples, got none; give samples with --data
// RUN: not qmlir-opt --quantize="rounding=up" %s 2>&1 | filecheck %s --check-prefix=NOROUNDING
// NOROUNDING: error: {{.*}}must be one of auto, nearest, gptq, adaround, got up

// Whether an operation may stay float; the last one reads what has no range.
// RUN: qmlir-opt --quantize="fail-on-float=false" %s | filecheck %s --check-prefix=MAY
// MAY: nn.relu {{.*}}<float, "no-range",
// RUN: not qmlir-opt --quantize="fail-on-float=true" %s 2>&1 | filecheck %s --check-prefix=NOT
// NOT: error: {{.*}}quantize: must leave no operation float, got 1 (nn.relu "late": no range is known for "late"

// Values that there are not.
// RUN: not qmlir-opt --quantize="schema=symetric" %s 2>&1 | filecheck %s --check-prefix=NOSCHEMA
// NOSCHEMA: error: {{.*}}must be one of asymmetric, symmetric, symmetric_with_uint8, symmetric_with_power2_scale, got symetric
// RUN: not qmlir-opt --quantize="precision=int4" %s 2>&1 | filecheck %s --check-prefix=NOPRECISION
// NOPRECISION: error: {{.*}}must be one of int8, uint8, int16, float16, bfloat16, auto, got int4
// RUN: not qmlir-opt --quantize="bias=float" %s 2>&1 | filecheck %s --check-prefix=NOBIAS
// NOBIAS: error: {{.*}}must be one of auto, int8, int16, int32, int64, got float
// RUN: not qmlir-opt --quantize="precision=uint8 schema=symmetric" %s 2>&1 | filecheck %s --check-prefix=UNSIGNED
// UNSIGNED: error: {{.*}}schema symmetric needs signed integers, got uint8

func.func @main(%x: tensor<1x2xf32>) -> (tensor<1x2xf32>, tensor<1x2xf32>) {
  calib.observe %x {name = "x", range = [-1.0, 3.0]} : tensor<1x2xf32>
  %w = nn.constant <tensor<2x2xf32>, [1.0, 0.5, -0.5, 0.25]> : tensor<2x2xf32>
  %b = nn.constant <tensor<2xf32>, [0.5, 10.0]> : tensor<2xf32>
  %y = nn.fully_connected %x, %w, %b : tensor<1x2xf32>, tensor<2x2xf32>, tensor<2xf32> -> tensor<1x2xf32>
  calib.observe %y {name = "y", range = [0.0, 4.0]} : tensor<1x2xf32>
  %z = nn.relu %y {qmlir.name = #qmlir.name<tensors ["late"]>} : tensor<1x2xf32> -> tensor<1x2xf32>
  func.return %y, %z : tensor<1x2xf32>, tensor<1x2xf32>
}
