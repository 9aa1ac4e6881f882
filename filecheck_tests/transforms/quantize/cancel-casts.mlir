// RUN: qmlir-opt --cancel-casts --split-input-file %s | filecheck %s

!q = !quant.uniform<i8:f32, 0.5>

// CHECK-LABEL: func.func @same_type
// CHECK-NEXT: %[[Y:.*]] = nn.relu %x
// CHECK-NEXT: func.return %[[Y]]
func.func @same_type(%x: tensor<4x!q>) -> tensor<4x!q> {
  %0 = quant.dcast %x : tensor<4x!q> to tensor<4xf32>
  %1 = quant.qcast %0 : tensor<4xf32> to tensor<4x!q>
  %2 = nn.relu %1 : tensor<4x!q> -> tensor<4x!q>
  func.return %2 : tensor<4x!q>
}

// Two types, as graphs that come quantized have them; the float value stays for whoever else reads it.
!r = !quant.uniform<i8:f32, 0.25:-128>

// CHECK-LABEL: func.func @change_of_scale
// CHECK-NEXT: %[[F:.*]] = quant.dcast %x
// CHECK-NEXT: %[[R:.*]] = nn.requantize %x {qmlir.decision = #qmlir.decision<quantized, "integer", "i8 activations">} : tensor<4x!quant.uniform<i8:f32, 5.000000e-01>> -> tensor<4x!quant.uniform<i8:f32, 2.500000e-01:-128>>
// CHECK-NEXT: func.return %[[R]], %[[F]]
func.func @change_of_scale(%x: tensor<4x!q>) -> (tensor<4x!r>, tensor<4xf32>) {
  %0 = quant.dcast %x : tensor<4x!q> to tensor<4xf32>
  %1 = quant.qcast %0 : tensor<4xf32> to tensor<4x!r>
  func.return %1, %0 : tensor<4x!r>, tensor<4xf32>
}

// -----

// A type the target cannot requantize is requantized in float, and says so.
!q = !quant.uniform<i32:f32, 0.5:3>
!u = !quant.uniform<i8:f32, 0.5>

// CHECK-LABEL: func.func @other_storage
// CHECK-NEXT: nn.requantize %x {qmlir.decision = #qmlir.decision<float, "target", "32-bit data with a zero point have no integer form">}
func.func @other_storage(%x: tensor<4x!q>) -> tensor<4x!u> {
  %0 = quant.dcast %x : tensor<4x!q> to tensor<4xf32>
  %1 = quant.qcast %0 : tensor<4xf32> to tensor<4x!u>
  func.return %1 : tensor<4x!u>
}

// -----

!q = !quant.uniform<i8:f32, 0.5>

// CHECK-LABEL: func.func @storage_casts
// CHECK-NEXT: func.return %x : tensor<4xi8>
func.func @storage_casts(%x: tensor<4xi8>) -> tensor<4xi8> {
  %0 = quant.scast %x : tensor<4xi8> to tensor<4x!q>
  %1 = quant.scast %0 : tensor<4x!q> to tensor<4xi8>
  func.return %1 : tensor<4xi8>
}

// -----

// A change of scale of a concatenation may leave the stored integers as they are, as LiteRT does: it is not undone.
!q = !quant.uniform<i16:f32, 0.5>
!r = !quant.uniform<i16:f32, 0.0625>

// CHECK-LABEL: func.func @of_a_concatenation
// CHECK-NEXT: nn.requantize %x {qmlir.integer_operator}
// CHECK-NEXT: nn.requantize
func.func @of_a_concatenation(%x: tensor<4x!q>) -> tensor<4x!q> {
  %0 = nn.requantize %x {qmlir.integer_operator} : tensor<4x!q> -> tensor<4x!r>
  %1 = nn.requantize %0 : tensor<4x!r> -> tensor<4x!q>
  func.return %1 : tensor<4x!q>
}

// -----

