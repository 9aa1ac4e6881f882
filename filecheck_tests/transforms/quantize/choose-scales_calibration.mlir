// One value in 100,000 lies far out: how much of the range each calibration keeps of [0, 8].

// RUN: qmlir-opt --apply-policy="settings={calibration=minmax}" --choose-scales %s | filecheck %s --check-prefix=MINMAX
// RUN: qmlir-opt --choose-scales %s | filecheck %s --check-prefix=AUTO
// RUN: qmlir-opt --apply-policy="settings={calibration=auto}" --choose-scales %s | filecheck %s --check-prefix=AUTO
// RUN: qmlir-opt --apply-policy="settings={calibration=mse}" --choose-scales %s | filecheck %s --check-prefix=MSE
// RUN: qmlir-opt --apply-policy="settings={calibration=percentile}" --choose-scales %s | filecheck %s --check-prefix=PERCENTILE
// RUN: qmlir-opt --apply-policy="settings={calibration=aciq}" --choose-scales %s | filecheck %s --check-prefix=ACIQ
// RUN: not qmlir-opt --apply-policy="settings={calibration=kl precision=int16}" --choose-scales %s 2>&1 | filecheck %s --check-prefix=KL

// Inputs keep all of their range unless told otherwise.
// MINMAX: quant.qcast %x : {{.*}}<i8:f32, 0.031372550874948502:-128>>
// MINMAX: quant.qcast %y : {{.*}}<i8:f32, 0.031372550874948502:-128>>
// AUTO: quant.qcast %x : {{.*}}<i8:f32, 0.031372550874948502:-128>>
// AUTO: quant.qcast %y : {{.*}}<i8:f32, 0.027788784354925156:-128>>
// MSE: quant.qcast %x : {{.*}}<i8:f32, 0.027788784354925156:-128>>
// MSE: quant.qcast %y : {{.*}}<i8:f32, 0.027788784354925156:-128>>
// PERCENTILE: quant.qcast %y : {{.*}}<i8:f32, 0.0122{{[0-9]+}}:-128>>
// ACIQ: quant.qcast %y : {{.*}}<i8:f32, 0.029834495857357979:-128>>
// KL: tensor "x": calibration kl needs at least 65535 bins for int16, got 256 over [0, 8]; profile with more bins, or use minmax
func.func @main(%x: tensor<1x4xf32>) -> tensor<1x4xf32> {
  calib.observe %x {name = "x", range = [0.0, 8.0], histogram = #calib.histogram<k = -5, first = 0, counts = [1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]>} : tensor<1x4xf32>
  %y = nn.relu %x : tensor<1x4xf32> -> tensor<1x4xf32>
  calib.observe %y {name = "y", range = [0.0, 8.0], histogram = #calib.histogram<k = -5, first = 0, counts = [1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]>} : tensor<1x4xf32>
  func.return %y : tensor<1x4xf32>
}
