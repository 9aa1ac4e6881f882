// The storage that the option asks for, and that an operation asks for itself.

// RUN: qmlir-opt --quantize-bias %s | filecheck %s --check-prefixes=CHECK,AUTO
// RUN: qmlir-opt --quantize-bias="bias=auto" %s | filecheck %s --check-prefixes=CHECK,AUTO
// RUN: qmlir-opt --quantize-bias="bias=int8" %s | filecheck %s --check-prefixes=CHECK,INT8
// RUN: qmlir-opt --quantize-bias="bias=int16" %s | filecheck %s --check-prefixes=CHECK,INT16
// RUN: qmlir-opt --quantize-bias="bias=int32" %s | filecheck %s --check-prefixes=CHECK,AUTO
// RUN: qmlir-opt --quantize-bias="bias=int64" %s | filecheck %s --check-prefixes=CHECK,INT64
// RUN: not qmlir-opt --quantize-bias="bias=int4" %s 2>&1 | filecheck %s --check-prefix=INT4

// AUTO: nn.constant <tensor<2xi32>, [8, -320]> : tensor<2x!quant.uniform<i32:f32, 1.250000e-01>>
// INT8: nn.constant <tensor<2xi32>, [8, -128]> : tensor<2x!quant.uniform<i32<-128:127>:f32, 1.250000e-01>>
// INT16: nn.constant <tensor<2xi32>, [8, -320]> : tensor<2x!quant.uniform<i32<-32768:32767>:f32, 1.250000e-01>>
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
