// What the operations of attention refuse: (S1), (S2), (R1), (D1) to (D3).

// RUN: qmlir-opt --split-input-file --verify-diagnostics %s

%x = "test.op"() : () -> tensor<2x3xi32>
// s1: expected-error@+1 {{'qint.exponentials' needs integers of 8 or 16 bits and up to 2^16 entries of i16, none negative and the first not 0, got i32 and tensor<1xi16>}}
%0 = qint.exponentials %x, <tensor<1xi16>, [1]> {axis = 1 : i64} : tensor<2x3xi32> -> tensor<2x3xi16>

// -----

%x = "test.op"() : () -> tensor<2x3xi8>
// s1_first: expected-error@+1 {{none negative and the first not 0, got i8 and tensor<2xi16>}}
%0 = qint.exponentials %x, <tensor<2xi16>, [0, 1]> {axis = 1 : i64} : tensor<2x3xi8> -> tensor<2x3xi16>

// -----

%x = "test.op"() : () -> tensor<2x3xi8>
// s1_negative: expected-error@+1 {{none negative and the first not 0, got i8 and tensor<2xi16>}}
%0 = qint.exponentials %x, <tensor<2xi16>, [3, -1]> {axis = 1 : i64} : tensor<2x3xi8> -> tensor<2x3xi16>

// -----

%x = "test.op"() : () -> tensor<2x3xi8>
// s2: expected-error@+1 {{'qint.exponentials' needs an axis of [2, 3] with elements, got 2}}
%0 = qint.exponentials %x, <tensor<1xi16>, [1]> {axis = 2 : i64} : tensor<2x3xi8> -> tensor<2x3xi16>

// -----

%acc, %w = "test.op"() : () -> (tensor<3x8xi32>, tensor<3x4xi16>)
// r1: expected-error@+1 {{'qint.row_quotient' clamps to [0, 128], which is no range of i8}}
%0 = qint.row_quotient %acc, %w {unit = 5 : i64, fraction = 12 : i32, offset = 256 : i32, min = 0 : i32, max = 128 : i32} : tensor<3x8xi32>, tensor<3x4xi16> -> tensor<3x8xi8>

// -----

%acc, %w = "test.op"() : () -> (tensor<3x8xi32>, tensor<2x4xi16>)
// d1_rows: expected-error@+1 {{'qint.row_quotient' needs [B…, M, N] and [B…, M, K], got [3, 8] and [2, 4]}}
%0 = qint.row_quotient %acc, %w {unit = 5 : i64, fraction = 12 : i32, offset = 256 : i32, min = 0 : i32, max = 127 : i32} : tensor<3x8xi32>, tensor<2x4xi16> -> tensor<3x8xi8>

// -----

%acc, %w = "test.op"() : () -> (tensor<3x8xi16>, tensor<3x4xi16>)
// d1_types: expected-error@+1 {{'qint.row_quotient' divides i32 or i64 by sums of i16}}
%0 = qint.row_quotient %acc, %w {unit = 5 : i64, fraction = 12 : i32, offset = 256 : i32, min = 0 : i32, max = 127 : i32} : tensor<3x8xi16>, tensor<3x4xi16> -> tensor<3x8xi8>

// -----

%acc, %w = "test.op"() : () -> (tensor<3x8xi32>, tensor<3x4xi16>)
// d2: expected-error@+1 {{'qint.row_quotient' needs 10 to 24 fraction bits, a unit in [1, 2^44] and an offset in [1, 2^19], got 12, 5 and 524289}}
%0 = qint.row_quotient %acc, %w {unit = 5 : i64, fraction = 12 : i32, offset = 524289 : i32, min = 0 : i32, max = 127 : i32} : tensor<3x8xi32>, tensor<3x4xi16> -> tensor<3x8xi8>

// -----

%acc, %w = "test.op"() : () -> (tensor<3x8xi32>, tensor<3x4xi16>)
// d3_fraction: expected-error@+1 {{got 25, 5 and 256}}
%0 = qint.row_quotient %acc, %w {unit = 5 : i64, fraction = 25 : i32, offset = 256 : i32, min = 0 : i32, max = 127 : i32} : tensor<3x8xi32>, tensor<3x4xi16> -> tensor<3x8xi8>
