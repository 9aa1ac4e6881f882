// RUN: qmlir-opt --nn-to-qint --elide-weights %s | filecheck %s

!a = !quant.uniform<i8:f32, 0.5:3>

// Data movement is the same on integers; what a pad adds becomes a stored integer, saturated.
// CHECK-LABEL: func.func @movement
// CHECK-NEXT: %[[X:.*]] = quant.scast %x
// CHECK-NEXT: %[[R:.*]] = nn.reshape %[[X]] {shape = array<i64: 2, 2>} : tensor<4xi8> -> tensor<2x2xi8>
// CHECK-NEXT: %[[T:.*]] = nn.transpose %[[R]] {permutation = array<i64: 1, 0>} : tensor<2x2xi8> -> tensor<2x2xi8>
// CHECK-NEXT: %[[C:.*]] = nn.concat %[[R]], %[[T]] {axis = 0 : i64} : tensor<2x2xi8>, tensor<2x2xi8> -> tensor<4x2xi8>
// CHECK-NEXT: %[[P:.*]] = nn.pad %[[C]] {low = array<i64: 1, 0>, high = array<i64: 0, 0>, value = 5 : i8} : tensor<4x2xi8> -> tensor<5x2xi8>
// CHECK-NEXT: %[[Q:.*]] = nn.pad %[[P]] {{{.*}}value = -128 : i8}
// CHECK-NEXT: quant.scast %[[Q]]
func.func @movement(%x: tensor<4x!a>) -> tensor<6x2x!a> {
  %0 = nn.reshape %x {shape = array<i64: 2, 2>} : tensor<4x!a> -> tensor<2x2x!a>
  %1 = nn.transpose %0 {permutation = array<i64: 1, 0>} : tensor<2x2x!a> -> tensor<2x2x!a>
  %2 = nn.concat %0, %1 {axis = 0 : i64} : tensor<2x2x!a>, tensor<2x2x!a> -> tensor<4x2x!a>
  %3 = nn.pad %2 {low = array<i64: 1, 0>, high = array<i64: 0, 0>, value = 1.0 : f32} : tensor<4x2x!a> -> tensor<5x2x!a>
  %4 = nn.pad %3 {low = array<i64: 1, 0>, high = array<i64: 0, 0>, value = 0xFF800000 : f32} : tensor<5x2x!a> -> tensor<6x2x!a>
  func.return %4 : tensor<6x2x!a>
}

// CHECK-LABEL: func.func @dilate
// CHECK: nn.dilate %{{.*}} {dilations = array<i64: 2>, value = 5 : i8} : tensor<4xi8> -> tensor<7xi8>
func.func @dilate(%x: tensor<4x!a>) -> tensor<7x!a> {
  %0 = nn.dilate %x {dilations = array<i64: 2>, value = 1.0 : f32} : tensor<4x!a> -> tensor<7x!a>
  func.return %0 : tensor<7x!a>
}

// Unsigned storage is 128 less inside, and as it was at the edges.
!u = !quant.uniform<u8:f32, 0.5:128>

// CHECK-LABEL: func.func @unsigned
// CHECK-NEXT: %[[B:.*]] = quant.scast %x : tensor<4x!quant.uniform<u8:f32, 5.000000e-01:128>> to tensor<4xi8>
// CHECK-NEXT: %[[I:.*]] = qint.lookup %[[B]], <tensor<256xi8>
// CHECK-NEXT: %[[R:.*]] = nn.reshape %[[I]] {{.*}} : tensor<4xi8> -> tensor<2x2xi8>
// CHECK-NEXT: %[[O:.*]] = qint.lookup %[[R]], <tensor<256xi8>
// CHECK-NEXT: %[[Q:.*]] = quant.scast %[[O]] : tensor<2x2xi8> to tensor<2x2x!quant.uniform<u8:f32, 5.000000e-01:128>>
// CHECK-NEXT: func.return %[[Q]]
func.func @unsigned(%x: tensor<4x!u>) -> tensor<2x2x!u> {
  %0 = nn.reshape %x {shape = array<i64: 2, 2>} : tensor<4x!u> -> tensor<2x2x!u>
  func.return %0 : tensor<2x2x!u>
}
