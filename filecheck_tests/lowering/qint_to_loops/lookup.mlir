// RUN: qmlir-opt --qint-to-loops --elide-weights --split-input-file %s | filecheck %s
// RUN: qmlir-opt --qint-to-loops="features=+avx2,+ssse3" --elide-weights --split-input-file %s | filecheck %s --check-prefix=SSSE3

// CHECK-LABEL: func.func @main
func.func @main(%x: tensor<4x5xi8>) -> tensor<4x5xi8> {
  // CHECK: qmlir.constant_buffer <tensor<256xi8>, elided> : memref<256xi8>
  // CHECK: func.call @qint_lookup_0({{.*}}) : (memref<20xi8>, memref<256xi8>, memref<20xi8>, index, index) -> ()
  %y = qint.lookup %x, <tensor<256xi8>, "0x00fffefdfcfbfaf9f8f7f6f5f4f3f2f1f0efeeedecebeae9e8e7e6e5e4e3e2e1e0dfdedddcdbdad9d8d7d6d5d4d3d2d1d0cfcecdcccbcac9c8c7c6c5c4c3c2c1c0bfbebdbcbbbab9b8b7b6b5b4b3b2b1b0afaeadacabaaa9a8a7a6a5a4a3a2a1a09f9e9d9c9b9a999897969594939291908f8e8d8c8b8a898887868584838281807f7e7d7c7b7a797877767574737271706f6e6d6c6b6a696867666564636261605f5e5d5c5b5a595857565554535251504f4e4d4c4b4a494847464544434241403f3e3d3c3b3a393837363534333231302f2e2d2c2b2a292827262524232221201f1e1d1c1b1a191817161514131211100f0e0d0c0b0a090807060504030201"> : tensor<4x5xi8> -> tensor<4x5xi8>
  func.return %y : tensor<4x5xi8>
}

// CHECK: func.func private @qint_lookup_0
// CHECK: %[[X:.*]] = memref.load %x
// CHECK: arith.extsi %[[X]] : i8 to i64
// CHECK: arith.index_cast %{{.*}} : i64 to index
// CHECK: memref.load %p1

// A vector at once, of the bytes' unsigned values; what is left over one by one.
// SSSE3: func.func private @qint_lookup_0
// SSSE3: arith.xori %{{.*}} : vector<16xi8>
// SSSE3: %[[TABLE:.*]] = vector.load %p1
// SSSE3: simd.lookup_bytes %[[TABLE]], %{{.*}} : vector<256xi8>, vector<16xi8>
// SSSE3: memref.load %p1

// -----

// Two neighbouring breakpoints and the line between them.
// CHECK-LABEL: func.func @main
func.func @main(%x: tensor<4x5xi16>) -> tensor<4x5xi16> {
  // CHECK: func.call @qint_interpolated_lookup_0({{.*}}) : (memref<20xi16>, memref<513xi16>, memref<20xi16>, index, index) -> ()
  %y = qint.interpolated_lookup %x, <tensor<513xi16>, "0x009c649cc89c2c9d909df49d589ebc9e209f849fe89f4ca0b0a014a178a1dca140a2a4a208a36ca3d0a334a498a4fca460a5c4a528a68ca6f0a654a7b8a71ca880a8e4a848a9aca910aa74aad8aa3caba0ab04ac68acccac30ad94adf8ad5caec0ae24af88afecaf50b0b4b018b17cb1e0b144b2a8b20cb370b3d4b338b49cb400b564b5c8b52cb690b6f4b658b7bcb720b884b8e8b84cb9b0b914ba78badcba40bba4bb08bc6cbcd0bc34bd98bdfcbd60bec4be28bf8cbff0bf54c0b8c01cc180c1e4c148c2acc210c374c3d8c33cc4a0c404c568c5ccc530c694c6f8c65cc7c0c724c888c8ecc850c9b4c918ca7ccae0ca44cba8cb0ccc70ccd4cc38cd9ccd00ce64cec8ce2ccf90cff4cf58d0bcd020d184d1e8d14cd2b0d214d378d3dcd340d4a4d408d56cd5d0d534d698d6fcd660d7c4d728d88cd8f0d854d9b8d91cda80dae4da48dbacdb10dc74dcd8dc3cdda0dd04de68deccde30df94dff8df5ce0c0e024e188e1ece150e2b4e218e37ce3e0e344e4a8e40ce570e5d4e538e69ce600e764e7c8e72ce890e8f4e858e9bce920ea84eae8ea4cebb0eb14ec78ecdcec40eda4ed08ee6ceed0ee34ef98effcef60f0c4f028f18cf1f0f154f2b8f21cf380f3e4f348f4acf410f574f5d8f53cf6a0f604f768f7ccf730f894f8f8f85cf9c0f924fa88faecfa50fbb4fb18fc7cfce0fc44fda8fd0cfe70fed4fe38ff9cff00006400c8002c019001f4015802bc0220038403e8034c04b00414057805dc054006a40608076c07d00734089808fc086009c409280a8c0af00a540bb80b1c0c800ce40c480dac0d100e740ed80e3c0fa00f04106810cc1030119411f8115c12c01224138813ec135014b41418157c15e0154416a8160c177017d41738189c1800196419c8192c1a901af41a581bbc1b201c841ce81c4c1db01d141e781edc1e401fa41f08206c20d02034219821fc216022c42228238c23f0235424b8241c258025e4254826ac2610277427d8273c28a02804296829cc29302a942af82a5c2bc02b242c882cec2c502db42d182e7c2ee02e442fa82f0c307030d43038319c3100326432c8322c339033f4335834bc3420358435e8354c36b03614377837dc374038a43808396c39d039343a983afc3a603bc43b283c8c3cf03c543db83d1c3e803ee43e483fac3f10407440d8403c41a04104426842cc4230439443f8435c44c04424458845ec455046b44618477c47e0474448a8480c497049d449384a9c4a004b644bc84b2c4c904cf44c584dbc4d204e844ee84e4c4fb04f14507850dc504051a45108526c52d05234539853fc536054c45428558c55f0555456b8561c578057e4574858ac5810597459d8593c5aa05a045b685bcc5b305c945cf85c5c5dc05d245e885eec5e505fb45f18607c60e0604461a8610c627062d46238639c630064"> : tensor<4x5xi16> -> tensor<4x5xi16>
  func.return %y : tensor<4x5xi16>
}

// CHECK: func.func private @qint_interpolated_lookup_0
// CHECK-COUNT-2: memref.load %p1
// CHECK: arith.muli {{.*}} : i32
