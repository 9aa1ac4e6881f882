// The passes of a setting, and the setting on the module, so that the quantizer knows what was done.

// RUN: qmlir-opt --rotate=what=residual --mlir-print-ir-after-all %s 2>&1 | filecheck %s
// RUN: qmlir-opt --rotate=what=none %s
// RUN: qmlir-opt --rotate=what=all %s
// RUN: qmlir-opt --rotate=what=caches %s
// RUN: not qmlir-opt --rotate=what=everything %s 2>&1 | filecheck %s --check-prefix=NONE

// NONE: error: {{.*}}what
// CHECK: simplify
// CHECK: rotate-residual-stream
// CHECK: builtin.module attributes {qmlir.rotation = "residual"}
!t = tensor<2x2xf32>
func.func @main(%x: !t) -> !t {
  %w = nn.constant <tensor<2x2xf32>, [1.0, 0.5, 0.0, 1.0]> : !t
  %a = nn.fully_connected %x, %w : !t, !t -> !t
  %b = nn.fully_connected %a, %w : !t, !t -> !t
  %s = nn.add %a, %b : !t, !t -> !t
  %n = nn.rms_norm %s {axis = 1 : i64, epsilon = 1.0e-05 : f32} : !t -> !t
  %y = nn.fully_connected %n, %w : !t, !t -> !t
  func.return %y : !t
}
