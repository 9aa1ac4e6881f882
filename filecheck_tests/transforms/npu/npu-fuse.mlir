// RUN: qmlir-opt --npu-fuse --split-input-file --weights=elide %s | filecheck %s

// A residual sum joins the later of the two layers it reads, and what follows it joins as well.
builtin.module attributes {npu.device = "nmp"} {
  func.func @main(%x: tensor<1x4xi8>) -> tensor<1x4xi8> {
    %a = npu.layer "a" (%0 = %x : tensor<1x4xi8>) -> (tensor<1x4xi8>) {
      %1 = qint.requantize %0 {multiplier = array<i32: 1073741824>, shift = array<i32: -4>, contract = "shift", min = -128 : i32, max = 127 : i32} : tensor<1x4xi8> -> tensor<1x4xi8>
      npu.yield %1 : tensor<1x4xi8>
    }
    %b = npu.layer "b" (%0 = %x : tensor<1x4xi8>) -> (tensor<1x4xi8>) {
      %w = nn.constant <tensor<4x4xi8>, [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16]> : tensor<4x4xi8>
      %1 = qint.fully_connected %0, %w : tensor<1x4xi8>, tensor<4x4xi8> -> tensor<1x4xi32>
      %2 = qint.requantize %1 {multiplier = array<i32: 1073741824>, shift = array<i32: -4>, contract = "shift", min = -128 : i32, max = 127 : i32} : tensor<1x4xi32> -> tensor<1x4xi8>
      npu.yield %2 : tensor<1x4xi8>
    }
    %c = npu.layer "c" (%0 = %a : tensor<1x4xi8>, %1 = %b : tensor<1x4xi8>) -> (tensor<1x4xi8>) {
      %2 = qint.add %0, %1 {multipliers = array<i64: 1073741824, 1073741824>, shift = 31 : i32, min = -128 : i32, max = 127 : i32} : tensor<1x4xi8>, tensor<1x4xi8> -> tensor<1x4xi8>
      npu.yield %2 : tensor<1x4xi8>
    }
    %d = npu.layer "d" (%0 = %c : tensor<1x4xi8>) -> (tensor<1x4xi8>) {
      %1 = qint.requantize %0 {multiplier = array<i32: 1073741824>, shift = array<i32: -4>, contract = "shift", min = -128 : i32, max = 127 : i32} : tensor<1x4xi8> -> tensor<1x4xi8>
      npu.yield %1 : tensor<1x4xi8>
    }
    func.return %d : tensor<1x4xi8>
  }
}
// CHECK-LABEL: func.func @main
// CHECK-NEXT: %a = npu.layer "a"
// CHECK:      %d = npu.layer "b, c, d" ([[X:%.*]] = %x : tensor<1x4xi8>, [[A:%.*]] = %a : tensor<1x4xi8>) -> (tensor<1x4xi8>) {
// CHECK-NEXT: nn.constant
// CHECK-NEXT: qint.fully_connected [[X]], %
// CHECK-NEXT: [[B:%.*]] = qint.requantize
// CHECK-NEXT: [[C:%.*]] = qint.add [[A]], [[B]]
// CHECK-NEXT: [[D:%.*]] = qint.requantize [[C]]
// CHECK-NEXT: npu.yield [[D]]
// CHECK-NEXT: }
// CHECK-NEXT: func.return %d

// -----

