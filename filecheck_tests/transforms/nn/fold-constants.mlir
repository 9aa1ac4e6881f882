// RUN: qmlir-opt --fold-constants --elide-weights %s | filecheck %s

// An operation on constants is evaluated; its names and theirs stay.
// CHECK-LABEL: func.func @evaluate
// CHECK-NEXT: %w = nn.constant <tensor<2xf32>, [3.0, 8.0]> {qmlir.name = #qmlir.name<nodes ["scale"], tensors ["w"], absorbed ["a", "b"]>}
// CHECK-NEXT: %y = nn.add %x, %w
// CHECK-NEXT: func.return %y
func.func @evaluate(%x: tensor<4x2xf32>) -> tensor<4x2xf32> {
  %a = nn.constant <tensor<2xf32>, [1.0, 2.0]> {qmlir.name = #qmlir.name<tensors ["a"]>} : tensor<2xf32>
  %b = nn.constant <tensor<2xf32>, [3.0, 4.0]> {qmlir.name = #qmlir.name<tensors ["b"]>} : tensor<2xf32>
  %w = nn.mul %a, %b {qmlir.name = #qmlir.name<nodes ["scale"], tensors ["w"]>} : tensor<2xf32>, tensor<2xf32> -> tensor<2xf32>
  %y = nn.add %x, %w : tensor<4x2xf32>, tensor<2xf32> -> tensor<4x2xf32>
  func.return %y : tensor<4x2xf32>
}

// Movement folds on integers too.
// CHECK-LABEL: func.func @integers
// CHECK-NEXT: nn.constant <tensor<2x1xi8>, [1, 2]>
// CHECK-NEXT: func.return
func.func @integers() -> tensor<2x1xi8> {
  %a = nn.constant <tensor<1x2xi8>, [1, 2]> : tensor<1x2xi8>
  %y = nn.transpose %a {permutation = array<i64: 1, 0>} : tensor<1x2xi8> -> tensor<2x1xi8>
  func.return %y : tensor<2x1xi8>
}

// A result much larger than its operands is cheaper to compute than to keep.
// CHECK-LABEL: func.func @not_growing
// CHECK: nn.add
func.func @not_growing() -> tensor<4096x4096xf32> {
  %row = nn.constant <tensor<1x1xf32>, [1.0]> : tensor<1x1xf32>
  %one = nn.pad %row {low = array<i64: 0, 0>, high = array<i64: 0, 4095>, value = 0.0 : f32} : tensor<1x1xf32> -> tensor<1x4096xf32>
  %two = nn.pad %row {low = array<i64: 0, 0>, high = array<i64: 4095, 0>, value = 0.0 : f32} : tensor<1x1xf32> -> tensor<4096x1xf32>
  %y = nn.add %one, %two : tensor<1x4096xf32>, tensor<4096x1xf32> -> tensor<4096x4096xf32>
  func.return %y : tensor<4096x4096xf32>
}

// Stored integers are moved.
// CHECK-LABEL: func.func @quantized
// CHECK-NEXT: nn.constant <tensor<2xi8>, [1, 2]> : tensor<2x!quant.uniform<i8:f32, 5.000000e-01>>
// CHECK-NEXT: func.return
func.func @quantized() -> tensor<2x!quant.uniform<i8:f32, 0.5>> {
  %a = nn.constant <tensor<1x2xi8>, [1, 2]> : tensor<1x2x!quant.uniform<i8:f32, 0.5>>
  %y = nn.reshape %a {shape = array<i64: 2>} : tensor<1x2x!quant.uniform<i8:f32, 0.5>> -> tensor<2x!quant.uniform<i8:f32, 0.5>>
  func.return %y : tensor<2x!quant.uniform<i8:f32, 0.5>>
}

// CHECK-LABEL: func.func @movement_that_moves_nothing
// CHECK-NEXT: func.return %x
func.func @movement_that_moves_nothing(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %a = nn.reshape %x {shape = array<i64: 2, 3>} : tensor<2x3xf32> -> tensor<2x3xf32>
  %b = nn.transpose %a {permutation = array<i64: 0, 1>} : tensor<2x3xf32> -> tensor<2x3xf32>
  %c = nn.pad %b {low = array<i64: 0, 0>, high = array<i64: 0, 0>, value = 1.0 : f32} : tensor<2x3xf32> -> tensor<2x3xf32>
  %d = nn.concat %c {axis = 0 : i64} : tensor<2x3xf32> -> tensor<2x3xf32>
  %e = nn.requantize %d : tensor<2x3xf32> -> tensor<2x3xf32>
  func.return %e : tensor<2x3xf32>
}

// CHECK-LABEL: func.func @neutral_constants
// CHECK-NEXT: func.return %x
func.func @neutral_constants(%x: tensor<2x2xf32>) -> tensor<2x2xf32> {
  %zero = nn.constant <tensor<2xf32>, [0.0, 0.0]> : tensor<2xf32>
  %one = nn.constant <tensor<f32>, [1.0]> : tensor<f32>
  %a = nn.add %zero, %x : tensor<2xf32>, tensor<2x2xf32> -> tensor<2x2xf32>
  %b = nn.mul %a, %one : tensor<2x2xf32>, tensor<f32> -> tensor<2x2xf32>
  func.return %b : tensor<2x2xf32>
}

// Adding a zero that broadcasts, or that clamps, does something.
// CHECK-LABEL: func.func @not_neutral
// CHECK: nn.add
// CHECK: nn.add
func.func @not_neutral(%x: tensor<2xf32>) -> tensor<2x2xf32> {
  %zero = nn.constant <tensor<2x2xf32>, [0.0, 0.0, 0.0, 0.0]> : tensor<2x2xf32>
  %a = nn.add %x, %zero : tensor<2xf32>, tensor<2x2xf32> -> tensor<2x2xf32>
  %b = nn.add %a, %zero {min = 0.0 : f32} : tensor<2x2xf32>, tensor<2x2xf32> -> tensor<2x2xf32>
  func.return %b : tensor<2x2xf32>
}

// CHECK-LABEL: func.func @reshapes
// CHECK-NEXT: nn.reshape %x {shape = array<i64: 3, 2>} : tensor<2x3xf32> -> tensor<3x2xf32>
// CHECK-NEXT: func.return
func.func @reshapes(%x: tensor<2x3xf32>) -> tensor<3x2xf32> {
  %a = nn.reshape %x {shape = array<i64: 6>} : tensor<2x3xf32> -> tensor<6xf32>
  %b = nn.reshape %a {shape = array<i64: 3, 2>} : tensor<6xf32> -> tensor<3x2xf32>
  func.return %b : tensor<3x2xf32>
}

// What nobody uses goes; an observer has an effect and keeps what it observes.
// CHECK-LABEL: func.func @dead_code
// CHECK-NEXT: %a = nn.relu
// CHECK-NEXT: calib.observe %a
// CHECK-NEXT: func.return %x
func.func @dead_code(%x: tensor<2xf32>) -> tensor<2xf32> {
  %a = nn.relu %x : tensor<2xf32> -> tensor<2xf32>
  %b = nn.sigmoid %a : tensor<2xf32> -> tensor<2xf32>
  calib.observe %a {name = "a"} : tensor<2xf32>
  func.return %x : tensor<2xf32>
}

// A slice of everything is nothing, one that turns it around is not.
// CHECK-LABEL: func.func @whole
// CHECK-NEXT: %[[R:.*]] = nn.slice %x {offsets = array<i64: 3>
// CHECK-NEXT: func.return %x, %[[R]], %x
func.func @whole(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) {
  %0 = nn.slice %x {offsets = array<i64: 0>, sizes = array<i64: 4>, strides = array<i64: 1>} : tensor<4xf32> -> tensor<4xf32>
  %1 = nn.slice %x {offsets = array<i64: 3>, sizes = array<i64: 4>, strides = array<i64: -1>} : tensor<4xf32> -> tensor<4xf32>
  %2 = nn.broadcast %x {shape = array<i64: 4>} : tensor<4xf32> -> tensor<4xf32>
  func.return %0, %1, %2 : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
}

// Sums and maxima of one element each are these.
// CHECK-LABEL: func.func @single
// CHECK-NEXT: %[[S:.*]] = nn.reduce_sum %x {axes = array<i64: 1>}
// CHECK-NEXT: func.return %x, %x, %[[S]]
func.func @single(%x: tensor<1x4xf32>) -> (tensor<1x4xf32>, tensor<1x4xf32>, tensor<1x1xf32>) {
  %0 = nn.reduce_mean %x {axes = array<i64>} : tensor<1x4xf32> -> tensor<1x4xf32>
  %1 = nn.reduce_max %x {axes = array<i64: 0>} : tensor<1x4xf32> -> tensor<1x4xf32>
  %2 = nn.reduce_sum %x {axes = array<i64: 1>} : tensor<1x4xf32> -> tensor<1x1xf32>
  func.return %0, %1, %2 : tensor<1x4xf32>, tensor<1x4xf32>, tensor<1x1xf32>
}

// A choice that is the same everywhere is none, unless it broadcasts what it chooses.
// CHECK-LABEL: func.func @choices
// CHECK: %[[B:.*]] = nn.where
// CHECK-NEXT: func.return %x, %z, %[[B]]
func.func @choices(%x: tensor<2x2xf32>, %z: tensor<2x2xf32>, %s: tensor<2xf32>) -> (tensor<2x2xf32>, tensor<2x2xf32>, tensor<2x2xf32>) {
  %no = nn.constant <tensor<2x1xi1>, [false, false]> : tensor<2x1xi1>
  %yes = nn.constant <tensor<i1>, [true]> : tensor<i1>
  %0 = nn.where %no, %s, %x : tensor<2x1xi1>, tensor<2xf32>, tensor<2x2xf32> -> tensor<2x2xf32>
  %1 = nn.where %yes, %z, %x : tensor<i1>, tensor<2x2xf32>, tensor<2x2xf32> -> tensor<2x2xf32>
  %2 = nn.where %no, %x, %s : tensor<2x1xi1>, tensor<2x2xf32>, tensor<2xf32> -> tensor<2x2xf32>
  func.return %0, %1, %2 : tensor<2x2xf32>, tensor<2x2xf32>, tensor<2x2xf32>
}

// What is larger than 16 MiB stays as it is described, unless it is the weights of a layer, which integers need as a
// constant.
// CHECK-LABEL: func.func @weights
// CHECK: nn.constant <tensor<2048x2049xf32>
// CHECK: nn.broadcast
// CHECK-SAME: -> tensor<2049x2048xf32>
// CHECK-NOT: nn.broadcast
// CHECK: func.return
func.func @weights(%x: tensor<1x2049xf32>) -> (tensor<1x2048xf32>, tensor<2049x2048xf32>) {
  %c = nn.constant <tensor<1x1xf32>, [0.5]> : tensor<1x1xf32>
  %w = nn.broadcast %c {shape = array<i64: 2048, 2049>} : tensor<1x1xf32> -> tensor<2048x2049xf32>
  %y = nn.fully_connected %x, %w : tensor<1x2049xf32>, tensor<2048x2049xf32> -> tensor<1x2048xf32>
  %r = nn.broadcast %c {shape = array<i64: 2049, 2048>} : tensor<1x1xf32> -> tensor<2049x2048xf32>
  func.return %y, %r : tensor<1x2048xf32>, tensor<2049x2048xf32>
}
