// RUN: qmlir-opt --nn-to-loops --split-input-file %s | filecheck %s

// CHECK-LABEL: func.func @main
func.func @main(%x: tensor<1x2x5x2xf32>) -> tensor<1x2x5x3xf32> {
  // Weights are packed to blocks of 8 output channels, the bias likewise.
  // CHECK: qmlir.constant_buffer <tensor<8xf32>, [1.0, 3.0, 5.0, 0.0, 2.0, 4.0, 6.0, 0.0]>
  // CHECK: qmlir.constant_buffer <tensor<4xf32>, [0.5, 1.5, 2.5, 0.0]>
  %w = nn.constant <tensor<3x1x1x2xf32>, [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]> : tensor<3x1x1x2xf32>
  %b = nn.constant <tensor<3xf32>, [0.5, 1.5, 2.5]> : tensor<3xf32>
  // A pointwise convolution runs over one row of all pixels.
  // CHECK: func.call @nn_conv2d_0({{.*}}) : (memref<1x20xf32>, memref<8xf32>, memref<4xf32>, memref<1x10x3xf32>, index, index) -> ()
  %y = nn.conv2d %x, %w, %b {min = 0.0 : f32} : tensor<1x2x5x2xf32>, tensor<3x1x1x2xf32>, tensor<3xf32> -> tensor<1x2x5x3xf32>
  func.return %y : tensor<1x2x5x3xf32>
}
// A fused multiply-add for each of the outputs; the clamp at the end.
// CHECK: func.func private @nn_tile_times_block_0(%x: memref<?xf32>, %w: memref<?xf32>, %bias: memref<?xf32>, %y: memref<?xf32>, %x_at: index
// CHECK: scf.for %k = {{.*}} iter_args
// CHECK: vector.load %w
// CHECK-COUNT-4: math.fma {{.*}} : vector<4xf32>
// CHECK: scf.yield
// CHECK: arith.maximumf
// CHECK: func.func private @nn_conv2d_0(%x: memref<1x20xf32>, %w: memref<8xf32>, %bias: memref<4xf32>, %y: memref<1x10x3xf32>, %begin: index, %end: index)
// CHECK: func.call @nn_tile_times_block_0

// -----

// The rows that a window reads are copied to a ring on the stack, zeros around them; sums start at the first tap.
// CHECK-LABEL: func.func @main
func.func @main(%x: tensor<1x4x4x16xf32>) -> tensor<1x4x4x16xf32> {
  %w = nn.constant <tensor<1x1x3x16xf32>, [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0]> : tensor<1x1x3x16xf32>
  %y = nn.depthwise_conv2d %x, %w {padding = array<i64: 0, 0, 1, 1>} : tensor<1x4x4x16xf32>, tensor<1x1x3x16xf32> -> tensor<1x4x4x16xf32>
  func.return %y : tensor<1x4x4x16xf32>
}
// CHECK: func.func private @prepared_band_0(%x: memref<?xf32>, %ring: memref<?xf32>, {{.*}}) attributes {qmlir.inner}
// CHECK: vector.store %{{.*}}, %ring
// CHECK: func.func private @nn_depthwise_conv2d_strips_0(%ring: memref<?xf32>, %totals: memref<?xf32>, %x: memref<?xf32>, {{.*}}) attributes {qmlir.inner}
// CHECK: scf.for %line = {{.*}} iter_args
// CHECK: scf.for %band
// CHECK: func.call @filled_run_0
// CHECK: func.call @filled_run_0
// CHECK: func.call @prepared_band_0
// CHECK: scf.for %output = {{.*}} {
// CHECK: scf.for %kw
// CHECK: math.fma {{.*}} : vector<16xf32>
// CHECK: vector.store %{{.*}}, %totals
// CHECK: scf.for %output
// CHECK: vector.load %totals
// CHECK: vector.store %{{.*}}, %y
// CHECK: func.func private @nn_depthwise_conv2d_0
// CHECK: %ring = memref.alloca() {alignment = 64 : i64} : memref<1x96xf32>
// CHECK: %totals = memref.alloca() {alignment = 64 : i64} : memref<4x16xf32>
// CHECK: func.call @nn_depthwise_conv2d_strips_0

// -----

// The right operand of a product is packed at run time.
// CHECK-LABEL: func.func @main
func.func @main(%a: tensor<2x5x6xf32>, %b: tensor<6x20xf32>) -> tensor<2x5x20xf32> {
  // CHECK: func.call @nn_pack_columns_0({{.*}}) : (memref<1x6x20xf32>, memref<2x96xf32>, index, index) -> ()
  // CHECK: func.call @nn_matmul_0({{.*}}) : (memref<2x30xf32>, memref<192xf32>, memref<2x5x20xf32>, index, index) -> ()
  %y = nn.matmul %a, %b : tensor<2x5x6xf32>, tensor<6x20xf32> -> tensor<2x5x20xf32>
  func.return %y : tensor<2x5x20xf32>
}