// Nothing joins where another reads the result, where the layer before is a pool, where the other operand is repeated,
// or where both operands are the result.
builtin.module attributes {npu.device = "nmp"} {
  func.func @stays(%x: tensor<1x2x2x1xi8>, %z: tensor<2x2x2x1xi8>) -> (tensor<1x1x1x1xi8>, tensor<1x2x2x1xi8>, tensor<2x2x2x1xi8>) {
    %a = npu.layer "read twice" (%0 = %x : tensor<1x2x2x1xi8>) -> (tensor<1x2x2x1xi8>) {
      %1 = qint.requantize %0 {multiplier = array<i32: 1073741824>, shift = array<i32: -4>, contract = "shift", min = -128 : i32, max = 127 : i32} : tensor<1x2x2x1xi8> -> tensor<1x2x2x1xi8>
      npu.yield %1 : tensor<1x2x2x1xi8>
    }
    %p = npu.layer "pool" (%0 = %a : tensor<1x2x2x1xi8>) -> (tensor<1x1x1x1xi8>) {
      %1 = qint.max_pool2d %0 {window = array<i64: 2, 2>} : tensor<1x2x2x1xi8> -> tensor<1x1x1x1xi8>
      npu.yield %1 : tensor<1x1x1x1xi8>
    }
    %q = npu.layer "scaled" (%0 = %p : tensor<1x1x1x1xi8>) -> (tensor<1x1x1x1xi8>) {
      %1 = qint.requantize %0 {multiplier = array<i32: 1073741824>, shift = array<i32: -4>, contract = "shift", min = -128 : i32, max = 127 : i32} : tensor<1x1x1x1xi8> -> tensor<1x1x1x1xi8>
      npu.yield %1 : tensor<1x1x1x1xi8>
    }
    %d = npu.layer "doubled" (%0 = %a : tensor<1x2x2x1xi8>) -> (tensor<1x2x2x1xi8>) {
      %1 = qint.add %0, %0 {multipliers = array<i64: 1073741824, 1073741824>, shift = 31 : i32, min = -128 : i32, max = 127 : i32} : tensor<1x2x2x1xi8>, tensor<1x2x2x1xi8> -> tensor<1x2x2x1xi8>
      npu.yield %1 : tensor<1x2x2x1xi8>
    }
    %t = npu.layer "twice" (%0 = %d : tensor<1x2x2x1xi8>) -> (tensor<1x2x2x1xi8>) {
      %1 = qint.add %0, %0 {multipliers = array<i64: 1073741824, 1073741824>, shift = 31 : i32, min = -128 : i32, max = 127 : i32} : tensor<1x2x2x1xi8>, tensor<1x2x2x1xi8> -> tensor<1x2x2x1xi8>
      npu.yield %1 : tensor<1x2x2x1xi8>
    }
    %r = npu.layer "repeated" (%0 = %t : tensor<1x2x2x1xi8>, %1 = %z : tensor<2x2x2x1xi8>) -> (tensor<2x2x2x1xi8>) {
      %2 = qint.add %0, %1 {multipliers = array<i64: 1073741824, 1073741824>, shift = 31 : i32, min = -128 : i32, max = 127 : i32} : tensor<1x2x2x1xi8>, tensor<2x2x2x1xi8> -> tensor<2x2x2x1xi8>
      npu.yield %2 : tensor<2x2x2x1xi8>
    }
    func.return %q, %t, %r : tensor<1x1x1x1xi8>, tensor<1x2x2x1xi8>, tensor<2x2x2x1xi8>
  }
}
// CHECK-LABEL: func.func @stays
// CHECK: npu.layer "read twice"
// CHECK: npu.layer "pool"
// CHECK: npu.layer "scaled"
// CHECK: npu.layer "doubled"
// CHECK: npu.layer "twice"
// CHECK: npu.layer "repeated"

// -----

// A table follows a contraction only where the device file says so, by `lut` in ops.act; here it does not.
builtin.module attributes {npu.device = "nmp"} {
  func.func @table(%x: tensor<1x4xi8>) -> tensor<1x4xi8> {
    %a = npu.layer "sums" (%0 = %x : tensor<1x4xi8>) -> (tensor<1x4xi8>) {
      %w = nn.constant <tensor<4x4xi8>, [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16]> : tensor<4x4xi8>
      %1 = qint.fully_connected %0, %w : tensor<1x4xi8>, tensor<4x4xi8> -> tensor<1x4xi32>
      %2 = qint.requantize %1 {multiplier = array<i32: 1073741824>, shift = array<i32: -4>, contract = "shift", min = -128 : i32, max = 127 : i32} : tensor<1x4xi32> -> tensor<1x4xi8>
      npu.yield %2 : tensor<1x4xi8>
    }
    %b = npu.layer "table" (%0 = %a : tensor<1x4xi8>) -> (tensor<1x4xi8>) {
      %1 = qint.lookup %0, <tensor<256xi8>, [-128, -127, -126, -125, -124, -123, -122, -121, -120, -119, -118, -117, -116, -115, -114, -113, -112, -111, -110, -109, -108, -107, -106, -105, -104, -103, -102, -101, -100, -99, -98, -97, -96, -95, -94, -93, -92, -91, -90, -89, -88, -87, -86, -85, -84, -83, -82, -81, -80, -79, -78, -77, -76, -75, -74, -73, -72, -71, -70, -69, -68, -67, -66, -65, -64, -63, -62, -61, -60, -59, -58, -57, -56, -55, -54, -53, -52, -51, -50, -49, -48, -47, -46, -45, -44, -43, -42, -41, -40, -39, -38, -37, -36, -35, -34, -33, -32, -31, -30, -29, -28, -27, -26, -25, -24, -23, -22, -21, -20, -19, -18, -17, -16, -15, -14, -13, -12, -11, -10, -9, -8, -7, -6, -5, -4, -3, -2, -1, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31, 32, 33, 34, 35, 36, 37, 38, 39, 40, 41, 42, 43, 44, 45, 46, 47, 48, 49, 50, 51, 52, 53, 54, 55, 56, 57, 58, 59, 60, 61, 62, 63, 64, 65, 66, 67, 68, 69, 70, 71, 72, 73, 74, 75, 76, 77, 78, 79, 80, 81, 82, 83, 84, 85, 86, 87, 88, 89, 90, 91, 92, 93, 94, 95, 96, 97, 98, 99, 100, 101, 102, 103, 104, 105, 106, 107, 108, 109, 110, 111, 112, 113, 114, 115, 116, 117, 118, 119, 120, 121, 122, 123, 124, 125, 126, 127]> : tensor<1x4xi8> -> tensor<1x4xi8>
      npu.yield %1 : tensor<1x4xi8>
    }
    func.return %b : tensor<1x4xi8>
  }
}
// CHECK-LABEL: func.func @table
// CHECK: npu.layer "sums"
// CHECK: npu.layer "table"
