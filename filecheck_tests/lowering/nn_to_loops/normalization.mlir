// RUN: qmlir-opt --nn-to-loops --split-input-file %s | filecheck %s

// Terms of a row are computed side by side and kept; those of four rows are added one after another, in turn.
// CHECK-LABEL: func.func @main
func.func @main(%x: tensor<3x8xf32>) -> tensor<3x8xf32> {
  // CHECK: func.call @nn_softmax_0({{.*}}) : (memref<3x8x1xf32>, memref<3x8x1xf32>, index, index) -> ()
  %y = nn.softmax %x {axis = 1 : i64} : tensor<3x8xf32> -> tensor<3x8xf32>
  func.return %y : tensor<3x8xf32>
}
// CHECK: func.func private @nn_softmax_0
// CHECK: memref.alloca() {{.*}}memref<4x8xf64>
// CHECK: arith.maximumf
// CHECK-COUNT-4: math.roundeven
// CHECK: scf.for
// CHECK-COUNT-4: arith.addf {{.*}} : f64
// CHECK-COUNT-4: arith.divf {{.*}} : vector<8xf64>

// -----

// A row of too many terms for the stack computes them twice.
// CHECK-LABEL: func.func @main
func.func @main(%x: tensor<3x2048xf32>) -> tensor<3x2048xf32> {
  // CHECK: func.call @nn_softmax_0
  %y = nn.softmax %x {axis = 1 : i64} : tensor<3x2048xf32> -> tensor<3x2048xf32>
  func.return %y : tensor<3x2048xf32>
}
// CHECK: func.func private @nn_softmax_0
// CHECK-NOT: memref.alloca
// CHECK: math.roundeven
// CHECK: vector.extract {{.*}} : f64 from vector<8xf64>
// CHECK: math.roundeven
// CHECK: arith.divf {{.*}} : vector<8xf64>

// -----

// Along another axis, sums run side by side.
// CHECK-LABEL: func.func @main
func.func @main(%x: tensor<3x8xf32>) -> tensor<3x8xf32> {
  // CHECK: func.call @nn_softmax_0({{.*}}) : (memref<1x3x8xf32>, memref<1x3x8xf32>, index, index) -> ()
  %y = nn.softmax %x {axis = 0 : i64} : tensor<3x8xf32> -> tensor<3x8xf32>
  func.return %y : tensor<3x8xf32>
}
// CHECK: func.func private @nn_softmax_0
// CHECK-NOT: vector.extract

// -----

// Sums in index order, the rest side by side.
// CHECK-LABEL: func.func @main
func.func @main(%x: tensor<3x8xf32>) -> tensor<3x8xf32> {
  // CHECK: func.call @nn_layer_norm_0({{.*}}) : (memref<3x8x1xf32>, memref<3x8x1xf32>, index, index) -> ()
  %y = nn.layer_norm %x {axis = 1 : i64, epsilon = 0.5 : f32} : tensor<3x8xf32> -> tensor<3x8xf32>
  func.return %y : tensor<3x8xf32>
}
// CHECK: func.func private @nn_layer_norm_0
// CHECK: arith.addf {{.*}} : f64
// CHECK: math.sqrt {{.*}} : f64
// CHECK: arith.divf {{.*}} : vector<8xf64>

// -----

// One logarithm for each sum.
// CHECK-LABEL: func.func @main
func.func @main(%x: tensor<3x8xf32>) -> tensor<3x8xf32> {
  // CHECK: func.call @nn_log_softmax_0({{.*}}) : (memref<1x3x8xf32>, memref<1x3x8xf32>, index, index) -> ()
  %y = nn.log_softmax %x {axis = 0 : i64} : tensor<3x8xf32> -> tensor<3x8xf32>
  func.return %y : tensor<3x8xf32>
}
// CHECK: func.func private @nn_log_softmax_0
// CHECK: arith.maximumf {{.*}} : f32
// CHECK: arith.subf {{.*}} : f64
