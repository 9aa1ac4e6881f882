// What the integer operations on rows refuse: (S1) and (S2).

// RUN: qmlir-opt --split-input-file --verify-diagnostics %s

%x = "test.op"() : () -> tensor<3x4xi64>
// s1: expected-error@+1 {{'qint.row_magnitudes' needs rows of up to 32 bits with elements, got tensor<3x4xi64>}}
%0 = qint.row_magnitudes %x : tensor<3x4xi64> -> tensor<3x1xi32>

// -----

%x = "test.op"() : () -> tensor<3x0xi16>
// s1_empty: expected-error@+1 {{'qint.divide_rows' needs rows of up to 32 bits with elements, got tensor<3x0xi16>}}
%0 = qint.divide_rows %x {limit = 127 : i32} : tensor<3x0xi16> -> tensor<3x0xi8>

// -----

%x = "test.op"() : () -> tensor<3x4xi16>
// s2: expected-error@+1 {{'qint.divide_rows' needs a limit in [1, 2^15) that i8 holds, got 128}}
%0 = qint.divide_rows %x {limit = 128 : i32} : tensor<3x4xi16> -> tensor<3x4xi8>

// -----

%x = "test.op"() : () -> tensor<3x4xi16>
// s2_none: expected-error@+1 {{'qint.divide_rows' needs a limit in [1, 2^15) that i16 holds, got 0}}
%0 = qint.divide_rows %x {limit = 0 : i32} : tensor<3x4xi16> -> tensor<3x4xi16>
