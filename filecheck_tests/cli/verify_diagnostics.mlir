// Every error meets an expectation on its line, whatever found it: the lexer, the parser, an attribute, a verifier,
// the check of dominance, a pass.

// RUN: qmlir-opt --split-input-file --verify-diagnostics --convert-linalg-to-loops %s

func.func @verifier(%a: i32) {
  // expected-error@+1 {{arith.addi: result 'result' at position 0 does not verify}}
  %b = "arith.addi"(%a, %a) : (i32, i32) -> i64
  func.return
}
func.func @another_function_has_its_own_first_error() -> i32 {
  func.return // expected-error {{expected [i32], got []}}
}

// -----

func.func @undefined() {
  %b = arith.addi %zz, %zz : i32
  // expected-error@above {{%zz is used but not defined}}
  func.return
}

// -----

func.func @dominance() {
  // expected-error@below {{arith.addi: operand #0 is used before it is defined}}
  %b = arith.addi %a, %a : i32
  %a = arith.constant 1 : i32
  func.return
}

// -----

func.func @region() {
  %c = arith.constant true
  scf.if %c {
    %inner = arith.constant 1 : i32
  }
  // expected-error-re@+1 {{%{{[a-z]+}} is used but not defined}}
  %b = arith.addi %inner, %inner : i32
  func.return
}

// -----

// expected-error@+1 {{operation arith.adi is not registered; did you mean arith.a}}
%a = arith.adi
%b = arith.constant 1 : i32

// -----

// expected-error@+1 {{a decision is quantized or float, got maybe}}
%a = "test.op"() {x = #qmlir.decision<maybe, "code", "reason">} : () -> i32

// -----

func.func @end_of_line() {
  %a = arith.constant 1.5 : i32 // expected-error {{Floating point value is not valid for integer type}}

  func.return
}

// -----

// expected-error@+2 {{SSA value %a is already defined}}
%a = arith.constant 1 : i32
%a = arith.constant 1 : i32

// -----

func.func @pass(%a: tensor<2xf32>, %b: tensor<2xf32>) {
  // expected-error@+1 {{linalg.add with tensor results not yet supported}}
  %c = linalg.add ins(%a, %a : tensor<2xf32>, tensor<2xf32>) outs(%b : tensor<2xf32>) -> tensor<2xf32>
  func.return
}
