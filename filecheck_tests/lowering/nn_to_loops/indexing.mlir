// RUN: qmlir-opt --nn-to-loops %s | filecheck %s

// CHECK-LABEL: func.func @main
func.func @main(%x: tensor<1x3x4x5xi8>, %i: tensor<2x3xi64>, %f: tensor<7x9xf32>, %u: tensor<2x9xf32>, %p: tensor<2x1xi32>) -> (tensor<1x2x4x5xi8>, tensor<1x2x3x4x5xi8>, tensor<7x9xf32>, tensor<7x2xi64>, tensor<2x3x4x5xi8>) {
  // What is taken whole merges with the dimension before it.
  // CHECK: func.call @nn_slice_0({{.*}}) : (memref<1x60xi8>, memref<1x40xi8>, index, index) -> ()
  %s = nn.slice %x {offsets = array<i64: 0, 1, 0, 0>, sizes = array<i64: 1, 2, 4, 5>, strides = array<i64: 1, 1, 1, 1>} : tensor<1x3x4x5xi8> -> tensor<1x2x4x5xi8>
  // CHECK: func.call @nn_gather_0({{.*}}) : (memref<1x3x20xi8>, memref<6xi64>, memref<6x20xi8>, index, index) -> ()
  %g = nn.gather %x, %i {axis = 1 : i64} : tensor<1x3x4x5xi8>, tensor<2x3xi64> -> tensor<1x2x3x4x5xi8>
  // CHECK: func.call @nn_scatter_add_nd_0({{.*}}) : (memref<63xf32>, memref<2x9xf32>, memref<2x1xi32>, memref<63xf32>, index, index) -> ()
  %a = nn.scatter_reduce_nd %f, %u, %p {reduction = "add"} : tensor<7x9xf32>, tensor<2x9xf32>, tensor<2x1xi32> -> tensor<7x9xf32>
  // CHECK: func.call @nn_top_k_0({{.*}}) : (memref<7x9x1xf32>, memref<7x2x1xi64>, index, index) -> ()
  %k = nn.top_k %f {axis = 1 : i64, k = 2 : i64} : tensor<7x9xf32> -> tensor<7x2xi64>
  // CHECK: func.call @nn_broadcast_0({{.*}}) : (memref<1x60xi8>, memref<2x60xi8>, index, index) -> ()
  %b = nn.broadcast %x {shape = array<i64: 2, 3, 4, 5>} : tensor<1x3x4x5xi8> -> tensor<2x3x4x5xi8>
  func.return %s, %g, %a, %k, %b : tensor<1x2x4x5xi8>, tensor<1x2x3x4x5xi8>, tensor<7x9xf32>, tensor<7x2xi64>, tensor<2x3x4x5xi8>
}

// An index never leaves its dimension.
// CHECK: func.func private @nn_gather_0
// CHECK: arith.select
// CHECK: arith.maxsi
// CHECK: arith.minsi

// A later row may write where an earlier one did: one item.
// CHECK: func.func private @nn_scatter_add_nd_0
// CHECK: scf.for %whole = %begin to %end
