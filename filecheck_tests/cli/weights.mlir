// Weights of up to 64 elements print inline; larger ones go to a side file with -o, or into the text, or behind it, or
// are left out. Upstream's own constants are upstream's attributes in every text.

// RUN: not qmlir-opt %s 2>&1 | filecheck %s --check-prefix=STDOUT
// RUN: qmlir-opt --elide-weights %s | filecheck %s --check-prefix=ELIDED
// RUN: qmlir-opt --inline-weights %s > %t.inline.mlir && filecheck %s --check-prefix=INLINE < %t.inline.mlir
// RUN: qmlir-opt %s -o %t.side.mlir && test -e %t.side.safetensors && filecheck %s --check-prefix=SIDE < %t.side.mlir
// RUN: qmlir-opt %t.side.mlir --inline-weights | filecheck %s --check-prefix=INLINE
// RUN: rm -f %t.side.safetensors && not qmlir-opt %t.side.mlir 2>&1 | filecheck %s --check-prefix=LOST
// RUN: qmlir-opt --weights=elide %s | not qmlir-opt 2>&1 | filecheck %s --check-prefix=UNREADABLE
// RUN: qmlir-opt --weights=inline %s | filecheck %s --check-prefix=INLINE
// RUN: qmlir-opt --weights=resource %s > %t.resource.mlir && filecheck %s --check-prefix=RESOURCE < %t.resource.mlir
// RUN: qmlir-opt --weights=resource %t.resource.mlir | filecheck %s --check-prefix=RESOURCE
// RUN: qmlir-opt --weights=resource --mlir-print-op-generic %s > %t.generic.mlir && filecheck %s --check-prefix=GENERIC < %t.generic.mlir
// RUN: qmlir-opt --weights=resource %t.generic.mlir | filecheck %s --check-prefix=RESOURCE
// RUN: not qmlir-opt --weights=files %s 2>&1 | filecheck %s --check-prefix=UNKNOWN

// STDOUT: error: the module: cannot be printed by itself: its large weights go to a file beside it, got 1 of them; write it with -o FILE, or use --weights=inline, --weights=resource or --weights=elide
// ELIDED: constant_buffer <tensor<2xi8>, [1, -2]>
// ELIDED: constant_buffer <tensor<65xi8>, elided>
// INLINE: constant_buffer <tensor<65xi8>, "0x000102{{[0-9a-f]+}}40">
// ELIDED: arith.constant dense_resource<__elided__> : tensor<65xi16>
// INLINE: arith.constant dense<[0, 1, {{[0-9, ]+}}, 64]> : tensor<65xi16>
// SIDE: constant_buffer <tensor<65xi8>, "{{.*}}side.safetensors#{{.*}}">
// LOST: error: {{.*}}side.safetensors: needs to be there: the module's weights lie in it
// RESOURCE: constant_buffer <tensor<2xi8>, [1, -2]>
// RESOURCE: constant_buffer <tensor<65xi8>, dense_resource<weights>>
// RESOURCE: arith.constant dense_resource<weights.1> : tensor<65xi16>
// RESOURCE: arith.constant dense<7> : tensor<65xi16>
// RESOURCE{LITERAL}: {-#
// RESOURCE-NEXT: dialect_resources: {
// RESOURCE-NEXT: builtin: {
// RESOURCE-NEXT: weights: "0x01000000000102{{[0-9A-F]+}}40",
// RESOURCE-NEXT: weights.1: "0x0200000000000100{{[0-9A-F]+}}4000"
// RESOURCE-NEXT: }
// RESOURCE-NEXT: }
// RESOURCE-NEXT{LITERAL}: #-}
// GENERIC: "qmlir.constant_buffer"() <{value = #qmlir.weights<tensor<2xi8>, [1, -2]>}>
// GENERIC: "qmlir.constant_buffer"() <{value = dense_resource<weights> : tensor<65xi8>}>
// GENERIC: "arith.constant"() <{value = dense_resource<weights.1> : tensor<65xi16>}>
// UNKNOWN: error: {{.*}}--weights: invalid choice: 'files' (choose from {{.*}}resource
// UNREADABLE: error: <stdin>:{{[0-9]+}}:{{[0-9]+}}: these weights were elided

func.func @f() {
  %a = qmlir.constant_buffer <tensor<2xi8>, [1, -2]> : memref<2xi8>
  %b = qmlir.constant_buffer <tensor<65xi8>, "0x000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f202122232425262728292a2b2c2d2e2f303132333435363738393a3b3c3d3e3f40"> : memref<65xi8>
  %c = arith.constant dense<[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31, 32, 33, 34, 35, 36, 37, 38, 39, 40, 41, 42, 43, 44, 45, 46, 47, 48, 49, 50, 51, 52, 53, 54, 55, 56, 57, 58, 59, 60, 61, 62, 63, 64]> : tensor<65xi16>
  %d = arith.constant dense<7> : tensor<65xi16>
  func.return
}
