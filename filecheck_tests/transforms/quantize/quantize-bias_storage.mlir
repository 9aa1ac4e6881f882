// The storage that the option asks for, and that an operation asks for itself.

// RUN: qmlir-opt --quantize-bias %s | filecheck %s --check-prefixes=CHECK,AUTO
// RUN: qmlir-opt --apply-policy="settings={bias=auto}" --quantize-bias %s | filecheck %s --check-prefixes=CHECK,AUTO
// RUN: qmlir-opt --apply-policy="settings={bias=int8}" --quantize-bias %s | filecheck %s --check-prefixes=CHECK,INT8
// RUN: qmlir-opt --apply-policy="settings={bias=int16}" --quantize-bias %s | filecheck %s --check-prefixes=CHECK,INT16
// RUN: qmlir-opt --apply-policy="settings={bias=int32}" --quantize-bias %s | filecheck %s --check-prefixes=CHECK,AUTO
// RUN: qmlir-opt --apply-policy="settings={bias=int64}" --quantize-bias %s | filecheck %s --check-prefixes=CHECK,INT64
// RUN: qmlir-opt --apply-policy="settings={bias=int8 schema=symmetric_with_power2_scale}" --quantize-bias %s | filecheck %s --check-prefixes=CHECK,POWER2
// RUN: qmlir-opt --apply-policy="settings={bias=int8 glow-exact=true}" --quantize-bias %s | filecheck %s --check-prefixes=CHECK,GLOW
// RUN: qmlir-opt --apply-policy="settings={bias=int8 glow-exact=true schema=symmetric}" --quantize-bias %s | filecheck %s --check-prefixes=CHECK,GLOWSYM
// RUN: not qmlir-opt --apply-policy="settings={bias=int4}" --quantize-bias %s 2>&1 | filecheck %s --check-prefix=INT4

// AUTO: nn.constant <tensor<2xi32>, [8, -320]> : tensor<2x!quant.uniform<i32:f32, 1.250000e-01>>
// Of 8 bits it has a scale of its own, the least that holds it: 40 / 127.
// INT8: nn.constant <tensor<2xi8>, [3, -127]> : tensor<2x!quant.uniform<i8:f32, 0.31496062874794006>>
// Of 16 bits that would be finer than the sums, whose steps it has then.
// INT16: nn.constant <tensor<2xi16>, [8, -320]> : tensor<2x!quant.uniform<i16:f32, 1.250000e-01>>
// POWER2: nn.constant <tensor<2xi8>, [2, -80]> : tensor<2x!quant.uniform<i8:f32, 5.000000e-01>>
// Glow's covers [-40, 1], with a zero point.
// GLOW: nn.constant <tensor<2xi8>, [127, -128]> : tensor<2x!quant.uniform<i8:f32, 0.16078431904315948:121>>
// GLOWSYM: nn.constant <tensor<2xi8>, [3, -128]> : tensor<2x!quant.uniform<i8:f32, 3.125000e-01>>
// INT64: nn.constant <tensor<2xi64>, [8, -320]> : tensor<2xi64>
// CHECK: nn.constant <tensor<2xi64>, [8, -320]> : tensor<2xi64>
// INT4: must be one of auto, int8, int16, int32, int64, got int4

!x = !quant.uniform<i8:f32, 0.5:3>
!w = !quant.uniform<i8<-127:127>:f32, 0.25>
!y = !quant.uniform<i8:f32, 1.0>

func.func @main(%x: tensor<1x2x!x>) -> (tensor<1x2x!y>, tensor<1x2x!y>) {
  %w = nn.constant <tensor<2x2xi8>, [1, 2, 3, 4]> : tensor<2x2x!w>
  %b = nn.constant <tensor<2xf32>, [1.0, -40.0]> : tensor<2xf32>
  %y = nn.fully_connected %x, %w, %b : tensor<1x2x!x>, tensor<2x2x!w>, tensor<2xf32> -> tensor<1x2x!y>
  %z = nn.fully_connected %x, %w, %b {qmlir.policy = {bias = "int64"}} : tensor<1x2x!x>, tensor<2x2x!w>, tensor<2xf32> -> tensor<1x2x!y>
  func.return %y, %z : tensor<1x2x!y>, tensor<1x2x!y>
}
