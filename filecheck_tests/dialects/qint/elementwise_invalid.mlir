// What integer sums and products refuse: (Q2), (R1), (A1) to (A3).

// RUN: qmlir-opt --split-input-file --verify-diagnostics %s

%x, %y = "test.op"() : () -> (tensor<3xi32>, tensor<3xi8>)
// q2: expected-error@+1 {{'qint.mul' multiplies integers of at most 16 bits, got i32}}
%0 = qint.mul %x, %y : tensor<3xi32>, tensor<3xi8> -> tensor<3xi32>

// -----

%x = "test.op"() : () -> tensor<3xi8>
// r1: expected-error@+1 {{'qint.add' clamps to [-129, 127], which is no range of i8}}
%0 = qint.add %x, %x {multipliers = array<i64: 1, 1>, shift = 1 : i32, min = -129 : i32, max = 127 : i32} : tensor<3xi8>, tensor<3xi8> -> tensor<3xi8>

// -----

%x, %y = "test.op"() : () -> (tensor<2x3xi8>, tensor<2xi8>)
// a1_add: expected-error@+1 {{'qint.add' shapes do not broadcast: [2, 3] and [2]}}
%0 = qint.add %x, %y {multipliers = array<i64: 1, 1>, shift = 1 : i32, min = -128 : i32, max = 127 : i32} : tensor<2x3xi8>, tensor<2xi8> -> tensor<2x3xi8>

// -----

%x, %y = "test.op"() : () -> (tensor<2x3xi8>, tensor<2xi8>)
// a1_mul: expected-error@+1 {{'qint.mul' shapes do not broadcast: [2, 3] and [2]}}
%0 = qint.mul %x, %y : tensor<2x3xi8>, tensor<2xi8> -> tensor<2x3xi32>

// -----

%x = "test.op"() : () -> tensor<3xi8>
// a2_count: expected-error@+1 {{'qint.add' needs two multipliers below 2^31 and a shift in [1, 62], got [1] and 1}}
%0 = qint.add %x, %x {multipliers = array<i64: 1>, shift = 1 : i32, min = -128 : i32, max = 127 : i32} : tensor<3xi8>, tensor<3xi8> -> tensor<3xi8>

// -----

%x = "test.op"() : () -> tensor<3xi8>
// a2_multiplier: expected-error@+1 {{'qint.add' needs two multipliers below 2^31 and a shift in [1, 62], got [2147483648, 1] and 1}}
%0 = qint.add %x, %x {multipliers = array<i64: 2147483648, 1>, shift = 1 : i32, min = -128 : i32, max = 127 : i32} : tensor<3xi8>, tensor<3xi8> -> tensor<3xi8>

// -----

%x = "test.op"() : () -> tensor<3xi8>
// a2_shift: expected-error@+1 {{'qint.add' needs two multipliers below 2^31 and a shift in [1, 62], got [1, 1] and 0}}
%0 = qint.add %x, %x {multipliers = array<i64: 1, 1>, shift = 0 : i32, min = -128 : i32, max = 127 : i32} : tensor<3xi8>, tensor<3xi8> -> tensor<3xi8>

// -----

%x = "test.op"() : () -> tensor<3xi32>
// a3: expected-error@+1 {{'qint.add' of i32 and i32 with these multipliers can reach 11529215041773502464, beyond 64 bits}}
%0 = qint.add %x, %x {multipliers = array<i64: 2147483647, 2147483647>, shift = 62 : i32, min = -128 : i32, max = 127 : i32} : tensor<3xi32>, tensor<3xi32> -> tensor<3xi8>

// -----

%x = "test.op"() : () -> tensor<3xi8>
// a2_float_add_count: expected-error@+1 {{'qint.float_add' needs two ratios and a constant, each a significand of 24 bits and an exponent, got [8388608, -23] and [0, 0]}}
%0 = qint.float_add %x, %x {ratios = array<i32: 8388608, -23>, constant = array<i32: 0, 0>, min = 0 : i32, max = 7 : i32} : tensor<3xi8>, tensor<3xi8> -> tensor<3xi8>

// -----

%x = "test.op"() : () -> tensor<3xi8>
// a2_float_add_significand: expected-error@+1 {{'qint.float_add' needs two ratios and a constant}}
%0 = qint.float_add %x, %x {ratios = array<i32: 33554432, -23, 1, 0>, constant = array<i32: 0, 0>, min = 0 : i32, max = 7 : i32} : tensor<3xi8>, tensor<3xi8> -> tensor<3xi8>

// -----

%x = "test.op"() : () -> tensor<3xi32>
// a3_float_add: expected-error@+1 {{'qint.float_add' adds integers of at most 16 bits, got i32}}
%0 = qint.float_add %x, %x {ratios = array<i32: 1, 0, 1, 0>, constant = array<i32: 0, 0>, min = 0 : i32, max = 7 : i32} : tensor<3xi32>, tensor<3xi32> -> tensor<3xi8>

// -----

%x = "test.op"() : () -> tensor<3xi8>
// a2_rescaled_add_count: expected-error@+1 {{'qint.rescaled_add' needs three multipliers and three shifts, the first two not above 0, got [1073741824, 1431655765] and [0, -1, -18]}}
%0 = qint.rescaled_add %x, %x {left = 20 : i32, multipliers = array<i32: 1073741824, 1431655765>, shifts = array<i32: 0, -1, -18>, operand_contract = "double", contract = "double", min = -128 : i32, max = 127 : i32} : tensor<3xi8>, tensor<3xi8> -> tensor<3xi8>

// -----

