// RUN: qmlir-opt --cancel-transposes %s | filecheck %s

// A transpose sinks through what does not care until it meets its inverse.
// CHECK-LABEL: func.func @unary
// CHECK-NEXT: %a = nn.relu %x {qmlir.name = #qmlir.name<nodes ["relu"], tensors ["a"]>} : tensor<1x4x5x3xf32>
// CHECK-NEXT: %[[B:.*]] = nn.clamp %a {max = 6.000000e+00 : f32} : tensor<1x4x5x3xf32>
// CHECK-NEXT: func.return %[[B]]
func.func @unary(%x: tensor<1x4x5x3xf32>) -> tensor<1x4x5x3xf32> {
  %t = nn.transpose %x {permutation = array<i64: 0, 3, 1, 2>} : tensor<1x4x5x3xf32> -> tensor<1x3x4x5xf32>
  %a = nn.relu %t {qmlir.name = #qmlir.name<nodes ["relu"], tensors ["a"]>} : tensor<1x3x4x5xf32> -> tensor<1x3x4x5xf32>
  %b = nn.clamp %a {max = 6.0 : f32} : tensor<1x3x4x5xf32> -> tensor<1x3x4x5xf32>
  %y = nn.transpose %b {permutation = array<i64: 0, 2, 3, 1>} : tensor<1x3x4x5xf32> -> tensor<1x4x5x3xf32>
  func.return %y : tensor<1x4x5x3xf32>
}

// It ends at the function's edge. Names of a transpose that is gone go to the operation whose result it showed.
// CHECK-LABEL: func.func @edge
// CHECK-NEXT: %[[X:.*]] = nn.global_average_pool %x {qmlir.name = #qmlir.name<nodes ["pool", "flip"], tensors ["p"], absorbed ["t"]>}
// CHECK-NEXT: %[[Y:.*]] = nn.sigmoid
// CHECK-NEXT: %[[R:.*]] = nn.reshape %[[Y]] {shape = array<i64: 1, 3, 1, 1>}
// CHECK-NEXT: func.return %[[R]]
func.func @edge(%x: tensor<1x4x5x3xf32>) -> tensor<1x3x1x1xf32> {
  %p = nn.global_average_pool %x {qmlir.name = #qmlir.name<nodes ["pool"], tensors ["p"]>} : tensor<1x4x5x3xf32> -> tensor<1x1x1x3xf32>
  %t = nn.transpose %p {permutation = array<i64: 0, 3, 1, 2>, qmlir.name = #qmlir.name<nodes ["flip"], tensors ["t"]>} : tensor<1x1x1x3xf32> -> tensor<1x3x1x1xf32>
  %y = nn.sigmoid %t : tensor<1x3x1x1xf32> -> tensor<1x3x1x1xf32>
  func.return %y : tensor<1x3x1x1xf32>
}

// Other operands: transposed alike, constants of lower rank, scalars.
// CHECK-LABEL: func.func @binary
// CHECK-NEXT: %s = nn.constant <tensor<1xf32>, [2.0]>
// CHECK-NEXT: %[[A:.*]] = nn.add %x, %x :
// CHECK-NEXT: %[[C:.*]] = nn.constant <tensor<1x1x1x3xf32>, [1.0, 2.0, 3.0]>
// CHECK-NEXT: %[[B:.*]] = nn.add %[[A]], %[[C]] {min = 0.000000e+00 : f32}
// CHECK-NEXT: %[[D:.*]] = nn.mul %s, %[[B]]
// CHECK-NEXT: func.return %[[D]]
func.func @binary(%x: tensor<1x4x5x3xf32>) -> tensor<1x4x5x3xf32> {
  %c = nn.constant <tensor<3x1x1xf32>, [1.0, 2.0, 3.0]> : tensor<3x1x1xf32>
  %s = nn.constant <tensor<1xf32>, [2.0]> : tensor<1xf32>
  %t = nn.transpose %x {permutation = array<i64: 0, 3, 1, 2>} : tensor<1x4x5x3xf32> -> tensor<1x3x4x5xf32>
  %u = nn.transpose %x {permutation = array<i64: 0, 3, 1, 2>} : tensor<1x4x5x3xf32> -> tensor<1x3x4x5xf32>
  %a = nn.add %t, %u : tensor<1x3x4x5xf32>, tensor<1x3x4x5xf32> -> tensor<1x3x4x5xf32>
  %b = nn.add %a, %c {min = 0.0 : f32} : tensor<1x3x4x5xf32>, tensor<3x1x1xf32> -> tensor<1x3x4x5xf32>
  %d = nn.mul %s, %b : tensor<1xf32>, tensor<1x3x4x5xf32> -> tensor<1x3x4x5xf32>
  %y = nn.transpose %d {permutation = array<i64: 0, 2, 3, 1>} : tensor<1x3x4x5xf32> -> tensor<1x4x5x3xf32>
  func.return %y : tensor<1x4x5x3xf32>
}

// A value whose transpose is only a reshape goes along: squeeze and excitation.
// CHECK-LABEL: func.func @squeeze_excite
// CHECK-NEXT: %[[P:.*]] = nn.global_average_pool %x
// CHECK-NEXT: %[[S:.*]] = nn.sigmoid %[[P]]
// CHECK-NEXT: %[[Y:.*]] = nn.mul %x, %[[S]]
// CHECK-NEXT: func.return %[[Y]]
func.func @squeeze_excite(%x: tensor<1x4x5x3xf32>) -> tensor<1x4x5x3xf32> {
  %t = nn.transpose %x {permutation = array<i64: 0, 3, 1, 2>} : tensor<1x4x5x3xf32> -> tensor<1x3x4x5xf32>
  %p = nn.global_average_pool %x : tensor<1x4x5x3xf32> -> tensor<1x1x1x3xf32>
  %r = nn.reshape %p {shape = array<i64: 1, 3, 1, 1>} : tensor<1x1x1x3xf32> -> tensor<1x3x1x1xf32>
  %q = nn.reshape %r {shape = array<i64: 1, 1, 1, 3>} : tensor<1x3x1x1xf32> -> tensor<1x1x1x3xf32>
  %s = nn.sigmoid %q : tensor<1x1x1x3xf32> -> tensor<1x1x1x3xf32>
  %u = nn.reshape %s {shape = array<i64: 1, 3, 1, 1>} : tensor<1x1x1x3xf32> -> tensor<1x3x1x1xf32>
  %m = nn.mul %t, %u : tensor<1x3x4x5xf32>, tensor<1x3x1x1xf32> -> tensor<1x3x4x5xf32>
  %y = nn.transpose %m {permutation = array<i64: 0, 2, 3, 1>} : tensor<1x3x4x5xf32> -> tensor<1x4x5x3xf32>
  func.return %y : tensor<1x4x5x3xf32>
}

// Axes and paddings follow.
// CHECK-LABEL: func.func @axes
// CHECK-NEXT: %[[A:.*]] = nn.concat %x, %x {axis = 3 : i64} : tensor<1x4x5x3xf32>, tensor<1x4x5x3xf32> -> tensor<1x4x5x6xf32>
// CHECK-NEXT: %[[B:.*]] = nn.softmax %[[A]] {axis = 2 : i64}
// CHECK-NEXT: %[[C:.*]] = nn.pad %[[B]] {low = array<i64: 0, 3, 4, 2>, high = array<i64: 0, 7, 8, 6>, value = 1.000000e+00 : f32}
// CHECK-NEXT: %[[Y:.*]] = nn.transpose %[[C]] {permutation = array<i64: 0, 3, 1, 2>}
// CHECK-NEXT: func.return %[[Y]]
func.func @axes(%x: tensor<1x4x5x3xf32>) -> tensor<1x14x14x17xf32> {
  %t = nn.transpose %x {permutation = array<i64: 0, 3, 1, 2>} : tensor<1x4x5x3xf32> -> tensor<1x3x4x5xf32>
  %a = nn.concat %t, %t {axis = 1 : i64} : tensor<1x3x4x5xf32>, tensor<1x3x4x5xf32> -> tensor<1x6x4x5xf32>
  %b = nn.softmax %a {axis = 3 : i64} : tensor<1x6x4x5xf32> -> tensor<1x6x4x5xf32>
  %y = nn.pad %b {low = array<i64: 0, 2, 3, 4>, high = array<i64: 0, 6, 7, 8>, value = 1.0 : f32} : tensor<1x6x4x5xf32> -> tensor<1x14x14x17xf32>
  func.return %y : tensor<1x14x14x17xf32>
}

// Casts and quantized operations, where the type is per tensor.
// CHECK-LABEL: func.func @quantized
// CHECK-NEXT: %[[Q:.*]] = quant.qcast %x : tensor<1x4x5x3xf32>
// CHECK-NEXT: %[[I:.*]] = nn.requantize %[[Q]]
// CHECK-NEXT: %[[D:.*]] = quant.dcast %[[I]]
// CHECK-NEXT: func.return %[[D]]
func.func @quantized(%x: tensor<1x4x5x3xf32>) -> tensor<1x4x5x3xf32> {
  %t = nn.transpose %x {permutation = array<i64: 0, 3, 1, 2>} : tensor<1x4x5x3xf32> -> tensor<1x3x4x5xf32>
  %q = quant.qcast %t : tensor<1x3x4x5xf32> to tensor<1x3x4x5x!quant.uniform<i8:f32, 0.5>>
  %r = nn.requantize %q : tensor<1x3x4x5x!quant.uniform<i8:f32, 0.5>> -> tensor<1x3x4x5x!quant.uniform<i8:f32, 0.25>>
  %d = quant.dcast %r : tensor<1x3x4x5x!quant.uniform<i8:f32, 0.25>> to tensor<1x3x4x5xf32>
  %y = nn.transpose %d {permutation = array<i64: 0, 2, 3, 1>} : tensor<1x3x4x5xf32> -> tensor<1x4x5x3xf32>
  func.return %y : tensor<1x4x5x3xf32>
}

// CHECK-LABEL: func.func @not_per_axis
// CHECK-NEXT: nn.transpose
// CHECK-NEXT: quant.qcast
// CHECK-NEXT: func.return
func.func @not_per_axis(%x: tensor<2x3xf32>) -> tensor<3x2x!quant.uniform<i8:f32:1, {0.5,0.25}>> {
  %t = nn.transpose %x {permutation = array<i64: 1, 0>} : tensor<2x3xf32> -> tensor<3x2xf32>
  %q = quant.qcast %t : tensor<3x2xf32> to tensor<3x2x!quant.uniform<i8:f32:1, {0.5,0.25}>>
  func.return %q : tensor<3x2x!quant.uniform<i8:f32:1, {0.5,0.25}>>
}

// A reshape that keeps neighbours together lets it pass, and here nothing is left to move.
// CHECK-LABEL: func.func @reshape
// CHECK-NEXT: %[[A:.*]] = nn.reshape %x {shape = array<i64: 1, 20, 3>}
// CHECK-NEXT: func.return %[[A]]
func.func @reshape(%x: tensor<1x4x5x3xf32>) -> tensor<1x20x3xf32> {
  %t = nn.transpose %x {permutation = array<i64: 0, 3, 1, 2>} : tensor<1x4x5x3xf32> -> tensor<1x3x4x5xf32>
  %r = nn.reshape %t {shape = array<i64: 1, 3, 20>} : tensor<1x3x4x5xf32> -> tensor<1x3x20xf32>
  %y = nn.transpose %r {permutation = array<i64: 0, 2, 1>} : tensor<1x3x20xf32> -> tensor<1x20x3xf32>
  func.return %y : tensor<1x20x3xf32>
}

// One that scatters them does not.
// CHECK-LABEL: func.func @not_reshape
// CHECK-NEXT: %[[A:.*]] = nn.transpose %x
// CHECK-NEXT: nn.reshape %[[A]]
func.func @not_reshape(%x: tensor<1x4x5x3xf32>) -> tensor<1x60xf32> {
  %t = nn.transpose %x {permutation = array<i64: 0, 3, 1, 2>} : tensor<1x4x5x3xf32> -> tensor<1x3x4x5xf32>
  %y = nn.reshape %t {shape = array<i64: 1, 60>} : tensor<1x3x4x5xf32> -> tensor<1x60xf32>
  func.return %y : tensor<1x60xf32>
}

// Flattened for a layer with constant weights, it permutes their columns: channels come last now.
// CHECK-LABEL: func.func @fully_connected
// CHECK-NEXT: %[[X:.*]] = nn.reshape %x {shape = array<i64: 2, 4>}
// CHECK-NEXT: %[[W:.*]] = nn.constant <tensor<1x4xf32>, [1.0, 3.0, 2.0, 4.0]>
// CHECK-NEXT: nn.fully_connected %[[X]], %[[W]]
// CHECK-NEXT: func.return
func.func @fully_connected(%x: tensor<2x1x2x2xf32>) -> tensor<2x1xf32> {
  %w = nn.constant <tensor<1x4xf32>, [1.0, 2.0, 3.0, 4.0]> : tensor<1x4xf32>
  %t = nn.transpose %x {permutation = array<i64: 0, 3, 1, 2>} : tensor<2x1x2x2xf32> -> tensor<2x2x1x2xf32>
  %f = nn.reshape %t {shape = array<i64: 2, 4>} : tensor<2x2x1x2xf32> -> tensor<2x4xf32>
  %y = nn.fully_connected %f, %w : tensor<2x4xf32>, tensor<1x4xf32> -> tensor<2x1xf32>
  func.return %y : tensor<2x1xf32>
}

// A transpose of the batch would mix the rows, and computed weights cannot be permuted here.
// CHECK-LABEL: func.func @not_fully_connected
// CHECK: nn.transpose
// CHECK: nn.transpose
func.func @not_fully_connected(%x: tensor<2x2x2xf32>, %v: tensor<1x4xf32>) -> (tensor<2x1xf32>, tensor<2x1xf32>) {
  %w = nn.constant <tensor<1x4xf32>, [1.0, 2.0, 3.0, 4.0]> : tensor<1x4xf32>
  %t = nn.transpose %x {permutation = array<i64: 1, 0, 2>} : tensor<2x2x2xf32> -> tensor<2x2x2xf32>
  %f = nn.reshape %t {shape = array<i64: 2, 4>} : tensor<2x2x2xf32> -> tensor<2x4xf32>
  %y = nn.fully_connected %f, %w : tensor<2x4xf32>, tensor<1x4xf32> -> tensor<2x1xf32>
  %u = nn.transpose %x {permutation = array<i64: 0, 2, 1>} : tensor<2x2x2xf32> -> tensor<2x2x2xf32>
  %g = nn.reshape %u {shape = array<i64: 2, 4>} : tensor<2x2x2xf32> -> tensor<2x4xf32>
  %z = nn.fully_connected %g, %v : tensor<2x4xf32>, tensor<1x4xf32> -> tensor<2x1xf32>
  func.return %y, %z : tensor<2x1xf32>, tensor<2x1xf32>
}

// CHECK-LABEL: func.func @compose
// CHECK-NEXT: nn.transpose %x {permutation = array<i64: 0, 2, 1, 3>} : tensor<1x4x5x3xf32> -> tensor<1x5x4x3xf32>
// CHECK-NEXT: func.return
func.func @compose(%x: tensor<1x4x5x3xf32>) -> tensor<1x5x4x3xf32> {
  %t = nn.transpose %x {permutation = array<i64: 0, 3, 1, 2>} : tensor<1x4x5x3xf32> -> tensor<1x3x4x5xf32>
  %y = nn.transpose %t {permutation = array<i64: 0, 3, 2, 1>} : tensor<1x3x4x5xf32> -> tensor<1x5x4x3xf32>
  func.return %y : tensor<1x5x4x3xf32>
}

// At the input side it rises to the argument, so that a normalization meets the convolution.
// CHECK-LABEL: func.func @input_side
// CHECK: %[[X:.*]] = nn.transpose %x {permutation = array<i64: 0, 2, 3, 1>}
// CHECK-NEXT: %[[C:.*]] = nn.constant <tensor<1x1x1x2xf32>, [1.0, 2.0]>
// CHECK-NEXT: %[[Y:.*]] = nn.mul %[[X]], %[[C]]
// CHECK-NEXT: nn.conv2d %[[Y]]
func.func @input_side(%x: tensor<1x2x4x5xf32>, %w: tensor<1x1x1x2xf32>) -> tensor<1x4x5x1xf32> {
  %c = nn.constant <tensor<2x1x1xf32>, [1.0, 2.0]> : tensor<2x1x1xf32>
  %m = nn.mul %x, %c : tensor<1x2x4x5xf32>, tensor<2x1x1xf32> -> tensor<1x2x4x5xf32>
  %t = nn.transpose %m {permutation = array<i64: 0, 2, 3, 1>} : tensor<1x2x4x5xf32> -> tensor<1x4x5x2xf32>
  %y = nn.conv2d %t, %w : tensor<1x4x5x2xf32>, tensor<1x1x1x2xf32> -> tensor<1x4x5x1xf32>
  func.return %y : tensor<1x4x5x1xf32>
}

// A residual with the argument shares the transpose that is there.
// CHECK-LABEL: func.func @residual
// CHECK-NEXT: %[[X:.*]] = nn.transpose %x
// CHECK-NEXT: %[[A:.*]] = nn.conv2d %[[X]], %w
// CHECK-NEXT: %[[S:.*]] = nn.add %[[A]], %[[X]]
// CHECK-NEXT: nn.conv2d %[[S]], %w
// CHECK-NEXT: func.return
func.func @residual(%x: tensor<1x2x4x5xf32>, %w: tensor<2x1x1x2xf32>) -> tensor<1x4x5x2xf32> {
  %t = nn.transpose %x {permutation = array<i64: 0, 2, 3, 1>} : tensor<1x2x4x5xf32> -> tensor<1x4x5x2xf32>
  %a = nn.conv2d %t, %w : tensor<1x4x5x2xf32>, tensor<2x1x1x2xf32> -> tensor<1x4x5x2xf32>
  %u = nn.transpose %a {permutation = array<i64: 0, 3, 1, 2>} : tensor<1x4x5x2xf32> -> tensor<1x2x4x5xf32>
  %s = nn.add %u, %x : tensor<1x2x4x5xf32>, tensor<1x2x4x5xf32> -> tensor<1x2x4x5xf32>
  %v = nn.transpose %s {permutation = array<i64: 0, 2, 3, 1>} : tensor<1x2x4x5xf32> -> tensor<1x4x5x2xf32>
  %y = nn.conv2d %v, %w : tensor<1x4x5x2xf32>, tensor<2x1x1x2xf32> -> tensor<1x4x5x2xf32>
  func.return %y : tensor<1x4x5x2xf32>
}

// With several users, it sinks only if all of them let it.
// CHECK-LABEL: func.func @several_users
// CHECK: %[[A:.*]] = nn.relu %x : tensor<1x4x5x3xf32>
// CHECK: %[[B:.*]] = nn.sigmoid %x : tensor<1x4x5x3xf32>
// CHECK: nn.mul %[[A]], %[[B]]
func.func @several_users(%x: tensor<1x4x5x3xf32>) -> tensor<1x4x5x3xf32> {
  %t = nn.transpose %x {permutation = array<i64: 0, 3, 1, 2>} : tensor<1x4x5x3xf32> -> tensor<1x3x4x5xf32>
  %a = nn.relu %t : tensor<1x3x4x5xf32> -> tensor<1x3x4x5xf32>
  %b = nn.sigmoid %t : tensor<1x3x4x5xf32> -> tensor<1x3x4x5xf32>
  %c = nn.mul %a, %b : tensor<1x3x4x5xf32>, tensor<1x3x4x5xf32> -> tensor<1x3x4x5xf32>
  %y = nn.transpose %c {permutation = array<i64: 0, 2, 3, 1>} : tensor<1x3x4x5xf32> -> tensor<1x4x5x3xf32>
  func.return %y : tensor<1x4x5x3xf32>
}

// CHECK-LABEL: func.func @not_several_users
// CHECK-NEXT: %[[T:.*]] = nn.transpose %x
// CHECK-NEXT: nn.relu %[[T]]
// CHECK-NEXT: calib.observe %[[T]]
func.func @not_several_users(%x: tensor<1x4x5x3xf32>) -> tensor<1x3x4x5xf32> {
  %t = nn.transpose %x {permutation = array<i64: 0, 3, 1, 2>} : tensor<1x4x5x3xf32> -> tensor<1x3x4x5xf32>
  %a = nn.relu %t : tensor<1x3x4x5xf32> -> tensor<1x3x4x5xf32>
  calib.observe %t {name = "t"} : tensor<1x3x4x5xf32>
  func.return %a : tensor<1x3x4x5xf32>
}

// A computed operand in the other layout holds it up, and an operation with an order of its own does.
// CHECK-LABEL: func.func @not_past
// CHECK: %[[T:.*]] = nn.transpose %x
// CHECK-NEXT: nn.reshape %z
// CHECK-NEXT: %[[A:.*]] = nn.add %[[T]], %{{.*}}
// CHECK-NEXT: %[[U:.*]] = nn.transpose %[[A]]
// CHECK-NEXT: nn.max_pool2d %[[U]]
func.func @not_past(%x: tensor<1x4x4x3xf32>, %z: tensor<48xf32>) -> tensor<1x2x2x3xf32> {
  %t = nn.transpose %x {permutation = array<i64: 0, 3, 1, 2>} : tensor<1x4x4x3xf32> -> tensor<1x3x4x4xf32>
  %r = nn.reshape %z {shape = array<i64: 1, 3, 4, 4>} : tensor<48xf32> -> tensor<1x3x4x4xf32>
  %a = nn.add %t, %r : tensor<1x3x4x4xf32>, tensor<1x3x4x4xf32> -> tensor<1x3x4x4xf32>
  %u = nn.transpose %a {permutation = array<i64: 0, 2, 3, 1>} : tensor<1x3x4x4xf32> -> tensor<1x4x4x3xf32>
  %y = nn.max_pool2d %u {window = array<i64: 2, 2>, strides = array<i64: 2, 2>} : tensor<1x4x4x3xf32> -> tensor<1x2x2x3xf32>
  func.return %y : tensor<1x2x2x3xf32>
}

// Slices, repetitions, gathers along one axis and resizes change their axes.
// CHECK-LABEL: func.func @selection
// CHECK-NEXT: %i = nn.constant
// CHECK-NEXT: %[[A:.*]] = nn.slice %x {offsets = array<i64: 0, 3, 1, 0>, sizes = array<i64: 1, 2, 4, 3>, strides = array<i64: 1, -1, 1, 1>} : tensor<1x4x5x3xf32> -> tensor<1x2x4x3xf32>
// CHECK-NEXT: %[[B:.*]] = nn.gather %[[A]], %i {axis = 2 : i64} : tensor<1x2x4x3xf32>, tensor<2xi64> -> tensor<1x2x2x3xf32>
// CHECK-NEXT: %[[C:.*]] = nn.broadcast %[[B]] {shape = array<i64: 6, 2, 2, 3>}
// CHECK-NEXT: %[[D:.*]] = nn.resize %[[C]] {axes = array<i64: 2>, {{.*}} : tensor<6x2x2x3xf32> -> tensor<6x2x1x3xf32>
// CHECK-NEXT: func.return %[[D]]
func.func @selection(%x: tensor<1x4x5x3xf32>) -> tensor<6x2x1x3xf32> {
  %i = nn.constant <tensor<2xi64>, [3, 0]> : tensor<2xi64>
  %t = nn.transpose %x {permutation = array<i64: 0, 3, 1, 2>} : tensor<1x4x5x3xf32> -> tensor<1x3x4x5xf32>
  %a = nn.slice %t {offsets = array<i64: 0, 0, 3, 1>, sizes = array<i64: 1, 3, 2, 4>, strides = array<i64: 1, 1, -1, 1>} : tensor<1x3x4x5xf32> -> tensor<1x3x2x4xf32>
  %b = nn.gather %a, %i {axis = 3 : i64} : tensor<1x3x2x4xf32>, tensor<2xi64> -> tensor<1x3x2x2xf32>
  %c = nn.broadcast %b {shape = array<i64: 6, 3, 2, 2>} : tensor<1x3x2x2xf32> -> tensor<6x3x2x2xf32>
  %d = nn.resize %c {axes = array<i64: 3>, taps = [#qmlir.weights<tensor<1x2xi64>, [0, 1]>], weights = [#qmlir.weights<tensor<1x2xf64>, [0.5, 0.5]>]} : tensor<6x3x2x2xf32> -> tensor<6x3x2x1xf32>
  %y = nn.transpose %d {permutation = array<i64: 0, 2, 3, 1>} : tensor<6x3x2x1xf32> -> tensor<6x2x1x3xf32>
  func.return %y : tensor<6x2x1x3xf32>
}
