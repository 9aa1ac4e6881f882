// RUN: qmlir-opt --nn-to-loops --qint-to-loops --finish-loops %s | filecheck %s
// RUN: qmlir-opt --qint-to-loops --nn-to-loops --finish-loops %s | filecheck %s

// Both edges, in either order: results are trailing arguments, no tensor and no cast is left, names stay.
// CHECK: func.func @main(%x: memref<4xf32> {qmlir.name = #qmlir.name<tensors ["x"]>}, %out0: memref<4xi8> {qmlir.name = #qmlir.name<tensors ["y"]>}, %out1: memref<2x2xf32>) attributes {qmlir.inputs = 1 : i64}
// CHECK-NOT: tensor<4
// CHECK-NOT: unrealized
// CHECK: func.call @quant_qcast_0
// CHECK: func.call @qint_max_pool2d_0
// CHECK: %[[Y:.*]] = memref.reinterpret_cast %{{.*}} to {{.*}} : memref<1x2x2x1xi8> to memref<4xi8>
// CHECK: "memref.copy"(%[[Y]], %out0) : (memref<4xi8>, memref<4xi8>) -> ()
// CHECK-NEXT: "memref.copy"(%{{.*}}, %out1) : (memref<2x2xf32>, memref<2x2xf32>) -> ()
// CHECK-NEXT: func.return
func.func @main(%x: tensor<4xf32> {qmlir.name = #qmlir.name<tensors ["x"]>}) -> (tensor<4x!quant.uniform<i8:f32, 0.5>> {qmlir.name = #qmlir.name<tensors ["y"]>}, tensor<2x2xf32>) {
  %q = quant.qcast %x : tensor<4xf32> to tensor<4x!quant.uniform<i8:f32, 0.5>>
  %i = quant.scast %q : tensor<4x!quant.uniform<i8:f32, 0.5>> to tensor<4xi8>
  %v = nn.reshape %i {shape = array<i64: 1, 2, 2, 1>} : tensor<4xi8> -> tensor<1x2x2x1xi8>
  %m = qint.max_pool2d %v {window = array<i64: 1, 1>} : tensor<1x2x2x1xi8> -> tensor<1x2x2x1xi8>
  %r = nn.reshape %m {shape = array<i64: 4>} : tensor<1x2x2x1xi8> -> tensor<4xi8>
  %y = quant.scast %r : tensor<4xi8> to tensor<4x!quant.uniform<i8:f32, 0.5>>
  %s = nn.reshape %x {shape = array<i64: 2, 2>} : tensor<4xf32> -> tensor<2x2xf32>
  func.return %y, %s : tensor<4x!quant.uniform<i8:f32, 0.5>>, tensor<2x2xf32>
}
