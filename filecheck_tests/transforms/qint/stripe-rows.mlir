// RUN: qmlir-opt --stripe-rows="stripe=24576 small=8192" --weights=elide %s | filecheck %s
// RUN: qmlir-opt --stripe-rows --weights=elide %s | filecheck %s --check-prefix=SMALL
// RUN: not qmlir-opt --stripe-rows=stripe=0 %s 2>&1 | filecheck %s --check-prefix=STRIPE
// RUN: not qmlir-opt --stripe-rows=small=-1 %s 2>&1 | filecheck %s --check-prefix=SIZE

// STRIPE: stripe: must be positive, got 0
// SIZE: small: must be positive, got -1

// Attention of 96 rows: queries and the mask are cut, keys and values are read as a whole. Scores of 32 rows and their
// exponentials take 2 · 32 · 2 · 96 · 2 bytes.
// SMALL-LABEL: @attention
// SMALL: nn.where {{.*}} -> tensor<2x96x96xi16>
// CHECK-LABEL: @attention
// CHECK-NEXT: nn.constant
// CHECK-NEXT: %[[Q0:.*]] = nn.slice %q {offsets = array<i64: 0, 0, 0>, sizes = array<i64: 2, 32, 8>
// CHECK-NEXT: %[[A0:.*]] = qint.matmul %[[Q0]], %k : tensor<2x32x8xi8>, tensor<2x8x96xi8> -> tensor<2x32x96xi32>
// CHECK-NEXT: qint.requantize %[[A0]]
// CHECK-NEXT: %[[S0:.*]] = nn.slice %seen {offsets = array<i64: 0, 0, 0>, sizes = array<i64: 1, 32, 96>
// CHECK-NEXT: nn.where %[[S0]]
// CHECK-NEXT: %[[E0:.*]] = qint.exponentials
// CHECK-NEXT: %[[P0:.*]] = qint.matmul %[[E0]], %v
// CHECK-NEXT: %[[Y0:.*]] = qint.row_quotient %[[P0]], %[[E0]] {{.*}} -> tensor<2x32x8xi16>
// CHECK: nn.slice %q {offsets = array<i64: 0, 32, 0>
// CHECK: nn.slice %seen {offsets = array<i64: 0, 32, 0>
// CHECK: %[[Y1:.*]] = qint.row_quotient
// CHECK: nn.slice %q {offsets = array<i64: 0, 64, 0>
// CHECK: nn.slice %seen {offsets = array<i64: 0, 64, 0>
// CHECK: %[[Y2:.*]] = qint.row_quotient
// CHECK-NEXT: %[[Y:.*]] = nn.concat %[[Y0]], %[[Y1]], %[[Y2]] {axis = 1 : i64}
// CHECK-NEXT: return %[[Y]]
func.func @attention(%q: tensor<2x96x8xi8>, %k: tensor<2x8x96xi8>, %v: tensor<2x96x8xi8>, %seen: tensor<1x96x96xi1>) -> tensor<2x96x8xi16> {
  %far = nn.constant <tensor<1xi16>, [-32768]> : tensor<1xi16>
  %a = qint.matmul %q, %k : tensor<2x96x8xi8>, tensor<2x8x96xi8> -> tensor<2x96x96xi32>
  %s = qint.requantize %a {multiplier = array<i32: 1073741824>, shift = array<i32: 1>, contract = "single", min = -32768 : i32, max = 32767 : i32} : tensor<2x96x96xi32> -> tensor<2x96x96xi16>
  %m = nn.where %seen, %s, %far : tensor<1x96x96xi1>, tensor<2x96x96xi16>, tensor<1xi16> -> tensor<2x96x96xi16>
  %e = qint.exponentials %m, <tensor<4xi16>, [255, 99, 9, 0]> {axis = 2 : i64} : tensor<2x96x96xi16> -> tensor<2x96x96xi16>
  %p = qint.matmul %e, %v : tensor<2x96x96xi16>, tensor<2x96x8xi8> -> tensor<2x96x8xi32>
  %y = qint.row_quotient %p, %e {unit = 1234567 : i64, fraction = 20 : i32, offset = 1024 : i32, min = -32768 : i32, max = 32767 : i32} : tensor<2x96x8xi32>, tensor<2x96x96xi16> -> tensor<2x96x8xi16>
  return %y : tensor<2x96x8xi16>
}

