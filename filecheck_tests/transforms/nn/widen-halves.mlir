// RUN: qmlir-opt --widen-halves %s | filecheck %s

// The rounding of a layer's result goes, and its names go to the layer; the casts at the edges stay.

// CHECK-LABEL: func.func @main
// CHECK-NEXT: %[[X:.*]] = nn.cast %x : tensor<2x2xf16> -> tensor<2x2xf32>
// CHECK-NEXT: %[[R:.*]] = nn.relu %[[X]] {qmlir.name = #qmlir.name<nodes ["relu"], tensors ["r"]>}
// CHECK-NEXT: %[[T:.*]] = nn.transpose %[[R]] {permutation = array<i64: 1, 0>} : tensor<2x2xf32> -> tensor<2x2xf32>
// CHECK-NEXT: %[[S:.*]] = nn.sigmoid %[[T]] {qmlir.name = #qmlir.name<nodes ["sigmoid"], tensors ["s"]>}
// CHECK-NEXT: %[[Y:.*]] = nn.cast %[[S]] : tensor<2x2xf32> -> tensor<2x2xf16>
// CHECK-NEXT: func.return %[[Y]]
func.func @main(%x: tensor<2x2xf16>) -> tensor<2x2xf16> {
  %0 = nn.cast %x : tensor<2x2xf16> -> tensor<2x2xf32>
  %1 = nn.relu %0 : tensor<2x2xf32> -> tensor<2x2xf32>
  %2 = nn.cast %1 {qmlir.name = #qmlir.name<nodes ["relu"], tensors ["r"]>} : tensor<2x2xf32> -> tensor<2x2xf16>
  %3 = nn.transpose %2 {permutation = array<i64: 1, 0>} : tensor<2x2xf16> -> tensor<2x2xf16>
  %4 = nn.cast %3 : tensor<2x2xf16> -> tensor<2x2xf32>
  %5 = nn.sigmoid %4 : tensor<2x2xf32> -> tensor<2x2xf32>
  %6 = nn.cast %5 {qmlir.name = #qmlir.name<nodes ["sigmoid"], tensors ["s"]>} : tensor<2x2xf32> -> tensor<2x2xf16>
  func.return %6 : tensor<2x2xf16>
}

// An input is widened once for all its readers, bf16 too; data movement between halves alone stays as it is.

// CHECK-LABEL: func.func @readers
// CHECK-NEXT: %[[X:.*]] = nn.cast %x : tensor<4xbf16> -> tensor<4xf32>
// CHECK-NEXT: %[[A:.*]] = nn.relu %[[X]]
// CHECK-NEXT: %[[B:.*]] = nn.tanh %[[X]]
// CHECK-NEXT: %[[C:.*]] = nn.reshape %x {shape = array<i64: 2, 2>} : tensor<4xbf16> -> tensor<2x2xbf16>
// CHECK-NEXT: func.return %[[A]], %[[B]], %[[C]]
func.func @readers(%x: tensor<4xbf16>) -> (tensor<4xf32>, tensor<4xf32>, tensor<2x2xbf16>) {
  %0 = nn.cast %x : tensor<4xbf16> -> tensor<4xf32>
  %1 = nn.relu %0 : tensor<4xf32> -> tensor<4xf32>
  %2 = nn.cast %x : tensor<4xbf16> -> tensor<4xf32>
  %3 = nn.tanh %2 : tensor<4xf32> -> tensor<4xf32>
  %4 = nn.reshape %x {shape = array<i64: 2, 2>} : tensor<4xbf16> -> tensor<2x2xbf16>
  func.return %1, %3, %4 : tensor<4xf32>, tensor<4xf32>, tensor<2x2xbf16>
}

// A concat of a half that is computed and one that comes, and a cast to integers, which rounds as it did.

// CHECK-LABEL: func.func @several
// CHECK-DAG: nn.concat %{{.*}}, %{{.*}} {axis = 0 : i64} : tensor<4xf32>, tensor<4xf32> -> tensor<8xf32>
// CHECK-DAG: nn.cast %{{.*}} : tensor<4xf32> -> tensor<4xf16>
// CHECK: nn.cast %{{.*}} : tensor<4xf16> -> tensor<4xi32>
func.func @several(%x: tensor<4xf32>, %h: tensor<4xf16>) -> (tensor<8xf32>, tensor<4xi32>) {
  %0 = nn.tanh %x : tensor<4xf32> -> tensor<4xf32>
  %1 = nn.cast %0 : tensor<4xf32> -> tensor<4xf16>
  %2 = nn.concat %1, %h {axis = 0 : i64} : tensor<4xf16>, tensor<4xf16> -> tensor<8xf16>
  %3 = nn.cast %2 : tensor<8xf16> -> tensor<8xf32>
  %4 = nn.cast %1 : tensor<4xf16> -> tensor<4xi32>
  func.return %3, %4 : tensor<8xf32>, tensor<4xi32>
}
