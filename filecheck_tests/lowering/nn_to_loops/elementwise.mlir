// RUN: qmlir-opt --nn-to-loops %s | filecheck %s

// CHECK-LABEL: func.func @main
func.func @main(%x: tensor<1x6x7x24xf32>, %b: tensor<24xf32>, %s: tensor<f32>) -> tensor<1x6x7x24xf32> {
  // Dimensions that both operands treat alike are one.
  // CHECK: func.call @nn_add_0({{.*}}) : (memref<42x24xf32>, memref<24xf32>, memref<42x24xf32>, index, index) -> ()
  %y = nn.add %x, %b : tensor<1x6x7x24xf32>, tensor<24xf32> -> tensor<1x6x7x24xf32>
  // CHECK: func.call @nn_add_1({{.*}}) : (memref<1008xf32>, memref<1008xf32>, memref<1008xf32>, index, index) -> ()
  %z = nn.add %y, %y {max = 6.0 : f32} : tensor<1x6x7x24xf32>, tensor<1x6x7x24xf32> -> tensor<1x6x7x24xf32>
  // CHECK: func.call @nn_mul_0({{.*}}) : (memref<1008xf32>, memref<1xf32>, memref<1008xf32>, index, index) -> ()
  %r = nn.mul %z, %s : tensor<1x6x7x24xf32>, tensor<f32> -> tensor<1x6x7x24xf32>
  func.return %r : tensor<1x6x7x24xf32>
}

// CHECK: func.func private @nn_add_0
// CHECK: scf.for %i = %begin to %end
// CHECK: arith.addf {{.*}} : vector<16xf32>
// CHECK: arith.addf {{.*}} : vector<8xf32>
// CHECK: func.func private @nn_add_1
// CHECK: arith.minimumf
