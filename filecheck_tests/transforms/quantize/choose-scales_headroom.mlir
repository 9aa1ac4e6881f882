// What data of 16 bits leave of their bits for values that nobody has seen: half of them, but not beyond a clamp, not
// where a calibration is named, and not for an input.

// RUN: qmlir-opt --choose-scales="schema=symmetric precision=int16 weight-precision=int8" %s | filecheck %s --check-prefix=AUTO
// RUN: qmlir-opt --choose-scales="schema=symmetric precision=int16 weight-precision=int8 calibration=minmax" %s | filecheck %s --check-prefix=MINMAX

// AUTO: quant.qcast %x : {{.*}}<i16:f32, 6.1037{{[0-9]+}}E-5>>
// AUTO: quant.qcast %y : {{.*}}<i16:f32, 1.220{{[0-9]+}}E-4>>
// AUTO: quant.qcast %z : {{.*}}<i16:f32, 6.1037{{[0-9]+}}E-5>>
// MINMAX: quant.qcast %x : {{.*}}<i16:f32, 6.1037{{[0-9]+}}E-5>>
// MINMAX: quant.qcast %y : {{.*}}<i16:f32, 6.1037{{[0-9]+}}E-5>>
// MINMAX: quant.qcast %z : {{.*}}<i16:f32, 6.1037{{[0-9]+}}E-5>>
func.func @main(%x: tensor<1x4xf32>) -> tensor<1x4xf32> {
  calib.observe %x {name = "x", range = [0.0, 2.0], histogram = #calib.histogram<k = -5, first = 0, counts = [100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100]>} : tensor<1x4xf32>
  %y = nn.add %x, %x : tensor<1x4xf32>, tensor<1x4xf32> -> tensor<1x4xf32>
  calib.observe %y {name = "y", range = [0.0, 2.0], histogram = #calib.histogram<k = -5, first = 0, counts = [100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100]>} : tensor<1x4xf32>
  %z = nn.add %y, %y {min = 0.0 : f32, max = 2.0 : f32} : tensor<1x4xf32>, tensor<1x4xf32> -> tensor<1x4xf32>
  calib.observe %z {name = "z", range = [0.0, 2.0], histogram = #calib.histogram<k = -5, first = 0, counts = [100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100]>} : tensor<1x4xf32>
  func.return %z : tensor<1x4xf32>
}
