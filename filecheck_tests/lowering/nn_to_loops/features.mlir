// RUN: qmlir-opt --nn-to-loops %s | filecheck %s
// RUN: qmlir-opt --nn-to-loops=features=+avx512f %s | filecheck %s --check-prefix=AVX512

// Registers of 512 bits hold the sums of more outputs, and two of them share each datum.
func.func @main(%x: tensor<13x1xf32>) -> tensor<13x32xf32> {
  %w = nn.constant <tensor<32x1xf32>, "0x0000803F0000803F0000803F0000803F0000803F0000803F0000803F0000803F0000803F0000803F0000803F0000803F0000803F0000803F0000803F0000803F0000803F0000803F0000803F0000803F0000803F0000803F0000803F0000803F0000803F0000803F0000803F0000803F0000803F0000803F0000803F0000803F"> : tensor<32x1xf32>
  %y = nn.fully_connected %x, %w : tensor<13x1xf32>, tensor<32x1xf32> -> tensor<13x32xf32>
  func.return %y : tensor<13x32xf32>
}

// CHECK: func.func private @nn_tile_times_block_0
// CHECK-COUNT-5: math.fma {{.*}} : vector<16xf32>
// CHECK: scf.yield

// AVX512: func.func private @nn_tile_times_block_0
// AVX512-COUNT-7: math.fma {{.*}} : vector<32xf32>
// AVX512: scf.yield
