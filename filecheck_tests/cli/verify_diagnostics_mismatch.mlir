// What is announced and does not come, and what comes unannounced, are errors both.

// RUN: not qmlir-opt --split-input-file --verify-diagnostics %s 2>&1 >%t.out | filecheck %s

// CHECK:      error: {{.*}}:14:8: unexpected error: arith.addi: result 'result' at position 0
// CHECK-NEXT: error: {{.*}}:13:1: expected error "something else" on line 14 was not produced
// CHECK-NEXT: error: {{.*}}:20:1: expected error "the line is wrong" on line 20 was not produced
// CHECK-NEXT: error: {{.*}}:22:1: expected error "twice" on line 23 was not produced
// CHECK-NEXT: error: this is no expectation that can be met: // {{expected-error@\+x}}
// CHECK-NOT: error

func.func @a(%a: i32) {
  // expected-error@+1 {{something else}}
  %b = "arith.addi"(%a, %a) : (i32, i32) -> i64
  func.return
}

// -----

// expected-error {{the line is wrong}}
// expected-error@+3 {{%zz is used but not defined}}
// expected-error@below {{twice}}
func.func @b() {
  func.call @b(%zz) : (i32) -> ()
  func.return
}

// -----

// expected-error@+x {{no number}}
