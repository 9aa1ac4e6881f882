// Slices, gathers and scatters, on elements of any type; the order of numbers.

// RUN: qmlir-opt %s | filecheck %s
// RUN: qmlir-opt --mlir-print-op-generic %s | filecheck %s --check-prefix=GENERIC
// RUN: qmlir-opt --mlir-print-op-generic %s | qmlir-opt | filecheck %s

!a = !quant.uniform<i8:f32, 0.5:3>

// CHECK-LABEL: func.func @slice
func.func @slice(%x: tensor<2x5xf32>, %q: tensor<2x5x!a>, %t: tensor<5xi1>) {
  // CHECK: nn.slice %x {offsets = array<i64: 1, 4>, sizes = array<i64: 1, 3>, strides = array<i64: 1, -2>} : tensor<2x5xf32> -> tensor<1x3xf32>
  // GENERIC: "nn.slice"(%{{.*}}) <{offsets = array<i64: 1, 4>, sizes = array<i64: 1, 3>, strides = array<i64: 1, -2>}>
  %0 = nn.slice %x {offsets = array<i64: 1, 4>, sizes = array<i64: 1, 3>, strides = array<i64: 1, -2>} : tensor<2x5xf32> -> tensor<1x3xf32>
  // CHECK: nn.slice %q {{.*}} : tensor<2x5x!quant.uniform<i8:f32, 5.000000e-01:3>> -> tensor<2x0x!quant.uniform<i8:f32, 5.000000e-01:3>>
  %1 = nn.slice %q {offsets = array<i64: 0, 0>, sizes = array<i64: 2, 0>, strides = array<i64: 1, 1>} : tensor<2x5x!a> -> tensor<2x0x!a>
  // CHECK: nn.slice %t {{.*}} : tensor<5xi1> -> tensor<2xi1>
  %2 = nn.slice %t {offsets = array<i64: 3>, sizes = array<i64: 2>, strides = array<i64: 1>} : tensor<5xi1> -> tensor<2xi1>
  func.return
}

// CHECK-LABEL: func.func @gather
func.func @gather(%x: tensor<2x5x3xf32>, %q: tensor<2x5x!a>, %i: tensor<4x1xi64>, %n: tensor<i32>) {
  // CHECK: nn.gather %x, %i {axis = 1 : i64} : tensor<2x5x3xf32>, tensor<4x1xi64> -> tensor<2x4x1x3xf32>
  // GENERIC: "nn.gather"(%{{.*}}, %{{.*}}) <{axis = 1 : i64}>
  %0 = nn.gather %x, %i {axis = 1 : i64} : tensor<2x5x3xf32>, tensor<4x1xi64> -> tensor<2x4x1x3xf32>
  // CHECK: nn.gather %q, %n {axis = 0 : i64} : tensor<2x5x!quant.uniform<i8:f32, 5.000000e-01:3>>, tensor<i32> -> tensor<5x!quant.uniform<i8:f32, 5.000000e-01:3>>
  %1 = nn.gather %q, %n {axis = 0 : i64} : tensor<2x5x!a>, tensor<i32> -> tensor<5x!a>
  // CHECK: nn.gather_nd %x, %i : tensor<2x5x3xf32>, tensor<4x1xi64> -> tensor<4x5x3xf32>
  // GENERIC: "nn.gather_nd"(%{{.*}}, %{{.*}}) : (tensor<2x5x3xf32>, tensor<4x1xi64>) -> tensor<4x5x3xf32>
  %2 = nn.gather_nd %x, %i : tensor<2x5x3xf32>, tensor<4x1xi64> -> tensor<4x5x3xf32>
  func.return
}

// CHECK-LABEL: func.func @scatter
func.func @scatter(%x: tensor<5xf32>, %u: tensor<4xf32>, %q: tensor<5x!a>, %r: tensor<4x!a>, %i: tensor<4x1xi64>) {
  // CHECK: nn.scatter_nd %x, %u, %i : tensor<5xf32>, tensor<4xf32>, tensor<4x1xi64> -> tensor<5xf32>
  // GENERIC: "nn.scatter_nd"(%{{.*}}, %{{.*}}, %{{.*}}) : (tensor<5xf32>, tensor<4xf32>, tensor<4x1xi64>) -> tensor<5xf32>
  %0 = nn.scatter_nd %x, %u, %i : tensor<5xf32>, tensor<4xf32>, tensor<4x1xi64> -> tensor<5xf32>
  // CHECK: nn.scatter_nd %q, %r, %i : tensor<5x!quant
  %1 = nn.scatter_nd %q, %r, %i : tensor<5x!a>, tensor<4x!a>, tensor<4x1xi64> -> tensor<5x!a>
  // CHECK: nn.scatter_reduce_nd %x, %u, %i {reduction = "add"} : tensor<5xf32>, tensor<4xf32>, tensor<4x1xi64> -> tensor<5xf32>
  // GENERIC: "nn.scatter_reduce_nd"(%{{.*}}, %{{.*}}, %{{.*}}) <{reduction = "add"}>
  %2 = nn.scatter_reduce_nd %x, %u, %i {reduction = "add"} : tensor<5xf32>, tensor<4xf32>, tensor<4x1xi64> -> tensor<5xf32>
  func.return
}

// CHECK-LABEL: func.func @top_k
func.func @top_k(%x: tensor<3x20xf32>, %i: tensor<20xui8>) {
  // CHECK: nn.top_k %x {axis = 1 : i64, k = 5 : i64} : tensor<3x20xf32> -> tensor<3x5xi64>
  // GENERIC: "nn.top_k"(%{{.*}}) <{axis = 1 : i64, k = 5 : i64, largest = true}>
  %0 = nn.top_k %x {axis = 1 : i64, k = 5 : i64} : tensor<3x20xf32> -> tensor<3x5xi64>
  // CHECK: nn.top_k %i {axis = 0 : i64, k = 2 : i64, largest = false} : tensor<20xui8> -> tensor<2xi64>
  %1 = nn.top_k %i {axis = 0 : i64, k = 2 : i64, largest = false} : tensor<20xui8> -> tensor<2xi64>
  func.return
}
