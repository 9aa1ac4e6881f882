// RUN: qmlir-opt --nn-to-loops --split-input-file %s | filecheck %s

// The names of the tensor go to its buffer; equal kernels are one function.
// CHECK-LABEL: func.func @main
func.func @main(%x: tensor<2x3xf32>) -> (tensor<2x3xf32>, tensor<6xf32>) {
  %y = nn.relu %x {qmlir.name = #qmlir.name<nodes ["r"], tensors ["y"]>} : tensor<2x3xf32> -> tensor<2x3xf32>
  %flat = nn.reshape %y {shape = array<i64: 6>} : tensor<2x3xf32> -> tensor<6xf32>
  %z = nn.relu %flat : tensor<6xf32> -> tensor<6xf32>
  func.return %y, %z : tensor<2x3xf32>, tensor<6xf32>
}
// CHECK: %[[X:.*]] = builtin.unrealized_conversion_cast %x : tensor<2x3xf32> to memref<2x3xf32>
// CHECK: %[[Y:.*]] = memref.alloc() {alignment = 64 : i64, qmlir.name = #qmlir.name<nodes ["r"], tensors ["y"]>} : memref<2x3xf32>
// CHECK: func.call @nn_relu_0({{.*}}) : (memref<6xf32>, memref<6xf32>, index, index) -> ()
// CHECK: func.call @nn_relu_0(
// CHECK: func.return
// CHECK: func.func private @nn_relu_0(%x: memref<6xf32>, %y: memref<6xf32>, %begin: index, %end: index) attributes {qmlir.parallel}
// CHECK: %[[V:.*]] = vector.load %x[%i] : memref<6xf32>, vector<16xf32>
// CHECK-NEXT: arith.maximumf %[[V]], %{{.*}} : vector<16xf32>
// CHECK-NOT: func.func

// -----

// sigmoid computes in f64 and rounds once.
// CHECK-LABEL: func.func @main
func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {
  %y = nn.sigmoid %x : tensor<8xf32> -> tensor<8xf32>
  func.return %y : tensor<8xf32>
}
// CHECK: func.func private @nn_sigmoid_0
// CHECK: arith.extf %{{.*}} : vector<8xf32> to vector<8xf64>
// CHECK: math.roundeven
// CHECK-NOT: math.exp
// CHECK: arith.truncf %{{.*}} : vector<8xf64> to vector<8xf32>

// -----

// A change of scale is nothing on floats; integers and quantized operations are not this edge's.
// CHECK-LABEL: func.func @main
func.func @main(%x: tensor<8xf32>, %q: tensor<8x!quant.uniform<i8:f32, 0.5>>) -> (tensor<8xf32>, tensor<8x!quant.uniform<i8:f32, 0.5>>) {
  %y = nn.requantize %x : tensor<8xf32> -> tensor<8xf32>
  // CHECK: nn.relu %q
  %r = nn.relu %q : tensor<8x!quant.uniform<i8:f32, 0.5>> -> tensor<8x!quant.uniform<i8:f32, 0.5>>
  func.return %y, %r : tensor<8xf32>, tensor<8x!quant.uniform<i8:f32, 0.5>>
}
// CHECK-NOT: func.call
