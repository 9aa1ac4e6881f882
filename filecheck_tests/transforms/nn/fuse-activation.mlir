// RUN: qmlir-opt --fuse-activation %s | filecheck %s

// CHECK-LABEL: func.func @relu
// CHECK-NEXT: %y = nn.conv2d %x, %w {qmlir.name = #qmlir.name<nodes ["conv", "relu"], tensors ["y"], absorbed ["a"]>, min = 0.000000e+00 : f32}
// CHECK-NEXT: func.return %y
func.func @relu(%x: tensor<1x4x4x1xf32>, %w: tensor<2x1x1x1xf32>) -> tensor<1x4x4x2xf32> {
  %a = nn.conv2d %x, %w {qmlir.name = #qmlir.name<nodes ["conv"], tensors ["a"]>} : tensor<1x4x4x1xf32>, tensor<2x1x1x1xf32> -> tensor<1x4x4x2xf32>
  %y = nn.relu %a {qmlir.name = #qmlir.name<nodes ["relu"], tensors ["y"]>} : tensor<1x4x4x2xf32> -> tensor<1x4x4x2xf32>
  func.return %y : tensor<1x4x4x2xf32>
}

// Into every operation that clamps, within the bounds it has.
// CHECK-LABEL: func.func @producers
// CHECK-NEXT: nn.depthwise_conv2d {{.*}} {min = 0.000000e+00 : f32}
// CHECK-NEXT: nn.add {{.*}} {min = 0.000000e+00 : f32, max = 6.000000e+00 : f32}
// CHECK-NEXT: nn.mul {{.*}} {min = 1.000000e+00 : f32, max = 2.000000e+00 : f32}
// CHECK-NEXT: nn.matmul {{.*}} {min = 0.000000e+00 : f32}
// CHECK-NEXT: func.return
func.func @producers(%x: tensor<1x2x2x2xf32>, %w: tensor<1x1x1x2xf32>) -> tensor<1x2x2x2xf32> {
  %a = nn.depthwise_conv2d %x, %w : tensor<1x2x2x2xf32>, tensor<1x1x1x2xf32> -> tensor<1x2x2x2xf32>
  %b = nn.relu %a : tensor<1x2x2x2xf32> -> tensor<1x2x2x2xf32>
  %c = nn.add %b, %x {max = 6.0 : f32} : tensor<1x2x2x2xf32>, tensor<1x2x2x2xf32> -> tensor<1x2x2x2xf32>
  %d = nn.relu %c : tensor<1x2x2x2xf32> -> tensor<1x2x2x2xf32>
  %e = nn.mul %d, %x {min = 1.0 : f32, max = 3.0 : f32} : tensor<1x2x2x2xf32>, tensor<1x2x2x2xf32> -> tensor<1x2x2x2xf32>
  %f = nn.clamp %e {min = 0.0 : f32, max = 2.0 : f32} : tensor<1x2x2x2xf32> -> tensor<1x2x2x2xf32>
  %g = nn.matmul %f, %f : tensor<1x2x2x2xf32>, tensor<1x2x2x2xf32> -> tensor<1x2x2x2xf32>
  %y = nn.relu %g : tensor<1x2x2x2xf32> -> tensor<1x2x2x2xf32>
  func.return %y : tensor<1x2x2x2xf32>
}

// Ranges that do not meet leave one value, the nearer end of the later clamp.
// CHECK-LABEL: func.func @disjoint
// CHECK-NEXT: nn.add {{.*}} {min = 5.000000e+00 : f32, max = 5.000000e+00 : f32}
func.func @disjoint(%x: tensor<2xf32>) -> tensor<2xf32> {
  %a = nn.add %x, %x {max = 1.0 : f32} : tensor<2xf32>, tensor<2xf32> -> tensor<2xf32>
  %y = nn.clamp %a {min = 5.0 : f32, max = 6.0 : f32} : tensor<2xf32> -> tensor<2xf32>
  func.return %y : tensor<2xf32>
}

// CHECK-LABEL: func.func @merge
// CHECK-NEXT: nn.clamp %x {min = 0.000000e+00 : f32, max = 6.000000e+00 : f32}
// CHECK-NEXT: nn.relu %x
// CHECK-NEXT: func.return
func.func @merge(%x: tensor<2xf32>) -> (tensor<2xf32>, tensor<2xf32>, tensor<2xf32>) {
  %a = nn.relu %x : tensor<2xf32> -> tensor<2xf32>
  %b = nn.clamp %a {min = -1.0 : f32, max = 6.0 : f32} : tensor<2xf32> -> tensor<2xf32>
  %c = nn.relu %x : tensor<2xf32> -> tensor<2xf32>
  %d = nn.clamp %c {min = 0.0 : f32} : tensor<2xf32> -> tensor<2xf32>
  %e = nn.clamp %x : tensor<2xf32> -> tensor<2xf32>
  func.return %b, %d, %e : tensor<2xf32>, tensor<2xf32>, tensor<2xf32>
}

// Before a maximum and before movement, where it then fuses. The value in between has no name in the source.
// CHECK-LABEL: func.func @before_movement
// CHECK-NEXT: %[[A:.*]] = nn.conv2d {{.*}} {qmlir.name = #qmlir.name<nodes ["conv"], tensors ["a.relu"], absorbed ["a"]>, min = 0.000000e+00 : f32}
// CHECK-NEXT: %[[P:.*]] = nn.max_pool2d %[[A]] {qmlir.name = #qmlir.name<nodes ["pool", "relu"], tensors ["y"], absorbed ["p"]>
// CHECK-NEXT: nn.reshape %[[P]]
// CHECK-NEXT: func.return
func.func @before_movement(%x: tensor<1x4x4x1xf32>, %w: tensor<2x1x1x1xf32>) -> tensor<1x8xf32> {
  %a = nn.conv2d %x, %w {qmlir.name = #qmlir.name<nodes ["conv"], tensors ["a"]>} : tensor<1x4x4x1xf32>, tensor<2x1x1x1xf32> -> tensor<1x4x4x2xf32>
  %p = nn.max_pool2d %a {qmlir.name = #qmlir.name<nodes ["pool"], tensors ["p"]>, window = array<i64: 2, 2>, strides = array<i64: 2, 2>} : tensor<1x4x4x2xf32> -> tensor<1x2x2x2xf32>
  %f = nn.reshape %p {shape = array<i64: 1, 8>} : tensor<1x2x2x2xf32> -> tensor<1x8xf32>
  %y = nn.relu %f {qmlir.name = #qmlir.name<nodes ["relu"], tensors ["y"]>} : tensor<1x8xf32> -> tensor<1x8xf32>
  func.return %y : tensor<1x8xf32>
}

// CHECK-LABEL: func.func @before_concat
// CHECK-NEXT: nn.add {{.*}} {min = 0.000000e+00 : f32}
// CHECK-NEXT: nn.mul {{.*}} {min = 0.000000e+00 : f32}
// CHECK-NEXT: nn.concat
// CHECK-NEXT: func.return
func.func @before_concat(%x: tensor<2xf32>) -> tensor<4xf32> {
  %a = nn.add %x, %x : tensor<2xf32>, tensor<2xf32> -> tensor<2xf32>
  %b = nn.mul %x, %x : tensor<2xf32>, tensor<2xf32> -> tensor<2xf32>
  %c = nn.concat %a, %b {axis = 0 : i64} : tensor<2xf32>, tensor<2xf32> -> tensor<4xf32>
  %y = nn.relu %c : tensor<4xf32> -> tensor<4xf32>
  func.return %y : tensor<4xf32>
}

// Where it would not fuse it stays: a pool shrinks what it has to do.
// CHECK-LABEL: func.func @not_before_movement
// CHECK-NEXT: nn.max_pool2d
// CHECK-NEXT: nn.relu
func.func @not_before_movement(%x: tensor<1x4x4x2xf32>) -> tensor<1x2x2x2xf32> {
  %p = nn.max_pool2d %x {window = array<i64: 2, 2>, strides = array<i64: 2, 2>} : tensor<1x4x4x2xf32> -> tensor<1x2x2x2xf32>
  %y = nn.relu %p : tensor<1x2x2x2xf32> -> tensor<1x2x2x2xf32>
  func.return %y : tensor<1x2x2x2xf32>
}

// CHECK-LABEL: func.func @not_shared
// CHECK-NEXT: nn.add %x, %x :
// CHECK-NEXT: nn.relu
// CHECK-NEXT: calib.observe
func.func @not_shared(%x: tensor<2xf32>) -> tensor<2xf32> {
  %a = nn.add %x, %x : tensor<2xf32>, tensor<2xf32> -> tensor<2xf32>
  %y = nn.relu %a : tensor<2xf32> -> tensor<2xf32>
  calib.observe %a {name = "a"} : tensor<2xf32>
  func.return %y : tensor<2xf32>
}

// An average does not commute with a clamp.
// CHECK-LABEL: func.func @not_average
// CHECK: nn.average_pool2d
// CHECK-NEXT: nn.relu
func.func @not_average(%x: tensor<1x4x4x2xf32>) -> tensor<1x2x2x2xf32> {
  %a = nn.add %x, %x : tensor<1x4x4x2xf32>, tensor<1x4x4x2xf32> -> tensor<1x4x4x2xf32>
  %p = nn.average_pool2d %a {window = array<i64: 2, 2>, strides = array<i64: 2, 2>} : tensor<1x4x4x2xf32> -> tensor<1x2x2x2xf32>
  %y = nn.relu %p : tensor<1x2x2x2xf32> -> tensor<1x2x2x2xf32>
  func.return %y : tensor<1x2x2x2xf32>
}

// Between quantized values a relu may change the scale.
// CHECK-LABEL: func.func @not_quantized
// CHECK: nn.add
// CHECK-NEXT: nn.relu
func.func @not_quantized(%x: tensor<2x!quant.uniform<i8:f32, 0.5>>) -> tensor<2x!quant.uniform<i8:f32, 0.25:-128>> {
  %a = nn.add %x, %x : tensor<2x!quant.uniform<i8:f32, 0.5>>, tensor<2x!quant.uniform<i8:f32, 0.5>> -> tensor<2x!quant.uniform<i8:f32, 0.5>>
  %y = nn.relu %a : tensor<2x!quant.uniform<i8:f32, 0.5>> -> tensor<2x!quant.uniform<i8:f32, 0.25:-128>>
  func.return %y : tensor<2x!quant.uniform<i8:f32, 0.25:-128>>
}
