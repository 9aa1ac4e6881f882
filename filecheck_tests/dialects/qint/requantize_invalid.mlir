// What a requantization refuses: (Q1), (R1) to (R3).

// RUN: qmlir-opt --split-input-file --verify-diagnostics %s

%x = "test.op"() : () -> tensor<2xf32>
// q1: expected-error@+1 {{'qint.requantize' computes on signless integers only, got tensor<2xf32>}}
%0 = qint.requantize %x {multiplier = array<i32: 1073741824>, shift = array<i32: 0>, contract = "single", min = -128 : i32, max = 127 : i32} : tensor<2xf32> -> tensor<2xi8>

// -----

%x = "test.op"() : () -> tensor<2xi32>
// r1_order: expected-error@+1 {{'qint.requantize' clamps to [5, 4], which is no range of i8}}
%0 = qint.requantize %x {multiplier = array<i32: 1073741824>, shift = array<i32: 0>, contract = "single", min = 5 : i32, max = 4 : i32} : tensor<2xi32> -> tensor<2xi8>

// -----

%x = "test.op"() : () -> tensor<2xi32>
// r1_fits: expected-error@+1 {{'qint.requantize' clamps to [0, 255], which is no range of i8}}
%0 = qint.requantize %x {multiplier = array<i32: 1073741824>, shift = array<i32: 0>, contract = "single", min = 0 : i32, max = 255 : i32} : tensor<2xi32> -> tensor<2xi8>

// -----

%x = "test.op"() : () -> tensor<2xi32>
// r1_width: expected-error@+1 {{'qint.requantize' clamps to [0, 7], which is no range of i4}}
%0 = qint.requantize %x {multiplier = array<i32: 1073741824>, shift = array<i32: 0>, contract = "single", min = 0 : i32, max = 7 : i32} : tensor<2xi32> -> tensor<2xi4>

// -----

%x = "test.op"() : () -> tensor<4x3xi32>
// r2_channels: expected-error@+1 {{'qint.requantize' needs 1 or 3 multipliers and as many shifts, got 2 and 2}}
%0 = qint.requantize %x {multiplier = array<i32: 1073741824, 1073741824>, shift = array<i32: 0, 0>, contract = "single", min = 0 : i32, max = 7 : i32} : tensor<4x3xi32> -> tensor<4x3xi8>

// -----

%x = "test.op"() : () -> tensor<4x3xi32>
// r2_as_many: expected-error@+1 {{'qint.requantize' needs 1 or 3 multipliers and as many shifts, got 3 and 1}}
%0 = qint.requantize %x {multiplier = array<i32: 0, 0, 0>, shift = array<i32: 0>, contract = "single", min = 0 : i32, max = 7 : i32} : tensor<4x3xi32> -> tensor<4x3xi8>

// -----

%x = "test.op"() : () -> tensor<2xi32>
// r4_constant_without_a_sum: expected-error@+1 {{'qint.requantize' needs a constant where its contract rounds a sum, and only there: a significand of 24 bits and an exponent, got [3, 0]}}
%0 = qint.requantize %x {multiplier = array<i32: 1073741824>, shift = array<i32: 0>, contract = "single", constant = array<i32: 3, 0>, min = 0 : i32, max = 7 : i32} : tensor<2xi32> -> tensor<2xi8>

// -----

%x = "test.op"() : () -> tensor<2xi32>
// r4_sum_without_constant: expected-error@+1 {{'qint.requantize' needs a constant where its contract rounds a sum, and only there: a significand of 24 bits and an exponent, got []}}
%0 = qint.requantize %x {multiplier = array<i32: 1073741824>, shift = array<i32: 0>, contract = "float_sum", min = 0 : i32, max = 7 : i32} : tensor<2xi32> -> tensor<2xi8>

// -----

%x = "test.op"() : () -> tensor<2xi32>
// r4_significand: expected-error@+1 {{'qint.requantize' needs a constant where its contract rounds a sum, and only there: a significand of 24 bits and an exponent, got [16777217, 0]}}
%0 = qint.requantize %x {multiplier = array<i32: 1073741824>, shift = array<i32: 0>, contract = "float_sum", constant = array<i32: 16777217, 0>, min = 0 : i32, max = 7 : i32} : tensor<2xi32> -> tensor<2xi8>

// -----

%x = "test.op"() : () -> tensor<2xi32>
// r3_contract: expected-error@+1 {{'qint.requantize' contract must be one of single, double, upup, updown, float_even, float_sum, shift, single64, double64, away}}
%0 = qint.requantize %x {multiplier = array<i32: 1073741824>, shift = array<i32: 0>, contract = "nearest", min = 0 : i32, max = 7 : i32} : tensor<2xi32> -> tensor<2xi8>

// -----

%x = "test.op"() : () -> tensor<2xi32>
// r3_multiplier: expected-error@+1 {{'qint.requantize' needs multipliers in [2^29, 2^31) and shifts in [-31, 30], got 536870911 and 0}}
%0 = qint.requantize %x {multiplier = array<i32: 536870911>, shift = array<i32: 0>, contract = "single", min = 0 : i32, max = 7 : i32} : tensor<2xi32> -> tensor<2xi8>

// -----

%x = "test.op"() : () -> tensor<2xi32>
// r3_shift: expected-error@+1 {{'qint.requantize' needs multipliers in [2^29, 2^31) and shifts in [-31, 30], got 1073741824 and 31}}
%0 = qint.requantize %x {multiplier = array<i32: 1073741824>, shift = array<i32: 31>, contract = "single", min = 0 : i32, max = 7 : i32} : tensor<2xi32> -> tensor<2xi8>

// -----

%x = "test.op"() : () -> tensor<2xi32>
// r3_power_of_two: expected-error@+1 {{'qint.requantize' by contract shift needs multipliers that are multiples of 1073741824, got 1073741952}}
%0 = qint.requantize %x {multiplier = array<i32: 1073741952>, shift = array<i32: 0>, contract = "shift", min = 0 : i32, max = 7 : i32} : tensor<2xi32> -> tensor<2xi8>

// -----

%x = "test.op"() : () -> tensor<2xi32>
// r3_float: expected-error@+1 {{'qint.requantize' by contract float_even needs multipliers that are multiples of 128, got 1073741825}}
%0 = qint.requantize %x {multiplier = array<i32: 1073741825>, shift = array<i32: 0>, contract = "float_even", min = 0 : i32, max = 7 : i32} : tensor<2xi32> -> tensor<2xi8>

// -----

%x = "test.op"() : () -> tensor<2xi64>
// r3_shift_of_a_wide_contract: expected-error@+1 {{'qint.requantize' needs multipliers in [2^29, 2^31) and shifts in [-31, 7], got 1073741824 and 8}}
%0 = qint.requantize %x {multiplier = array<i32: 1073741824>, shift = array<i32: 8>, contract = "reduced16", min = 0 : i32, max = 7 : i32} : tensor<2xi64> -> tensor<2xi16>

// -----

%x = "test.op"() : () -> tensor<2xi64>
// r5_contract_of_i64: expected-error@+1 {{'qint.requantize' needs a contract of single64, double64, away64, reduced16 for i64 data, got single}}
%0 = qint.requantize %x {multiplier = array<i32: 1073741824>, shift = array<i32: 0>, contract = "single", min = 0 : i32, max = 7 : i32} : tensor<2xi64> -> tensor<2xi16>