// Left alone: integers read as another type, quantization of a float, and scales for each channel.
!q = !quant.uniform<i8:f32, 0.5>
!r = !quant.uniform<i8:f32, 0.25>
!c = !quant.uniform<i8:f32:0, {0.25,0.5,0.25,0.5}>

// CHECK-LABEL: func.func @non_matches
// CHECK-NEXT: %[[A:.*]] = quant.scast %q
// CHECK-NEXT: %[[B:.*]] = quant.scast %[[A]]
// CHECK-NEXT: %[[C:.*]] = quant.qcast %x
// CHECK-NEXT: %[[D:.*]] = quant.dcast %q
// CHECK-NEXT: %[[E:.*]] = quant.qcast %[[D]]
// CHECK-NEXT: func.return %[[B]], %[[C]], %[[E]]
func.func @non_matches(%q: tensor<4x!q>, %x: tensor<4xf32>) -> (tensor<4x!r>, tensor<4x!q>, tensor<4x!c>) {
  %0 = quant.scast %q : tensor<4x!q> to tensor<4xi8>
  %1 = quant.scast %0 : tensor<4xi8> to tensor<4x!r>
  %2 = quant.qcast %x : tensor<4xf32> to tensor<4x!q>
  %3 = quant.dcast %q : tensor<4x!q> to tensor<4xf32>
  %4 = quant.qcast %3 : tensor<4xf32> to tensor<4x!c>
  func.return %1, %2, %4 : tensor<4x!r>, tensor<4x!q>, tensor<4x!c>
}

// To a finer type and back is nothing; to a coarser one, or to one of a smaller range, it stays.

// CHECK-LABEL: func.func @there_and_back
// CHECK-SAME: (%[[Q:.*]]: tensor<4x!quant.uniform<i8:f32, 5.000000e-01>>)
// CHECK-NOT: nn.requantize
// CHECK: func.return %[[Q]]
func.func @there_and_back(%q: tensor<4x!quant.uniform<i8:f32, 0.5>>) -> tensor<4x!quant.uniform<i8:f32, 0.5>> {
  %0 = quant.dcast %q : tensor<4x!quant.uniform<i8:f32, 0.5>> to tensor<4xf32>
  %1 = quant.qcast %0 : tensor<4xf32> to tensor<4x!quant.uniform<i16:f32, 0.002>>
  %2 = quant.dcast %1 : tensor<4x!quant.uniform<i16:f32, 0.002>> to tensor<4xf32>
  %3 = quant.qcast %2 : tensor<4xf32> to tensor<4x!quant.uniform<i8:f32, 0.5>>
  func.return %3 : tensor<4x!quant.uniform<i8:f32, 0.5>>
}

// CHECK-LABEL: func.func @rounded
// CHECK-COUNT-2: nn.requantize
func.func @rounded(%q: tensor<4x!quant.uniform<i8:f32, 0.5>>) -> tensor<4x!quant.uniform<i8:f32, 0.5>> {
  %0 = nn.requantize %q : tensor<4x!quant.uniform<i8:f32, 0.5>> -> tensor<4x!quant.uniform<i8:f32, 1.0>>
  %1 = nn.requantize %0 : tensor<4x!quant.uniform<i8:f32, 1.0>> -> tensor<4x!quant.uniform<i8:f32, 0.5>>
  func.return %1 : tensor<4x!quant.uniform<i8:f32, 0.5>>
}

// CHECK-LABEL: func.func @saturated
// CHECK-COUNT-2: nn.requantize
func.func @saturated(%q: tensor<4x!quant.uniform<i8:f32, 0.5>>) -> tensor<4x!quant.uniform<i8:f32, 0.5>> {
  %0 = nn.requantize %q : tensor<4x!quant.uniform<i8:f32, 0.5>> -> tensor<4x!quant.uniform<i16:f32, 0.001>>
  %1 = nn.requantize %0 : tensor<4x!quant.uniform<i16:f32, 0.001>> -> tensor<4x!quant.uniform<i8:f32, 0.5>>
  func.return %1 : tensor<4x!quant.uniform<i8:f32, 0.5>>
}
