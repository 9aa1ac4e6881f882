// A table of 256 entries; elided on a terminal, as all large weights.

// RUN: qmlir-opt --elide-weights %s | filecheck %s
// RUN: qmlir-opt --mlir-print-op-generic --inline-weights %s | filecheck %s --check-prefix=GENERIC
// RUN: qmlir-opt --mlir-print-op-generic --inline-weights %s | qmlir-opt --elide-weights | filecheck %s

// CHECK-LABEL: func.func @lookup
func.func @lookup(%x: tensor<2x3xi8>) {
  // CHECK: qint.lookup %x, <tensor<256xi8>, elided> : tensor<2x3xi8> -> tensor<2x3xi8>
  // GENERIC: "qint.lookup"(%{{.*}}) <{table = #qmlir.weights<tensor<256xi8>, "0x000102{{[0-9a-f]+}}ff">}> : (tensor<2x3xi8>) -> tensor<2x3xi8>
  %0 = qint.lookup %x, <tensor<256xi8>, "0x000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f202122232425262728292a2b2c2d2e2f303132333435363738393a3b3c3d3e3f404142434445464748494a4b4c4d4e4f505152535455565758595a5b5c5d5e5f606162636465666768696a6b6c6d6e6f707172737475767778797a7b7c7d7e7f808182838485868788898a8b8c8d8e8f909192939495969798999a9b9c9d9e9fa0a1a2a3a4a5a6a7a8a9aaabacadaeafb0b1b2b3b4b5b6b7b8b9babbbcbdbebfc0c1c2c3c4c5c6c7c8c9cacbcccdcecfd0d1d2d3d4d5d6d7d8d9dadbdcdddedfe0e1e2e3e4e5e6e7e8e9eaebecedeeeff0f1f2f3f4f5f6f7f8f9fafbfcfdfeff"> : tensor<2x3xi8> -> tensor<2x3xi8>
  func.return
}
