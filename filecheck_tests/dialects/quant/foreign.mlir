// Upstream's types beyond the per-tensor and per-axis ones on integers: read, checked, cast, and printed as upstream does.

// RUN: qmlir-opt %s | filecheck %s
// RUN: qmlir-opt %s | qmlir-opt | filecheck %s
// RUN: qmlir-opt --mlir-print-op-generic %s | qmlir-opt | filecheck %s

!blocks = !quant.uniform<u8:f32:{0:1, 1:2}, {{2.0:120,3.0:127}, {4.0,5.0}}>

func.func private @sub_channel(
  // CHECK: tensor<2x4x!quant.uniform<u8:f32:{0:1, 1:2}, {{\{\{}}2.000000e+00:120, 3.000000e+00:127}, {4.000000e+00, 5.000000e+00}}>>
  tensor<2x4x!blocks>,
  // CHECK-SAME: !quant.uniform<i4<-7:7>:f16:{}, {3.330080e-01:3}>
  !quant.uniform<i4<-7:7>:f16:{}, {0.333:3}>,
  // CHECK-SAME: !quant.uniform<u8:f32:{2:16}, {{\{\{\{}}1.000000e-01:200}}}>
  !quant.uniform<u8:f32:{2:16}, {{{0.1:-56}}}>,
  // CHECK-SAME: !quant.uniform<i8:f32:{0:4}, {1.22070313E-4}>
  !quant.uniform<i8:f32:{0:4}, {0.0001220703125}>
)

func.func private @float_storage(
  // CHECK: !quant.uniform<f8E5M2:f32, 9.987200e-01:127>
  !quant.uniform<f8E5M2<-57344:57344>:f32, 0.99872:127>,
  // CHECK-SAME: !quant.uniform<f8E4M3FN<-100:448>:f32:0, {2.000000e+00,3.000000e+00:-1}>
  !quant.uniform<f8E4M3FN<-100:448>:f32:0, {2.0, 3.0:-1}>,
  // CHECK-SAME: !quant.uniform<f4E2M1FN:bf16, 2.000000e+02>
  !quant.uniform<f4E2M1FN<-6:6>:bf16, 2.0e+2>
)

func.func private @any(
  // CHECK: !quant.any<i8<-8:7>:f32>, !quant.any<u4>, !quant.any<f8E4M3FN:f16>, !quant.any<u8<3:7>>
  !quant.any<i8<-8:7>:f32>, !quant.any<ui4<0:15>>, !quant.any<f8E4M3FN:f16>, !quant.any<u8<3:7>>
)

func.func private @calibrated(
  // CHECK: !quant.calibrated<f32<-0.998:1.232100e+00>>, !quant.calibrated<f16<-1.000000e+100:0.000000e+00>>
  !quant.calibrated<f32<-0.998:1.2321>>, !quant.calibrated<f16<-1.0e100:0.0>>,
  // CHECK-SAME: !quant.calibrated<f32<0.000000e+00:0x4132D68700000000>>
  !quant.calibrated<f32<0.0:1234567.0>>
)

// CHECK-LABEL: func.func @casts
func.func @casts(%x: tensor<2x4xf32>, %y: tensor<?x?xi8>, %z: f32, %w: !quant.any<i8>) {
  // CHECK: quant.qcast %{{.*}} : tensor<2x4xf32> to tensor<2x4x!quant.uniform<u8:f32:{0:1, 1:2}, {
  %0 = quant.qcast %x : tensor<2x4xf32> to tensor<2x4x!blocks>
  // CHECK: quant.scast {{.*}} to tensor<2x4xi8>
  %1 = quant.scast %0 : tensor<2x4x!blocks> to tensor<2x4xi8>
  // CHECK: quant.dcast {{.*}} to tensor<2x4xf32>
  %2 = quant.dcast %0 : tensor<2x4x!blocks> to tensor<2x4xf32>
  // CHECK: quant.scast %{{.*}} : tensor<?x?xi8> to tensor<?x?x!quant.uniform<u8:f32:{0:1, 1:2}, {
  %3 = quant.scast %y : tensor<?x?xi8> to tensor<?x?x!blocks>
  // CHECK: quant.qcast %{{.*}} : f32 to !quant.uniform<f8E5M2:f32, 2.000000e+00>
  %4 = quant.qcast %z : f32 to !quant.uniform<f8E5M2:f32, 2.0>
  // CHECK: quant.scast %{{.*}} : !quant.any<i8> to i8
  %5 = quant.scast %w : !quant.any<i8> to i8
  func.return
}
