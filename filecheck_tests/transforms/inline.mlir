// RUN: qmlir-opt --inline --split-input-file --allow-unregistered-dialect %s | filecheck %s

// A body takes the place of each call, also through several functions and inside a loop. Private functions go with
// their last use, whatever stands first; others stay.
// CHECK-LABEL: builtin.module {
// CHECK-NEXT: func.func @twice(%x: i32) -> (i32, i32) {
// CHECK-NEXT:   %[[A:.*]] = arith.addi %x, %x : i32
// CHECK-NEXT:   func.return %[[A]], %x : i32, i32
// CHECK-NEXT: }
// CHECK-NEXT: func.func @main(%y: i32, %n: index) -> i32 {
// CHECK-NEXT:   %[[B:.*]] = arith.addi %y, %y : i32
// CHECK-NEXT:   scf.for %{{.*}} = %n to %n step %n {
// CHECK-NEXT:     %[[C:.*]] = arith.addi %[[B]], %[[B]] : i32
// CHECK-NEXT:     "test.use"(%[[C]], %[[B]]) : (i32, i32) -> ()
// CHECK-NEXT:   }
// CHECK-NEXT:   func.return %[[B]] : i32
// CHECK-NEXT: }
// CHECK-NEXT: }
func.func private @outer(%x: i32) -> i32 {
  %0:2 = func.call @twice(%x) : (i32) -> (i32, i32)
  func.return %0#0 : i32
}
func.func private @nobody_calls(%x: i32) -> i32 {
  %0 = func.call @outer(%x) : (i32) -> i32
  func.return %0 : i32
}
func.func @twice(%x: i32) -> (i32, i32) {
  %0 = arith.addi %x, %x : i32
  func.return %0, %x : i32, i32
}
func.func @main(%y: i32, %n: index) -> i32 {
  %0 = func.call @outer(%y) : (i32) -> i32
  scf.for %i = %n to %n step %n {
    %1:2 = func.call @twice(%0) : (i32) -> (i32, i32)
    "test.use"(%1#0, %1#1) : (i32, i32) -> ()
  }
  func.return %0 : i32
}

// -----

// A value is called as the call says, and takes over what the function called it; decisions stay.
// CHECK-LABEL: func.func @names
// CHECK-SAME: #qmlir.name<tensors ["image"], absorbed ["x"]>
// CHECK-NEXT: %a = nn.relu %image {qmlir.name = #qmlir.name<nodes ["first", "relu"], tensors ["a"], absorbed ["y", "out", "x"]>, qmlir.decision = #qmlir.decision<float, "no-range", "profile it">}
// CHECK-NEXT: %y = nn.relu %a {qmlir.name = #qmlir.name<nodes ["relu"], tensors ["y"], absorbed ["out"]>, qmlir.decision = #qmlir.decision<float, "no-range", "profile it">}
// CHECK-NEXT: func.return %y
func.func private @block(%x: tensor<4xf32> {qmlir.name = #qmlir.name<tensors ["x"]>})
    -> (tensor<4xf32> {qmlir.name = #qmlir.name<tensors ["out"]>}) {
  %y = nn.relu %x {qmlir.name = #qmlir.name<nodes ["relu"], tensors ["y"]>, qmlir.decision = #qmlir.decision<float, "no-range", "profile it">} : tensor<4xf32> -> tensor<4xf32>
  func.return %y : tensor<4xf32>
}
func.func @names(%image: tensor<4xf32> {qmlir.name = #qmlir.name<tensors ["image"]>}) -> tensor<4xf32> {
  %a = func.call @block(%image) {qmlir.name = #qmlir.name<nodes ["first"], tensors ["a"]>} : (tensor<4xf32>) -> tensor<4xf32>
  %b = func.call @block(%a) : (tensor<4xf32>) -> tensor<4xf32>
  func.return %b : tensor<4xf32>
}

// -----

// A function that does nothing hands its names on.
// CHECK-LABEL: func.func @identity
// CHECK-NEXT: %a = nn.relu %x {qmlir.name = #qmlir.name<nodes ["relu", "same"], tensors ["a"], absorbed ["b"]>}
// CHECK-NEXT: func.return %a
func.func private @nothing(%x: tensor<4xf32>) -> tensor<4xf32> {
  func.return %x : tensor<4xf32>
}
func.func @identity(%x: tensor<4xf32>) -> tensor<4xf32> {
  %a = nn.relu %x {qmlir.name = #qmlir.name<nodes ["relu"], tensors ["a"]>} : tensor<4xf32> -> tensor<4xf32>
  %b = func.call @nothing(%a) {qmlir.name = #qmlir.name<nodes ["same"], tensors ["b"]>} : (tensor<4xf32>) -> tensor<4xf32>
  func.return %b : tensor<4xf32>
}

// -----

// What refers to a function in another way than by a call keeps it.
// CHECK-LABEL: func.func @refers
// CHECK-NEXT: "test.table"() {entries = [@used], by_name = {first = @used_by_name}}
// CHECK: func.func private @used()
// CHECK: func.func private @used_by_name()
// CHECK: func.func private @declared()
// CHECK-NOT: @unused
func.func @refers() {
  "test.table"() {entries = [@used], by_name = {first = @used_by_name}} : () -> ()
  func.return
}
func.func private @used() {
  func.return
}
func.func private @used_by_name() {
  func.return
}
func.func private @declared()
func.func private @unused() {
  func.return
}
