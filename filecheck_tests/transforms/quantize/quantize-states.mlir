// RUN: qmlir-opt --quantize-states %s | filecheck %s
// RUN: qmlir-opt --quantize-states --cancel-casts %s | filecheck %s --check-prefix=BOTH

!q = !quant.uniform<i8:f32, 0.5:3>

// Readers of the floats get a cast; the reset value is stored as the integers are.
// CHECK-LABEL: func.func @stored
// CHECK-SAME: (%s: tensor<4x!quant.uniform<i8:f32, 5.000000e-01:3>> {qmlir.state = #qmlir.state<0, reset = #qmlir.weights<tensor<i8>, [5]>>}) -> tensor<4x!quant.uniform<i8:f32, 5.000000e-01:3>>
// CHECK-NEXT: %[[F:.*]] = quant.dcast %s
// CHECK-NEXT: %[[Q:.*]] = quant.qcast %[[F]]
// CHECK-NEXT: %[[R:.*]] = nn.relu %[[Q]]
// CHECK-NEXT: quant.dcast
// CHECK-NEXT: func.return %[[R]]
// BOTH-LABEL: func.func @stored
// BOTH-NEXT: %[[R:.*]] = nn.relu %s
// BOTH-NEXT: func.return %[[R]]
func.func @stored(%s: tensor<4xf32> {qmlir.state = #qmlir.state<0, reset = #qmlir.weights<tensor<f32>, [1.0]>>}) -> tensor<4xf32> {
  %0 = quant.qcast %s : tensor<4xf32> to tensor<4x!q>
  %1 = nn.relu %0 : tensor<4x!q> -> tensor<4x!q>
  %2 = quant.dcast %1 : tensor<4x!q> to tensor<4xf32>
  func.return %2 : tensor<4xf32>
}

// A reader of another type gets a change of scale; 0 stays the value before the first call.
!r = !quant.uniform<i8:f32, 0.25>

// BOTH-LABEL: func.func @other_type
// BOTH-SAME: {qmlir.state = #qmlir.state<0>}
// BOTH-NEXT: %[[R:.*]] = nn.requantize %s
// BOTH-NEXT: %[[Y:.*]] = nn.fully_connected %[[R]]
// BOTH-NEXT: func.return %[[Y]]
func.func @other_type(%s: tensor<1x1xf32> {qmlir.state = #qmlir.state<0>}, %w: tensor<1x1x!r>) -> tensor<1x1xf32> {
  %0 = quant.qcast %s : tensor<1x1xf32> to tensor<1x1x!r>
  %1 = nn.fully_connected %0, %w : tensor<1x1x!r>, tensor<1x1x!r> -> tensor<1x1x!q>
  %2 = quant.dcast %1 : tensor<1x1x!q> to tensor<1x1xf32>
  func.return %2 : tensor<1x1xf32>
}

// A state that a float operation makes stays float.
// CHECK-LABEL: func.func @float
// CHECK-SAME: (%s: tensor<4xf32> {qmlir.state = #qmlir.state<0>}) -> tensor<4xf32>
// CHECK-NEXT: nn.relu
// CHECK-NEXT: func.return
func.func @float(%s: tensor<4xf32> {qmlir.state = #qmlir.state<0>}) -> tensor<4xf32> {
  %0 = nn.relu %s : tensor<4xf32> -> tensor<4xf32>
  func.return %0 : tensor<4xf32>
}
