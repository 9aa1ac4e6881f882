// RUN: qmlir-opt --inline --allow-unregistered-dialect %s | filecheck %s

// Calls that nothing can take the place of: they stay, and so do the functions they call.

// CHECK-LABEL: func.func @declaration
// CHECK-NEXT: func.call @declared
func.func private @declared()
func.func @declaration() {
  func.call @declared() : () -> ()
  func.return
}

// Calls that lead back to the function; one beside the circle can go.
// CHECK-LABEL: func.func private @self()
// CHECK-NEXT: func.call @self
// CHECK-LABEL: func.func private @ping()
// CHECK-NEXT: func.call @pong
// CHECK-LABEL: func.func private @pong()
// CHECK-NEXT: func.call @ping
// CHECK-LABEL: func.func @recursion()
// CHECK-NEXT: func.call @self
// CHECK-NEXT: func.call @ping
// CHECK-NEXT: func.return
// CHECK-NOT: @beside
func.func private @self() {
  func.call @self() : () -> ()
  func.return
}
func.func private @ping() {
  func.call @pong() : () -> ()
  func.return
}
func.func private @pong() {
  func.call @ping() : () -> ()
  func.return
}
func.func @recursion() {
  func.call @self() : () -> ()
  func.call @beside() : () -> ()
  func.return
}
func.func private @beside() {
  func.call @ping() : () -> ()
  func.return
}

// CHECK-LABEL: func.func @blocks
// CHECK-NEXT: func.call @two_blocks
func.func private @two_blocks() {
  cf.br ^bb1
^bb1:
  func.return
}
func.func @blocks() {
  func.call @two_blocks() : () -> ()
  func.return
}

// CHECK-LABEL: func.func @no_return
// CHECK-NEXT: func.call @never
func.func private @never() {
  ub.unreachable
}
func.func @no_return() {
  func.call @never() : () -> ()
  func.return
}

// CHECK-LABEL: func.func @unregistered
// CHECK-NEXT: func.call @unknown
func.func private @unknown() {
  "other.op"() : () -> ()
  func.return
}
func.func @unregistered() {
  func.call @unknown() : () -> ()
  func.return
}

// The attribute `no_inline`, also where mlir-opt prints it in the generic form.
// CHECK-LABEL: func.func @marked
// CHECK-NEXT: %[[A:.*]] = func.call @free(%x) {no_inline} : (i32) -> i32
// CHECK-NEXT: %[[B:.*]] = func.call @free(%[[A]]) {no_inline} : (i32) -> i32
// CHECK-NEXT: %[[C:.*]] = func.call @kept(%[[B]])
// CHECK-NEXT: %[[D:.*]] = func.call @kept_too(%[[C]])
// CHECK-NEXT: func.return %[[D]]
func.func @free(%x: i32) -> i32 {
  func.return %x : i32
}
func.func private @kept(%x: i32) -> i32 attributes {no_inline} {
  func.return %x : i32
}
"func.func"() <{function_type = (i32) -> i32, no_inline, sym_name = "kept_too", sym_visibility = "private"}> ({
^bb0(%x: i32):
  "func.return"(%x) : (i32) -> ()
}) : () -> ()
func.func @marked(%x: i32) -> i32 {
  %a = func.call @free(%x) {no_inline} : (i32) -> i32
  %b = "func.call"(%a) <{callee = @free, no_inline}> : (i32) -> i32
  %c = func.call @kept(%b) : (i32) -> i32
  %d = func.call @kept_too(%c) : (i32) -> i32
  func.return %d : i32
}

// One function promises scales that are powers of two, the other does not: neither becomes part of the other.
// CHECK-LABEL: func.func private @promises
// CHECK-LABEL: func.func @does_not
// CHECK-NEXT: %[[A:.*]] = func.call @promises(%x)
// CHECK-NEXT: nn.relu %[[A]]
// CHECK-LABEL: func.func @does
// CHECK-NEXT: nn.relu %x
// CHECK-NEXT: func.call @does_not
func.func private @promises(%x: tensor<4xf32>) -> tensor<4xf32> attributes {qmlir.scales = #qmlir.power_of_two} {
  %0 = nn.relu %x : tensor<4xf32> -> tensor<4xf32>
  func.return %0 : tensor<4xf32>
}
func.func @does_not(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = func.call @promises(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %1 = nn.relu %0 : tensor<4xf32> -> tensor<4xf32>
  func.return %1 : tensor<4xf32>
}
func.func @does(%x: tensor<4xf32>) -> tensor<4xf32> attributes {qmlir.scales = #qmlir.power_of_two} {
  %0 = func.call @promises(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %1 = func.call @does_not(%0) : (tensor<4xf32>) -> tensor<4xf32>
  func.return %1 : tensor<4xf32>
}

// A module inside a module has symbols of its own. (A name that any of them refers to keeps its functions, in all.)
// CHECK-LABEL: func.func private @f()
// CHECK: func.func @calls_f
// CHECK-NEXT: func.call @f
// CHECK: builtin.module @inner {
// CHECK-NEXT: func.func private @f()
// CHECK: func.func @calls_its_own
// CHECK-NEXT: arith.constant 7
// CHECK-NEXT: func.return
func.func private @f() {
  "other.op"() : () -> ()
  func.return
}
func.func @calls_f() {
  func.call @f() : () -> ()
  func.return
}
builtin.module @inner {
  func.func private @f() {
    %0 = arith.constant 7 : i32
    func.return
  }
  func.func @calls_its_own() {
    func.call @f() : () -> ()
    func.return
  }
}
