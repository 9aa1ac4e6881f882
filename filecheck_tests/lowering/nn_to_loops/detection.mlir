// Kernels of detection.

// RUN: qmlir-opt --nn-to-loops %s | filecheck %s

// CHECK-LABEL: func.func @main
func.func @main(%b: tensor<2x9x4xf32>, %s: tensor<2x3x9xf32>) -> (tensor<2x3x5xi64>, tensor<3x54xi64>) {
  // CHECK: func.call @nn_non_max_suppression_0({{.*}}) : (memref<2x9x4xf32>, memref<6x9xf32>, memref<6x5xi64>, index, index) -> ()
  %0 = nn.non_max_suppression %b, %s {count = 5 : i64, iou_threshold = 0.5 : f32} : tensor<2x9x4xf32>, tensor<2x3x9xf32> -> tensor<2x3x5xi64>
  // CHECK: func.call @nn_non_zero_0({{.*}}) : (memref<54xf32>, memref<3x54xi64>, index, index) -> ()
  %1 = nn.non_zero %s : tensor<2x3x9xf32> -> tensor<3x54xi64>
  func.return %0, %1 : tensor<2x3x5xi64>, tensor<3x54xi64>
}

// The boxes that are left are a list, which shrinks in place.
// CHECK: func.func private @nn_non_max_suppression_0
// CHECK: memref.alloca() {alignment = 64 : i64} : memref<9xi64>
// CHECK: scf.for
// CHECK: scf.for
// CHECK: func.func private @nn_non_zero_0
