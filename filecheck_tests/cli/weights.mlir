// Weights of up to 64 elements print inline; larger ones go to a side file with -o, or into the text, or are left out.

// RUN: not qmlir-opt %s 2>&1 | filecheck %s --check-prefix=STDOUT
// RUN: qmlir-opt --elide-weights %s | filecheck %s --check-prefix=ELIDED
// RUN: qmlir-opt --inline-weights %s > %t.inline.mlir && filecheck %s --check-prefix=INLINE < %t.inline.mlir
// RUN: qmlir-opt %s -o %t.side.mlir && test -e %t.side.safetensors && filecheck %s --check-prefix=SIDE < %t.side.mlir
// RUN: qmlir-opt %t.side.mlir --inline-weights | filecheck %s --check-prefix=INLINE
// RUN: rm -f %t.side.safetensors && not qmlir-opt %t.side.mlir 2>&1 | filecheck %s --check-prefix=LOST
// RUN: qmlir-opt --elide-weights %s | not qmlir-opt 2>&1 | filecheck %s --check-prefix=UNREADABLE

// STDOUT: error: the module: cannot be printed by itself: its large weights go to a file beside it, got 1 of them; write it with -o FILE, or use --inline-weights or --elide-weights
// ELIDED: constant_buffer <tensor<2xi8>, [1, -2]>
// ELIDED: constant_buffer <tensor<65xi8>, elided>
// INLINE: constant_buffer <tensor<65xi8>, "0x000102{{[0-9a-f]+}}40">
// SIDE: constant_buffer <tensor<65xi8>, "{{.*}}side.safetensors#{{.*}}">
// LOST: error: {{.*}}side.safetensors: needs to be there: the module's weights lie in it
// UNREADABLE: error: <stdin>:{{[0-9]+}}:{{[0-9]+}}: these weights were elided

func.func @f() {
  %a = qmlir.constant_buffer <tensor<2xi8>, [1, -2]> : memref<2xi8>
  %b = qmlir.constant_buffer <tensor<65xi8>, "0x000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f202122232425262728292a2b2c2d2e2f303132333435363738393a3b3c3d3e3f40"> : memref<65xi8>
  func.return
}
