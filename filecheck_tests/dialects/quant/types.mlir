// `!quant.uniform` as upstream writes it: what is default is not printed, and scales are read back exactly.

// RUN: qmlir-opt %s | filecheck %s
// RUN: qmlir-opt %s | qmlir-opt | filecheck %s
// RUN: qmlir-opt --mlir-print-op-generic %s | qmlir-opt | filecheck %s

!activation = !quant.uniform<u8:f32, 0.0625:128>

func.func private @per_tensor(
  // CHECK: !quant.uniform<i8:f32, 1.000000e-01:3>
  !quant.uniform<i8:f32, 0.1:3>,
  // CHECK-SAME: !quant.uniform<i8:f32, 5.000000e-01>
  !quant.uniform<i8<-128:127>:f32, 5.0e-1:0>,
  // CHECK-SAME: !quant.uniform<i8<-127:127>:f32, 5.000000e-01>
  !quant.uniform<si8<-127:127>:f32, 0.5>,
  // CHECK-SAME: !quant.uniform<u4<1:14>:f16, 2.000000e+02:7>
  !quant.uniform<u4<1:14>:f16, 2.0e+2:7>,
  // CHECK-SAME: !quant.uniform<i32:f64, 9.9999999999999992E-41>
  !quant.uniform<i32:f64, 1.0e-40>,
  // CHECK-SAME: tensor<2x!quant.uniform<u8:f32, 6.250000e-02:128>>
  tensor<2x!activation>
)

func.func private @exact_scales(
  // CHECK: !quant.uniform<i8:f32, 0.10000000149011612>
  !quant.uniform<i8:f32, 0.10000000149011612>,
  // CHECK-SAME: !quant.uniform<i8:f32, 3.9215686274509803E-6>
  !quant.uniform<i8:f32, 3.9215686274509803e-06>,
  // CHECK-SAME: !quant.uniform<i8:f32, 0x41678C29C0000000>
  !quant.uniform<i8:f32, 12345678.0>,
  // CHECK-SAME: !quant.uniform<i8:f32, 1.000000e+00>
  !quant.uniform<i8:f32, 0x3FF0000000000000>
)

func.func private @per_axis(
  // CHECK: tensor<2x3x!quant.uniform<i8<-127:127>:f32:0, {2.500000e-01,5.000000e-01:-7}>>
  tensor<2x3x!quant.uniform<i8<-127:127>:f32:0, {0.25, 0.5:-7}>>,
  // CHECK-SAME: memref<1x!quant.uniform<u16:f32:0, {1.000000e+00:32768}>>
  memref<1x!quant.uniform<u16:f32:0, {1.0:32768}>>
)
