// Constants as mlir-opt prints them: lists, hexadecimal digits, splats and resources, of any element type.

// RUN: qmlir-opt %s | filecheck %s
// RUN: qmlir-opt --mlir-print-op-generic %s | qmlir-opt | filecheck %s
// RUN: qmlir-opt --weights=resource %s | qmlir-opt | filecheck %s

// CHECK-LABEL: func.func @hexadecimal
func.func @hexadecimal() {
  // Eight elements of i1 to a byte, as LLVM 21 and before print them; then one, as LLVM 22 does; then a splat.
  // CHECK: dense<[true, false, true]> : tensor<3xi1>
  %0 = arith.constant dense<"0x05"> : tensor<3xi1>
  // CHECK: dense<[true, false, true]> : tensor<3xi1>
  %1 = arith.constant dense<"0x010001"> : tensor<3xi1>
  // CHECK: dense<true> : tensor<20xi1>
  %2 = arith.constant dense<"0xFF"> : tensor<20xi1>
  // CHECK: dense<[1, -1, 7, -8]> : tensor<4xi4>
  %3 = arith.constant dense<"0x010F0708"> : tensor<4xi4>
  // CHECK: dense<[1, 15]> : tensor<2xui4>
  %4 = arith.constant dense<"0x010F"> : tensor<2xui4>
  // CHECK: dense<[1, -1, 70000]> : tensor<3xi24>
  %5 = arith.constant dense<"0x010000FFFFFF701101"> : tensor<3xi24>
  // CHECK: dense<[1.000000e+00, -1.000000e+00]> : tensor<2xf16>
  %6 = arith.constant dense<"0x003C00BC"> : tensor<2xf16>
  // CHECK: dense<[1.000000e+00, -1.000000e+00]> : tensor<2xbf16>
  %7 = arith.constant dense<"0x803F80BF"> : tensor<2xbf16>
  // CHECK: dense<[1.000000e+00, 0x7fc00001]> : tensor<2xf32>
  %8 = arith.constant dense<"0x0000803F0100C07F"> : tensor<2xf32>
  // CHECK: dense<[1.000000e+00, -0.000000e+00]> : tensor<2xf64>
  %9 = arith.constant dense<"0x000000000000F03F0000000000000080"> : tensor<2xf64>
  // CHECK: dense<[1, -2]> : tensor<2xindex>
  %10 = arith.constant dense<"0x0100000000000000FEFFFFFFFFFFFFFF"> : tensor<2xindex>
  // CHECK: dense<[1, 2]> : vector<2xi8>
  %11 = arith.constant dense<"0x0102"> : vector<2xi8>
  // CHECK: dense<> : tensor<0xi8>
  %12 = arith.constant dense<> : tensor<0xi8>
  func.return
}

// A splat is its element, and is printed as one, however large.

// CHECK-LABEL: func.func @splats
func.func @splats() {
  // CHECK: dense<-1> : tensor<1000x1000xi4>
  %0 = arith.constant dense<"0x0F"> : tensor<1000x1000xi4>
  // CHECK: dense<5.000000e-01> : tensor<1000x1000xf32>
  %1 = arith.constant dense<0.5> : tensor<1000x1000xf32>
  // CHECK: dense<false> : tensor<1000x1000xi1>
  %2 = arith.constant dense<false> : tensor<1000x1000xi1>
  // CHECK: dense<(1.000000e+00,2.000000e+00)> : tensor<100xcomplex<f32>>
  %3 = arith.constant dense<(1.0, 2.0)> : tensor<100xcomplex<f32>>
  func.return
}

// More than 100 elements stay hexadecimal; of i1 they are words, which every version of mlir-opt reads alike.

// CHECK-LABEL: func.func @large
func.func @large() {
  // CHECK: dense<"0x000102{{[0-9A-F]+}}6465"> : tensor<102xi8>
  %0 = arith.constant dense<"0x000102030405060708090A0B0C0D0E0F101112131415161718191A1B1C1D1E1F202122232425262728292A2B2C2D2E2F303132333435363738393A3B3C3D3E3F404142434445464748494A4B4C4D4E4F505152535455565758595A5B5C5D5E5F606162636465"> : tensor<102xi8>
  // CHECK: dense<"0x0A0B0C0D0E0F{{(0.)+}}"> : tensor<2x51xi4>
  %1 = arith.constant dense<"0x0A0B0C0D0E0F000102030405060708090A0B0C0D0E0F000102030405060708090A0B0C0D0E0F000102030405060708090A0B0C0D0E0F000102030405060708090A0B0C0D0E0F000102030405060708090A0B0C0D0E0F000102030405060708090A0B0C0D0E0F"> : tensor<2x51xi4>
  // CHECK: dense<{{\[\[}}true, false, true, true, false, false, {{.*}}true]]> : tensor<2x52xi1>
  %2 = arith.constant dense<"0x0D0000000000000000000000F0"> : tensor<2x52xi1>
  func.return
}

// A resource may be used by several constants, under a key in quotes, beside sections that are for others.

// CHECK-LABEL: func.func @resources
func.func @resources() {
  // CHECK: dense<[1.000000e+00, -1.000000e+00]> : tensor<2xf32>
  %0 = arith.constant dense_resource<w> : tensor<2xf32>
  // CHECK: dense<{{\[\[}}0, 0, -128, 63, 0, 0, -128, -65]]> : tensor<1x8xi8>
  %1 = arith.constant dense_resource<w> : tensor<1x8xi8>
  // CHECK: dense<[true, false]> : tensor<2xi1>
  %2 = arith.constant dense_resource<"layer 1 mask"> : tensor<2xi1>
  // CHECK: nn.constant <tensor<2xf32>, [1.0, -1.0]> : tensor<2xf32>
  %3 = "nn.constant"() <{value = dense_resource<w> : tensor<2xf32>}> : () -> tensor<2xf32>
  // CHECK: nn.constant <tensor<2xf32>, [1.0, -1.0]> : tensor<2xf32>
  %4 = nn.constant <tensor<2xf32>, dense_resource<w>> : tensor<2xf32>
  // CHECK: nn.constant <tensor<2xi1>, [true, false]> : tensor<2xi1>
  %5 = "nn.constant"() <{value = dense_resource<"layer 1 mask"> : tensor<2xi1>}> : () -> tensor<2xi1>
  func.return
}

{-#
  // A comment with a {-# in it.
  external_resources: {
    mlir_reproducer: {
      pipeline: "builtin.module(cse)",
      disable_threading: true
    }
  },
  dialect_resources: {
    builtin: {
      w: "0x040000000000803F000080BF",
      "layer 1 mask": "0x010000000100",
      unused: "0x00000000"
    }
  }
#-}