// -----

// Groups of two channels have a block of four lanes each; weights that are computed are packed by a kernel.
// CHECK-LABEL: func.func @main
func.func @main(%x: tensor<1x4x4x4xf32>, %w: tensor<6x1x1x2xf32>) -> tensor<1x4x4x6xf32> {
  // CHECK: func.call @nn_pack_weights_0({{.*}}) : (memref<2x3x2xf32>, memref<2x8xf32>, index, index) -> ()
  // CHECK: func.call @nn_conv2d_0({{.*}}) : (memref<1x64xf32>, memref<16xf32>, memref<1x16x6xf32>, index, index) -> ()
  %y = nn.conv2d %x, %w {groups = 2 : i64} : tensor<1x4x4x4xf32>, tensor<6x1x1x2xf32> -> tensor<1x4x4x6xf32>
  func.return %y : tensor<1x4x4x6xf32>
}

// -----

// Weights that the model stores as integers stay integers, beside their scales and zero points, and become floats where
// they are multiplied. A tensor has one scale for each output channel.
// CHECK-LABEL: func.func @main
func.func @main(%x: tensor<2x3xf32>) -> tensor<2x4xf32> {
  // CHECK-NOT: quant_dcast
  // CHECK-DAG: qmlir.constant_buffer <tensor<12xi8>, [1, 4, 7, 10, 2, 5, 8, 11, 3, 6, 9, 12]>
  // CHECK-DAG: qmlir.constant_buffer <tensor<4xf32>, [0.5, 0.25, 0.5, 1.0]>
  // CHECK-DAG: qmlir.constant_buffer <tensor<4xf32>, [3.0, 0.0, 0.0, -2.0]>
  // CHECK: func.call @nn_fully_connected_0({{.*}}) : (memref<1x6xf32>, memref<12xi8>, memref<4xf32>, memref<4xf32>, memref<1x2x4xf32>, index, index) -> ()
  %w = nn.constant <tensor<4x3xi8>, [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]> : tensor<4x3x!quant.uniform<i8:f32:0, {0.5:3, 0.25, 0.5, 1.0:-2}>>
  %f = quant.dcast %w : tensor<4x3x!quant.uniform<i8:f32:0, {0.5:3, 0.25, 0.5, 1.0:-2}>> to tensor<4x3xf32>
  %y = nn.fully_connected %x, %f : tensor<2x3xf32>, tensor<4x3xf32> -> tensor<2x4xf32>
  func.return %y : tensor<2x4xf32>
}
// CHECK: func.func private @nn_tile_times_block_0
// CHECK: %[[S:.*]] = vector.load %scales
// CHECK: %[[Z:.*]] = vector.load %points
// CHECK: scf.for %k
// CHECK: vector.load %w{{.*}} : memref<?xi8>, vector<4xi8>
// CHECK: arith.sitofp {{.*}} : vector<4xi32> to vector<4xf32>
// CHECK: arith.subf {{.*}}, %[[Z]]
// CHECK: arith.mulf {{.*}}, %[[S]]
// CHECK: math.fma

// -----

// Blocks of inputs with a scale each.
// CHECK-LABEL: func.func @main
func.func @main(%x: tensor<1x4xf32>) -> tensor<1x4xf32> {
  // CHECK-DAG: qmlir.constant_buffer <tensor<16xi8>
  // CHECK-DAG: qmlir.constant_buffer <tensor<8xf32>, [0.5, 1.0, 1.5, 2.0, 0.75, 1.25, 1.75, 2.25]>
  // CHECK: func.call @nn_fully_connected_0({{.*}}) : (memref<1x4xf32>, memref<16xi8>, memref<8xf32>, memref<1x1x4xf32>, index, index) -> ()
  %w = nn.constant <tensor<4x4xi8>, [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 0]> : tensor<4x4xi8>
  %s = nn.constant <tensor<4x2xf32>, [0.5, 0.75, 1.0, 1.25, 1.5, 1.75, 2.0, 2.25]> : tensor<4x2xf32>
  %z = nn.constant <tensor<4x2xi8>, [0, 0, 0, 0, 0, 0, 0, 0]> : tensor<4x2xi8>
  %y = nn.blocked_fully_connected %x, %w, %s, %z {block = 2 : i64} : tensor<1x4xf32>, tensor<4x4xi8>, tensor<4x2xf32>, tensor<4x2xi8> -> tensor<1x4xf32>
  func.return %y : tensor<1x4xf32>
}
// CHECK: scf.for %scale
// CHECK: vector.load %scales
// CHECK: scf.for %k
// CHECK: math.fma
