// RUN: qmlir-opt --insert-observers --split-input-file %s | filecheck %s

// Arguments and what computes; a second run adds nothing.
// RUN: qmlir-opt --insert-observers --insert-observers --split-input-file %s | filecheck %s

// CHECK-LABEL: func.func @named
// CHECK-NEXT: calib.observe %x {name = "image"}
// CHECK-NEXT: %[[R:.*]] = nn.relu %x
// CHECK-NEXT: calib.observe %[[R]] {name = "r"}
// CHECK-NEXT: %[[S:.*]] = nn.sigmoid
// CHECK-NEXT: calib.observe %[[S]] {name = "squash"}
// CHECK-NEXT: func.return
func.func @named(%x: tensor<4xf32> {qmlir.name = #qmlir.name<tensors ["image"]>}) -> tensor<4xf32> {
  %0 = nn.relu %x {qmlir.name = #qmlir.name<nodes ["relu1"], tensors ["r"]>} : tensor<4xf32> -> tensor<4xf32>
  %1 = nn.sigmoid %0 {qmlir.name = #qmlir.name<nodes ["squash"]>} : tensor<4xf32> -> tensor<4xf32>
  func.return %1 : tensor<4xf32>
}

// -----

// Without names: the argument's, the operation's kind, and a number where that is taken.
// CHECK-LABEL: func.func @unnamed
// CHECK: calib.observe %x {name = "x"}
// CHECK: calib.observe %{{.*}} {name = "nn.relu"}
// CHECK: calib.observe %{{.*}} {name = "nn.relu.1"}
func.func @unnamed(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = nn.relu %x : tensor<4xf32> -> tensor<4xf32>
  %1 = nn.relu %0 : tensor<4xf32> -> tensor<4xf32>
  func.return %1 : tensor<4xf32>
}

// -----

// Names are unique in the module: the second function is not the first.
// CHECK-LABEL: func.func @main
// CHECK: calib.observe %x {name = "x"}
// CHECK-LABEL: func.func private @other
// CHECK: calib.observe %x {name = "x.1"}
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  func.return %x : tensor<4xf32>
}
func.func private @other(%x: tensor<4xf32>) -> tensor<4xf32> {
  func.return %x : tensor<4xf32>
}

// -----

// Constants and data movement have the range of something else; quantized and integer tensors have none to learn.
// CHECK-LABEL: func.func @untapped
// CHECK-NOT: calib.observe
!q = !quant.uniform<i8:f32, 0.5>
func.func @untapped(%q: tensor<2x2x!q>, %i: tensor<4xi32>) -> (tensor<4xf32>, tensor<4x!q>, tensor<2x2xi32>) {
  %0 = nn.constant <tensor<2x2xf32>, [1.0, 2.0, 3.0, 4.0]> : tensor<2x2xf32>
  %1 = nn.reshape %0 {shape = array<i64: 4>} : tensor<2x2xf32> -> tensor<4xf32>
  %2 = nn.reshape %q {shape = array<i64: 4>} : tensor<2x2x!q> -> tensor<4x!q>
  %3 = nn.reshape %i {shape = array<i64: 2, 2>} : tensor<4xi32> -> tensor<2x2xi32>
  func.return %1, %2, %3 : tensor<4xf32>, tensor<4x!q>, tensor<2x2xi32>
}

// -----

// Slices of a function that has one scale for all of its results are tapped, after what has names; those of others not.
// CHECK-LABEL: func.func @slices
// CHECK: %[[S:.*]] = nn.sigmoid
// CHECK-NEXT: calib.observe %[[S]] {name = "s"}
// CHECK-NEXT: %[[P:.*]] = nn.slice %[[S]]
// CHECK-NEXT: calib.observe %[[P]] {name = "s.slice.1"}
// CHECK-NEXT: %[[R:.*]] = nn.relu %[[P]]
// CHECK-NEXT: calib.observe %[[R]] {name = "s.slice"}
// CHECK-NEXT: nn.slice %[[R]]
// CHECK-NEXT: func.return
func.func @slices(%x: tensor<4xf32>) -> tensor<1xf32> {
  %0 = nn.sigmoid %x {qmlir.name = #qmlir.name<tensors ["s"]>} : tensor<4xf32> -> tensor<4xf32>
  %1 = nn.slice %0 {offsets = array<i64: 0>, sizes = array<i64: 2>, strides = array<i64: 1>} : tensor<4xf32> -> tensor<2xf32>
  %2 = nn.relu %1 {qmlir.name = #qmlir.name<tensors ["s.slice"]>} : tensor<2xf32> -> tensor<2xf32>
  %3 = nn.slice %2 {offsets = array<i64: 1>, sizes = array<i64: 1>, strides = array<i64: 1>} : tensor<2xf32> -> tensor<1xf32>
  func.return %3 : tensor<1xf32>
}
