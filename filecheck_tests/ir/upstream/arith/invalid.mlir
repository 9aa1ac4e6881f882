// RUN: qmlir-opt --split-input-file --verify-diagnostics %s

%v = "test.op"() : () -> vector<4xi8>
// lanes: expected-error@+1 {{'arith.extsi' must keep the lanes, got vector<4xi8> to vector<8xi32>}}
%0 = arith.extsi %v : vector<4xi8> to vector<8xi32>

// -----

%v = "test.op"() : () -> vector<4xi32>
// widens: expected-error@+1 {{'arith.extsi' must widen, got vector<4xi32> to vector<4xi32>}}
%0 = arith.extsi %v : vector<4xi32> to vector<4xi32>

// -----

%v = "test.op"() : () -> vector<4xi8>
// narrows: expected-error@+1 {{'arith.trunci' must narrow, got vector<4xi8> to vector<4xi16>}}
%0 = arith.trunci %v : vector<4xi8> to vector<4xi16>

// -----

// C1: a tensor is no vector
%t = "test.op"() : () -> tensor<4xi8>
// container: expected-error@+1 {{'arith.sitofp' must keep the lanes, got tensor<4xi8> to vector<4xf32>}}
%0 = arith.sitofp %t : tensor<4xi8> to vector<4xf32>
