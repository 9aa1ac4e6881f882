// RUN: qmlir-opt --nn-to-loops %s | filecheck %s

// CHECK-LABEL: func.func @main
func.func @main(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  // Scales and zero points are data; a storage cast is the same buffer.
  // CHECK: %[[S:.*]] = qmlir.constant_buffer <tensor<1x1xf64>, [0.5]> : memref<1x1xf64>
  // CHECK: %[[Z:.*]] = qmlir.constant_buffer <tensor<1x1xf64>, [3.0]> : memref<1x1xf64>
  // CHECK: func.call @quant_qcast_0({{.*}}) : (memref<32xf32>, memref<1xf64>, memref<1xf64>, memref<32xi8>, index, index) -> ()
  %q = quant.qcast %x : tensor<4x8xf32> to tensor<4x8x!quant.uniform<i8:f32, 0.5:3>>
  %i = quant.scast %q : tensor<4x8x!quant.uniform<i8:f32, 0.5:3>> to tensor<4x8xi8>
  %p = quant.scast %i : tensor<4x8xi8> to tensor<4x8x!quant.uniform<i8:f32:0, {0.5,0.25,1.0,2.0}>>
  // CHECK: func.call @quant_dcast_0({{.*}}) : (memref<4x8xi8>, memref<4xf64>, memref<4xi32>, memref<4x8xf32>, index, index) -> ()
  %y = quant.dcast %p : tensor<4x8x!quant.uniform<i8:f32:0, {0.5,0.25,1.0,2.0}>> to tensor<4x8xf32>
  func.return %y : tensor<4x8xf32>
}

// CHECK: func.func private @quant_qcast_0
// CHECK: arith.divf %{{.*}} : vector<8xf64>
// CHECK: math.roundeven
// CHECK: arith.fptosi %{{.*}} : vector<8xf64> to vector<8xi32>
// CHECK: arith.trunci %{{.*}} : vector<8xi32> to vector<8xi8>

// CHECK: func.func private @quant_dcast_0
// CHECK: arith.sitofp %{{.*}} : vector<8xi32> to vector<8xf64>
// CHECK: arith.truncf %{{.*}} : vector<8xf64> to vector<8xf32>