// %n stands between the operations of the region and reads a result of it: it stands behind the region.
// CHECK-LABEL: @behind
// CHECK-COUNT-3: qint.add {{.*}} -> tensor<32x256xi16>
// CHECK: %[[M:.*]] = nn.concat
// CHECK-NEXT: %[[D:.*]] = nn.concat
// CHECK-NEXT: %[[N:.*]] = qint.row_magnitudes %[[M]]
// CHECK-NEXT: return %[[N]], %[[D]]
func.func @behind(%x: tensor<96x256xi8>, %w: tensor<256x8xi8>) -> (tensor<96x1xi32>, tensor<96x8xi32>) {
  %a = qint.add %x, %x {multipliers = array<i64: 1073741824, 1073741824>, shift = 20 : i32, min = -32768 : i32, max = 32767 : i32} : tensor<96x256xi8>, tensor<96x256xi8> -> tensor<96x256xi16>
  %m = qint.row_magnitudes %a : tensor<96x256xi16> -> tensor<96x1xi32>
  %n = qint.row_magnitudes %m : tensor<96x1xi32> -> tensor<96x1xi32>
  %d = qint.matmul %a, %w : tensor<96x256xi16>, tensor<256x8xi8> -> tensor<96x8xi32>
  return %n, %d : tensor<96x1xi32>, tensor<96x8xi32>
}

// Exponentials of columns mix rows, those of rows mix columns: neither axis is divided.
// CHECK-LABEL: @mixed
// CHECK-NEXT: qint.exponentials %x
// CHECK-NEXT: qint.exponentials
// CHECK-NEXT: qint.row_magnitudes
// CHECK-NEXT: return
func.func @mixed(%x: tensor<96x256xi16>) -> tensor<96x1xi32> {
  %a = qint.exponentials %x, <tensor<4xi16>, [255, 99, 9, 0]> {axis = 0 : i64} : tensor<96x256xi16> -> tensor<96x256xi16>
  %b = qint.exponentials %a, <tensor<4xi16>, [255, 99, 9, 0]> {axis = 1 : i64} : tensor<96x256xi16> -> tensor<96x256xi16>
  %m = qint.row_magnitudes %b : tensor<96x256xi16> -> tensor<96x1xi32>
  return %m : tensor<96x1xi32>
}

// Each row of %p is a sum over all rows of %n, which is small, but made of what would be divided.
// CHECK-LABEL: @whole
// CHECK-NEXT: qint.add {{.*}} -> tensor<96x96xi16>
// CHECK-NEXT: qint.row_magnitudes
// CHECK-NEXT: qint.requantize
// CHECK-NEXT: qint.matmul
// CHECK-NEXT: return
func.func @whole(%x: tensor<96x96xi8>) -> tensor<96x1xi32> {
  %a = qint.add %x, %x {multipliers = array<i64: 1073741824, 1073741824>, shift = 20 : i32, min = -32768 : i32, max = 32767 : i32} : tensor<96x96xi8>, tensor<96x96xi8> -> tensor<96x96xi16>
  %m = qint.row_magnitudes %a : tensor<96x96xi16> -> tensor<96x1xi32>
  %n = qint.requantize %m {multiplier = array<i32: 1073741824>, shift = array<i32: 1>, contract = "single", min = -128 : i32, max = 127 : i32} : tensor<96x1xi32> -> tensor<96x1xi8>
  %p = qint.matmul %a, %n : tensor<96x96xi16>, tensor<96x1xi8> -> tensor<96x1xi32>
  return %p : tensor<96x1xi32>
}

// A constant of each row is cut, whatever its numbers are.
// CHECK-LABEL: @constants
// CHECK: nn.constant <tensor<16x1xi8>
// CHECK-COUNT-6: qint.mul {{.*}} : tensor<16x256xi8>, tensor<16x1xi8> -> tensor<16x256xi32>
// CHECK: nn.concat
func.func @constants(%x: tensor<96x256xi8>) -> tensor<96x1xi32> {
  %ones = nn.constant <tensor<96x1xi8>, "0x010101010101010101010101010101010101010101010101010101010101010101010101010101010101010101010101010101010101010101010101010101010101010101010101010101010101010101010101010101010101010101010101"> : tensor<96x1xi8>
  %a = qint.mul %x, %ones : tensor<96x256xi8>, tensor<96x1xi8> -> tensor<96x256xi32>
  %m = qint.row_magnitudes %a : tensor<96x256xi32> -> tensor<96x1xi32>
  return %m : tensor<96x1xi32>
}
