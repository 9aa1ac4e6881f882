// The casts on scalars and on tensors of any shape, known or not.

// RUN: qmlir-opt %s | filecheck %s
// RUN: qmlir-opt --mlir-print-op-generic %s | filecheck %s --check-prefix=GENERIC
// RUN: qmlir-opt --mlir-print-op-generic %s | qmlir-opt | filecheck %s

!q = !quant.uniform<i8:f32, 0.5:3>
!channels = !quant.uniform<i8<-127:127>:f32:2, {1.0, 2.0, 3.0}>

// CHECK-LABEL: func.func @ranked
// GENERIC: "quant.qcast"(%{{.*}}) : (tensor<2x?xf32>) -> tensor<2x?x!quant.uniform<i8:f32, 5.000000e-01:3>>
func.func @ranked(%x: tensor<2x?xf32>) -> tensor<2x?xf32> {
  // CHECK: quant.qcast %{{.*}} : tensor<2x?xf32> to tensor<2x?x!quant.uniform<i8:f32, 5.000000e-01:3>>
  %0 = quant.qcast %x : tensor<2x?xf32> to tensor<2x?x!q>
  // CHECK: quant.scast %{{.*}} : tensor<2x?x!quant.uniform<i8:f32, 5.000000e-01:3>> to tensor<2x?xi8>
  %1 = quant.scast %0 : tensor<2x?x!q> to tensor<2x?xi8>
  // CHECK: quant.scast %{{.*}} : tensor<2x?xi8> to tensor<2x?x!quant.uniform<i8:f32, 5.000000e-01:3>>
  %2 = quant.scast %1 : tensor<2x?xi8> to tensor<2x?x!q>
  // CHECK: quant.dcast %{{.*}} : tensor<2x?x!quant.uniform<i8:f32, 5.000000e-01:3>> to tensor<2x?xf32>
  %3 = quant.dcast %2 : tensor<2x?x!q> to tensor<2x?xf32>
  func.return %3 : tensor<2x?xf32>
}

// CHECK-LABEL: func.func @scalar
func.func @scalar(%x: f32) -> i8 {
  // CHECK: quant.qcast %{{.*}} : f32 to !quant.uniform<i8:f32, 5.000000e-01:3>
  %0 = quant.qcast %x : f32 to !q
  %1 = quant.scast %0 : !q to i8
  func.return %1 : i8
}

// CHECK-LABEL: func.func @per_axis
func.func @per_axis(%x: tensor<1x2x3x!channels>, %y: tensor<?x?x?xf32>, %z: tensor<*xf32>) {
  // CHECK: quant.dcast {{.*}}:f32:2, {1.000000e+00,2.000000e+00,3.000000e+00}>> to tensor<1x2x3xf32>
  %0 = quant.dcast %x : tensor<1x2x3x!channels> to tensor<1x2x3xf32>
  // CHECK: quant.qcast {{.*}} : tensor<?x?x?xf32> to tensor<?x?x?x!quant.uniform<
  %1 = quant.qcast %y : tensor<?x?x?xf32> to tensor<?x?x?x!channels>
  // CHECK: quant.qcast {{.*}} : tensor<*xf32> to tensor<*x!quant.uniform<
  %2 = quant.qcast %z : tensor<*xf32> to tensor<*x!channels>
  func.return
}
