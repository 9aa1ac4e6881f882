// Room for values that nobody has seen, not beyond a clamp, not where a calibration is named, and not for an input:
// data of 16 bits have twice the range, data of 8 bits as much as the extremes of more samples are expected to reach.

// RUN: qmlir-opt --apply-policy="settings={schema=symmetric precision=int16 weight-precision=int8}" --choose-scales %s | filecheck %s --check-prefix=AUTO
// RUN: qmlir-opt --apply-policy="settings={schema=symmetric precision=int16 weight-precision=int8 calibration=minmax}" --choose-scales %s | filecheck %s --check-prefix=MINMAX
// RUN: qmlir-opt --choose-scales %s | filecheck %s --check-prefix=BYTES

// AUTO: quant.qcast %x : {{.*}}<i16:f32, 6.1037{{[0-9]+}}E-5>>
// AUTO: quant.qcast %y : {{.*}}<i16:f32, 1.220{{[0-9]+}}E-4>>
// AUTO: quant.qcast %z : {{.*}}<i16:f32, 6.1037{{[0-9]+}}E-5>>
// MINMAX: quant.qcast %x : {{.*}}<i16:f32, 6.1037{{[0-9]+}}E-5>>
// MINMAX: quant.qcast %y : {{.*}}<i16:f32, 6.1037{{[0-9]+}}E-5>>
// MINMAX: quant.qcast %z : {{.*}}<i16:f32, 6.1037{{[0-9]+}}E-5>>
// BYTES: quant.qcast %x : {{.*}}<i8:f32, 0.00784{{[0-9]+}}:-128>>
// BYTES: quant.qcast %y : {{.*}}<i8:f32, 0.00843{{[0-9]+}}:-128>>
// BYTES: quant.qcast %z : {{.*}}<i8:f32, 0.00784{{[0-9]+}}:-128>>
func.func @main(%x: tensor<1x4xf32>) -> tensor<1x4xf32> {
  calib.observe %x {name = "x", range = [0.0, 2.0], histogram = #calib.histogram<k = -5, first = 0, counts = [100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100]>, average = [0.0, 1.5]} : tensor<1x4xf32>
  %y = nn.add %x, %x : tensor<1x4xf32>, tensor<1x4xf32> -> tensor<1x4xf32>
  calib.observe %y {name = "y", range = [0.0, 2.0], histogram = #calib.histogram<k = -5, first = 0, counts = [100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100]>, average = [0.0, 1.5]} : tensor<1x4xf32>
  %z = nn.add %y, %y {min = 0.0 : f32, max = 2.0 : f32} : tensor<1x4xf32>, tensor<1x4xf32> -> tensor<1x4xf32>
  calib.observe %z {name = "z", range = [0.0, 2.0], histogram = #calib.histogram<k = -5, first = 0, counts = [100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100]>, average = [0.0, 1.5]} : tensor<1x4xf32>
  func.return %z : tensor<1x4xf32>
}
