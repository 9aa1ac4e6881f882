// RUN: qmlir-opt --settle-transposes %s | filecheck %s
// RUN: qmlir-opt --cancel-transposes %s | filecheck %s --check-prefix=KEPT

// The samples move behind the positions: for a device, a reshape; else a transpose, which a batch needs.
// CHECK-LABEL: func.func @positions_first
// CHECK-NEXT: %[[R:.*]] = nn.reshape %x {shape = array<i64: 6, 16>}
// CHECK-NEXT: nn.fully_connected %[[R]]
// KEPT-LABEL: func.func @positions_first
// KEPT-NEXT: %[[T:.*]] = nn.transpose %x {permutation = array<i64: 1, 0, 2>}
// KEPT-NEXT: nn.reshape %[[T]] {shape = array<i64: 6, 16>}
// KEPT: %[[Y:.*]] = nn.transpose
// KEPT-NEXT: func.return %[[Y]]
func.func @positions_first(%x: tensor<1x6x16xf32>, %w: tensor<8x16xf32>) -> tensor<1x6x8xf32> {
  %t = nn.transpose %x {permutation = array<i64: 1, 0, 2>} : tensor<1x6x16xf32> -> tensor<6x1x16xf32>
  %r = nn.reshape %t {shape = array<i64: 6, 16>} : tensor<6x1x16xf32> -> tensor<6x16xf32>
  %l = nn.fully_connected %r, %w : tensor<6x16xf32>, tensor<8x16xf32> -> tensor<6x8xf32>
  %s = nn.reshape %l {shape = array<i64: 6, 1, 8>} : tensor<6x8xf32> -> tensor<6x1x8xf32>
  %y = nn.transpose %s {permutation = array<i64: 1, 0, 2>} : tensor<6x1x8xf32> -> tensor<1x6x8xf32>
  func.return %y : tensor<1x6x8xf32>
}
