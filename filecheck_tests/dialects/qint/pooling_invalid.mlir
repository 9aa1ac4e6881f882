// What integer pools refuse: (Q1), (Q2), (W1), (W2), (C1).

// RUN: qmlir-opt --split-input-file --verify-diagnostics %s

%x = "test.op"() : () -> tensor<1x6x6x3xf32>
// q1: expected-error@+1 {{'qint.max_pool2d' computes on signless integers only, got tensor<1x6x6x3xf32>}}
%0 = qint.max_pool2d %x {window = array<i64: 2, 2>} : tensor<1x6x6x3xf32> -> tensor<1x5x5x3xf32>

// -----

%x = "test.op"() : () -> tensor<1x6x6x3xi32>
// q2: expected-error@+1 {{'qint.global_sum_pool' multiplies integers of at most 16 bits, got i32}}
%0 = qint.global_sum_pool %x : tensor<1x6x6x3xi32> -> tensor<1x1x1x3xi32>

// -----

%x = "test.op"() : () -> tensor<1x6x6x3xi8>
// keeps_its_type: expected-error@+1 {{'qint.average_pool2d' result #0 must be tensor<1x5x5x3xi8> as its operands imply, got tensor<1x5x5x3xi16>}}
%0 = qint.average_pool2d %x {window = array<i64: 2, 2>} : tensor<1x6x6x3xi8> -> tensor<1x5x5x3xi16>

// -----

%x = "test.op"() : () -> tensor<1x6x6x3xi8>
// w1: expected-error@+1 {{'qint.average_pool2d' needs 2 strides, 2 dilations and 4 paddings (top, bottom, left, right), got 1, 2 and 4}}
%0 = qint.average_pool2d %x {window = array<i64: 2, 2>, strides = array<i64: 1>} : tensor<1x6x6x3xi8> -> tensor<1x5x5x3xi8>

// -----

%x = "test.op"() : () -> tensor<1x6x6x3xi8>
// w2: expected-error@+1 {{'qint.max_pool2d' window spans 7 but the padded input has only 6}}
%0 = qint.max_pool2d %x {window = array<i64: 7, 2>} : tensor<1x6x6x3xi8> -> tensor<1x1x5x3xi8>

// -----

%x = "test.op"() : () -> tensor<1x6x6x3xi8>
// c1_window: expected-error@+1 {{'qint.max_pool2d' needs a window of two positive extents, got (0, 2)}}
%0 = qint.max_pool2d %x {window = array<i64: 0, 2>} : tensor<1x6x6x3xi8> -> tensor<1x1x5x3xi8>

// -----

%x = "test.op"() : () -> tensor<6x6x3xi8>
// c1_global: expected-error@+1 {{'qint.global_sum_pool' needs an input of rank 4 [N, H, W, C], got rank 3}}
%0 = qint.global_sum_pool %x : tensor<6x6x3xi8> -> tensor<1x1x3xi32>
