// RUN: qmlir-opt --nn-to-loops %s | filecheck %s

// CHECK-LABEL: func.func @main
func.func @main(%x: tensor<2x4x5x16xf32>, %p: tensor<2x3x7x2xf32>) -> tensor<2x3x7x16xf32> {
  // CHECK: func.call @nn_sample_0({{.*}}) : (memref<2x4x5x16xf32>, memref<42x2xf32>, memref<42x16xf32>, index, index) -> ()
  %0 = nn.sample %x, %p {method = "linear", padding = "border"} : tensor<2x4x5x16xf32>, tensor<2x3x7x2xf32> -> tensor<2x3x7x16xf32>
  func.return %0 : tensor<2x3x7x16xf32>
}

// Where and how much along each axis, then the channels.
// CHECK: func.func private @nn_sample_0
// CHECK: memref.alloca() {{.*}}memref<2xi64>
// CHECK: math.floor
// CHECK: vector.load
