// RUN: qmlir-opt --nn-to-loops --split-input-file %s | filecheck %s

// CHECK-LABEL: func.func @main
func.func @main(%x: tensor<1x4x4x8xf32>) -> tensor<1x2x2x8xf32> {
  %y = nn.max_pool2d %x {window = array<i64: 2, 2>, strides = array<i64: 2, 2>} : tensor<1x4x4x8xf32> -> tensor<1x2x2x8xf32>
  func.return %y : tensor<1x2x2x8xf32>
}
// CHECK: func.func private @nn_max_pool2d_0(%x: memref<4x4x8xf32>, %y: memref<2x2x8xf32>, %begin: index, %end: index)
// CHECK: arith.constant dense<{{0xff800000|-inf}}
// CHECK: scf.for %row = %begin to %end
// CHECK: arith.maximumf {{.*}} : vector<8xf32>

// -----

// With padding the taps are clipped, and the divisor is how many are left.
// CHECK-LABEL: func.func @main
func.func @main(%x: tensor<1x4x4x8xf32>) -> tensor<1x4x4x8xf32> {
  %y = nn.average_pool2d %x {window = array<i64: 3, 3>, padding = array<i64: 1, 1, 1, 1>} : tensor<1x4x4x8xf32> -> tensor<1x4x4x8xf32>
  func.return %y : tensor<1x4x4x8xf32>
}
// CHECK: func.func private @nn_average_pool2d_0
// CHECK: arith.minsi
// CHECK: scf.for %kh
// CHECK: scf.for %kw
// CHECK: arith.addf {{.*}} : vector<8xf32>
// CHECK: arith.sitofp {{.*}} : i32 to f32
// CHECK: arith.divf {{.*}} : vector<8xf32>

// -----

// CHECK-LABEL: func.func @main
func.func @main(%x: tensor<2x3x5x8xf32>) -> tensor<2x1x1x8xf32> {
  // CHECK: func.call @nn_global_average_pool_0({{.*}}) : (memref<2x15x8xf32>, memref<2x8xf32>, index, index) -> ()
  %y = nn.global_average_pool %x : tensor<2x3x5x8xf32> -> tensor<2x1x1x8xf32>
  func.return %y : tensor<2x1x1x8xf32>
}
