// What a table refuses: (L1), (Q1).

// RUN: qmlir-opt --split-input-file --verify-diagnostics %s

%x = "test.op"() : () -> tensor<2xi8>
// l1_entries: expected-error@+1 {{'qint.lookup' needs i8 data and 256 entries or i16 and 65536, got i8 and tensor<3xi8>}}
%0 = qint.lookup %x, <tensor<3xi8>, [1, 2, 3]> : tensor<2xi8> -> tensor<2xi8>

// -----

%x = "test.op"() : () -> tensor<2xi16>
// l1_data: expected-error@+1 {{'qint.lookup' needs i8 data and 256 entries or i16 and 65536, got i16 and tensor<256xi8>}}
%0 = qint.lookup %x, <tensor<256xi8>, "0x000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f202122232425262728292a2b2c2d2e2f303132333435363738393a3b3c3d3e3f404142434445464748494a4b4c4d4e4f505152535455565758595a5b5c5d5e5f606162636465666768696a6b6c6d6e6f707172737475767778797a7b7c7d7e7f808182838485868788898a8b8c8d8e8f909192939495969798999a9b9c9d9e9fa0a1a2a3a4a5a6a7a8a9aaabacadaeafb0b1b2b3b4b5b6b7b8b9babbbcbdbebfc0c1c2c3c4c5c6c7c8c9cacbcccdcecfd0d1d2d3d4d5d6d7d8d9dadbdcdddedfe0e1e2e3e4e5e6e7e8e9eaebecedeeeff0f1f2f3f4f5f6f7f8f9fafbfcfdfeff"> : tensor<2xi16> -> tensor<2xi8>

// -----

%x = "test.op"() : () -> tensor<2xi8>
// l1_result: expected-error@+1 {{'qint.lookup' result #0 must be tensor<2xi8> as its operands imply, got tensor<2xi16>}}
%0 = qint.lookup %x, <tensor<256xi8>, "0x000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f202122232425262728292a2b2c2d2e2f303132333435363738393a3b3c3d3e3f404142434445464748494a4b4c4d4e4f505152535455565758595a5b5c5d5e5f606162636465666768696a6b6c6d6e6f707172737475767778797a7b7c7d7e7f808182838485868788898a8b8c8d8e8f909192939495969798999a9b9c9d9e9fa0a1a2a3a4a5a6a7a8a9aaabacadaeafb0b1b2b3b4b5b6b7b8b9babbbcbdbebfc0c1c2c3c4c5c6c7c8c9cacbcccdcecfd0d1d2d3d4d5d6d7d8d9dadbdcdddedfe0e1e2e3e4e5e6e7e8e9eaebecedeeeff0f1f2f3f4f5f6f7f8f9fafbfcfdfeff"> : tensor<2xi8> -> tensor<2xi16>

// -----

%x = "test.op"() : () -> tensor<2xi8>
// q1: expected-error@+1 {{'qint.lookup' computes on signless integers only, got tensor<2xf32>}}
%0 = qint.lookup %x, <tensor<256xi8>, "0x000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f202122232425262728292a2b2c2d2e2f303132333435363738393a3b3c3d3e3f404142434445464748494a4b4c4d4e4f505152535455565758595a5b5c5d5e5f606162636465666768696a6b6c6d6e6f707172737475767778797a7b7c7d7e7f808182838485868788898a8b8c8d8e8f909192939495969798999a9b9c9d9e9fa0a1a2a3a4a5a6a7a8a9aaabacadaeafb0b1b2b3b4b5b6b7b8b9babbbcbdbebfc0c1c2c3c4c5c6c7c8c9cacbcccdcecfd0d1d2d3d4d5d6d7d8d9dadbdcdddedfe0e1e2e3e4e5e6e7e8e9eaebecedeeeff0f1f2f3f4f5f6f7f8f9fafbfcfdfeff"> : tensor<2xi8> -> tensor<2xf32>

// -----

%x = "test.op"() : () -> tensor<2xi16>
// l1_breakpoints: expected-error@+1 {{'qint.interpolated_lookup' needs i16 data and 513 entries of i16, got i16 and tensor<3xi16>}}
%0 = qint.interpolated_lookup %x, <tensor<3xi16>, [1, 2, 3]> : tensor<2xi16> -> tensor<2xi16>

// -----

%x = "test.op"() : () -> tensor<2xi8>
// l4_entries: expected-error@+1 {{'qint.pair_lookup' needs i8 data and 256 by 256 entries, got i8, i8 and tensor<2x2xi8>}}
%0 = qint.pair_lookup %x, %x, <tensor<2x2xi8>, [1, 2, 3, 4]> : tensor<2xi8>, tensor<2xi8> -> tensor<2xi8>

// -----

%x, %y = "test.op"() : () -> (tensor<2xi8>, tensor<3xi8>)
// a1_pair_lookup: expected-error@+1 {{'qint.pair_lookup'}}
%0 = qint.pair_lookup %x, %y, <tensor<2x2xi8>, [1, 2, 3, 4]> : tensor<2xi8>, tensor<3xi8> -> tensor<2xi8>
