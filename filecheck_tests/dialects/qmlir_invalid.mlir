// What names, decisions and constants in memory refuse.

// RUN: qmlir-opt --split-input-file --verify-diagnostics %s

// expected-error@+1 {{expected nodes, tensors or absorbed}}
func.func @name_field(%x: tensor<2xf32> {qmlir.name = #qmlir.name<layers ["x"]>}) {
  func.return
}

// -----

// expected-error@+1 {{nodes is given twice}}
func.func @name_twice(%x: tensor<2xf32> {qmlir.name = #qmlir.name<nodes ["a"], nodes ["b"]>}) {
  func.return
}

// -----

%x = "test.op"() : () -> tensor<2xf32>
// decision_outcome: expected-error@+1 {{a decision is quantized or float, got maybe}}
%0 = nn.relu %x {qmlir.decision = #qmlir.decision<maybe, "code", "reason">} : tensor<2xf32> -> tensor<2xf32>

// -----

// c1_shape: expected-error@+1 {{the buffer must have the weights' type tensor<2xi8>, got memref<1x2xi8>}}
%0 = qmlir.constant_buffer <tensor<2xi8>, [1, 2]> : memref<1x2xi8>

// -----

// c1_element: expected-error@+1 {{the buffer must have the weights' type tensor<2xi8>, got memref<2xi16>}}
%0 = qmlir.constant_buffer <tensor<2xi8>, [1, 2]> : memref<2xi16>

// -----

// c1_no_array_holds_it: expected-error@+1 {{the buffer must have the weights' type tensor<2xi8>, got memref<2xindex>}}
%0 = qmlir.constant_buffer <tensor<2xi8>, [1, 2]> : memref<2xindex>

// -----

// counter: expected-error@+1 {{the counter must be one of cycle, steady, got seconds}}
%0 = qmlir.clock "seconds"

// -----

// expected-error@+1 {{groups have 1 weight or more of 2 to 7 bits, got 32, 8}}
func.func @c1_bits() attributes {qmlir.groups = #qmlir.groups<32, 8, #qmlir.weights<tensor<1x1xi8>, [1]>>} {
  func.return
}

// -----

// expected-error@+1 {{multipliers of groups are i8 of two dimensions, 1 or more}}
func.func @c1_multipliers() attributes {qmlir.groups = #qmlir.groups<32, 4, #qmlir.weights<tensor<1x1xi8>, [0]>>} {
  func.return
}

// -----

// expected-error@+1 {{expected the multipliers as #qmlir.weights}}
func.func @no_multipliers() attributes {qmlir.groups = #qmlir.groups<32, 4, 5 : i8>} {
  func.return
}

// -----

// expected-error@+1 {{a codebook has places of 2 to 6 bits, got 7}}
func.func @c1_places() attributes {qmlir.codebook = #qmlir.codebook<7, #qmlir.weights<tensor<1xi8>, [0]>>} {
  func.return
}

// -----

// expected-error@+1 {{a codebook of 2 bits is i8 [4] in ascending order}}
func.func @c2_length() attributes {qmlir.codebook = #qmlir.codebook<2, #qmlir.weights<tensor<3xi8>, [0, 1, 2]>>} {
  func.return
}

// -----

// expected-error@+1 {{a codebook of 2 bits is i8 [4] in ascending order}}
func.func @c2_order() attributes {qmlir.codebook = #qmlir.codebook<2, #qmlir.weights<tensor<4xi8>, [0, 2, 1, 3]>>} {
  func.return
}

// -----

// expected-error@+1 {{expected the table as #qmlir.weights}}
func.func @no_table() attributes {qmlir.codebook = #qmlir.codebook<2, 5 : i8>} {
  func.return
}
