// RUN: qmlir-opt --fold-quant-casts %s | filecheck %s

!q = !quant.uniform<i8:f32, 0.5:3>

// A value that was rounded and brought back is the value, and takes over the names.
// CHECK-LABEL: func.func @there_and_back
// CHECK-SAME: (%x: tensor<4xf32> {qmlir.name = #qmlir.name<tensors ["x"], absorbed ["x_dq", "x_q"]>}) -> tensor<4xf32> {
// CHECK-NEXT: %[[Y:.*]] = nn.relu %x
// CHECK-NEXT: func.return %[[Y]]
func.func @there_and_back(%x: tensor<4xf32> {qmlir.name = #qmlir.name<tensors ["x"]>}) -> tensor<4xf32> {
  %0 = quant.qcast %x {qmlir.name = #qmlir.name<tensors ["x_q"]>} : tensor<4xf32> to tensor<4x!q>
  %1 = quant.dcast %0 {qmlir.name = #qmlir.name<tensors ["x_dq"]>} : tensor<4x!q> to tensor<4xf32>
  %2 = nn.relu %1 : tensor<4xf32> -> tensor<4xf32>
  func.return %2 : tensor<4xf32>
}

// Several in a row, and a quantized value that others use as well.
// CHECK-LABEL: func.func @row(%q: tensor<4x!quant.uniform<i8:f32, 5.000000e-01:3>>)
// CHECK-NEXT: %[[X:.*]] = quant.dcast %q
// CHECK-NEXT: func.return %q, %[[X]]
func.func @row(%q: tensor<4x!q>) -> (tensor<4x!q>, tensor<4xf32>) {
  %0 = quant.dcast %q : tensor<4x!q> to tensor<4xf32>
  %1 = quant.qcast %0 : tensor<4xf32> to tensor<4x!q>
  %2 = quant.dcast %1 : tensor<4x!q> to tensor<4xf32>
  %3 = quant.qcast %2 : tensor<4xf32> to tensor<4x!q>
  func.return %3, %2 : tensor<4x!q>, tensor<4xf32>
}

!r = !quant.uniform<i8:f32, 0.25:3>

// Another scale is another value; the stored integers are not the value.
// CHECK-LABEL: func.func @stays
// CHECK-NEXT: %[[X:.*]] = quant.dcast %q
// CHECK-NEXT: %[[R:.*]] = quant.qcast %[[X]]
// CHECK-NEXT: %[[Q:.*]] = quant.scast %i
// CHECK-NEXT: %[[Y:.*]] = quant.dcast %[[Q]]
// CHECK-NEXT: %[[S:.*]] = quant.qcast %f
// CHECK-NEXT: %[[I:.*]] = quant.scast %[[S]]
// CHECK-NEXT: func.return %[[R]], %[[Y]], %[[I]]
func.func @stays(%q: tensor<4x!q>, %i: tensor<4xi8>, %f: tensor<4xf32>) -> (tensor<4x!r>, tensor<4xf32>, tensor<4xi8>) {
  %0 = quant.dcast %q : tensor<4x!q> to tensor<4xf32>
  %1 = quant.qcast %0 : tensor<4xf32> to tensor<4x!r>
  %2 = quant.scast %i : tensor<4xi8> to tensor<4x!q>
  %3 = quant.dcast %2 : tensor<4x!q> to tensor<4xf32>
  %4 = quant.qcast %f : tensor<4xf32> to tensor<4x!q>
  %5 = quant.scast %4 : tensor<4x!q> to tensor<4xi8>
  func.return %1, %3, %5 : tensor<4x!r>, tensor<4xf32>, tensor<4xi8>
}