%x = "test.op"() : () -> tensor<3xi8>
// a2_rescaled_add_shift: expected-error@+1 {{the first two not above 0, got [1073741824, 1431655765, 1431655765] and [1, -1, -18]}}
%0 = qint.rescaled_add %x, %x {left = 20 : i32, multipliers = array<i32: 1073741824, 1431655765, 1431655765>, shifts = array<i32: 1, -1, -18>, operand_contract = "double", contract = "double", min = -128 : i32, max = 127 : i32} : tensor<3xi8>, tensor<3xi8> -> tensor<3xi8>

// -----

%x = "test.op"() : () -> tensor<3xi8>
// r3_rescaled_add_unknown: expected-error@+1 {{'qint.rescaled_add' contract must be one of single, double}}
%0 = qint.rescaled_add %x, %x {left = 20 : i32, multipliers = array<i32: 1073741824, 1431655765, 1431655765>, shifts = array<i32: 0, -1, -18>, operand_contract = "thrice", contract = "double", min = -128 : i32, max = 127 : i32} : tensor<3xi8>, tensor<3xi8> -> tensor<3xi8>

// -----

%x = "test.op"() : () -> tensor<3xi8>
// r3_rescaled_add_contract: expected-error@+1 {{'qint.rescaled_add' needs contracts that take any multiplier, got float_even}}
%0 = qint.rescaled_add %x, %x {left = 20 : i32, multipliers = array<i32: 1073741824, 1431655765, 1431655765>, shifts = array<i32: 0, -1, -18>, operand_contract = "double", contract = "float_even", min = -128 : i32, max = 127 : i32} : tensor<3xi8>, tensor<3xi8> -> tensor<3xi8>

// -----

%x = "test.op"() : () -> tensor<3xi8>
// r3_rescaled_add_multiplier: expected-error@+1 {{'qint.rescaled_add' needs multipliers in [2^29, 2^31) and shifts in [-31, 30], got 5 and -1}}
%0 = qint.rescaled_add %x, %x {left = 20 : i32, multipliers = array<i32: 1073741824, 5, 1431655765>, shifts = array<i32: 0, -1, -18>, operand_contract = "double", contract = "double", min = -128 : i32, max = 127 : i32} : tensor<3xi8>, tensor<3xi8> -> tensor<3xi8>

// -----

%x = "test.op"() : () -> tensor<3xi8>
// a3_rescaled_add: expected-error@+1 {{'qint.rescaled_add' of operands up to 128 cannot move them left by 24 bits}}
%0 = qint.rescaled_add %x, %x {left = 24 : i32, multipliers = array<i32: 1073741824, 1431655765, 1431655765>, shifts = array<i32: 0, -1, -18>, operand_contract = "double", contract = "double", min = -128 : i32, max = 127 : i32} : tensor<3xi8>, tensor<3xi8> -> tensor<3xi8>

// -----

%x = "test.op"() : () -> tensor<3xi8>
// r1_rescaled_add: expected-error@+1 {{'qint.rescaled_add' clamps to [-129, 127], which is no range of i8}}
%0 = qint.rescaled_add %x, %x {left = 20 : i32, multipliers = array<i32: 1073741824, 1431655765, 1431655765>, shifts = array<i32: 0, -1, -18>, operand_contract = "double", contract = "double", min = -129 : i32, max = 127 : i32} : tensor<3xi8>, tensor<3xi8> -> tensor<3xi8>

// -----

%x, %y = "test.op"() : () -> (tensor<2x3xi8>, tensor<2x3xi8>)
// div_r1: expected-error@+1 {{'qint.div' clamps to [-129, 127], which is no range of i8}}
%0 = qint.div %x, %y {multiplier = 1073741824 : i32, shift = 3 : i32, min = -129 : i32, max = 127 : i32} : tensor<2x3xi8>, tensor<2x3xi8> -> tensor<2x3xi8>

// -----

%x, %y = "test.op"() : () -> (tensor<2x3xi8>, tensor<2x3xi8>)
// div_r3_multiplier: expected-error@+1 {{'qint.div' needs multipliers in [2^29, 2^31) and shifts in [-31, 30], got 3 and 3}}
%0 = qint.div %x, %y {multiplier = 3 : i32, shift = 3 : i32, min = -128 : i32, max = 127 : i32} : tensor<2x3xi8>, tensor<2x3xi8> -> tensor<2x3xi8>

// -----

%x, %y = "test.op"() : () -> (tensor<2x3xi8>, tensor<2x3xi8>)
// div_r3_shift: expected-error@+1 {{'qint.div' needs multipliers in [2^29, 2^31) and shifts in [-31, 30], got 1073741824 and 31}}
%0 = qint.div %x, %y {multiplier = 1073741824 : i32, shift = 31 : i32, min = -128 : i32, max = 127 : i32} : tensor<2x3xi8>, tensor<2x3xi8> -> tensor<2x3xi8>

// -----

%x, %y = "test.op"() : () -> (tensor<2x3xi8>, tensor<2x4xi8>)
// div_a1: expected-error@+1 {{'qint.div'}}
%0 = qint.div %x, %y {multiplier = 1073741824 : i32, shift = 3 : i32, min = -128 : i32, max = 127 : i32} : tensor<2x3xi8>, tensor<2x4xi8> -> tensor<2x3xi8>

// -----

%x, %y = "test.op"() : () -> (tensor<2x3xi32>, tensor<2x3xi32>)
// div_a3: expected-error@+1 {{'qint.div' divides numbers of 31 bits, got up to 2147483648}}
%0 = qint.div %x, %y {multiplier = 1073741824 : i32, shift = 3 : i32, min = -128 : i32, max = 127 : i32} : tensor<2x3xi32>, tensor<2x3xi32> -> tensor<2x3xi8>
