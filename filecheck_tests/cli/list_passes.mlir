// Each pass with a line, each option with its type, default and meaning; xDSL's passes by name.

// RUN: qmlir-opt --list-passes | filecheck %s
// RUN: qmlir-opt --help | filecheck %s --check-prefix=HELP

// CHECK: --choose-scales
// CHECK: schema=<asymmetric | symmetric | symmetric_with_uint8 | symmetric_with_power2_scale> (default: asymmetric)
// CHECK-NEXT: how a range becomes a scale and a zero point
// CHECK: passes of xDSL, usable alike:
// CHECK: scf-for-loop-unroll

// HELP: usage: qmlir-opt
// HELP: --verify-diagnostics
// HELP: passes:
// HELP: --choose-scales
