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

// expected-error@+1 {{levels are even, groups, codebook, affine, blocks, got odd}}
func.func @c1_form() attributes {qmlir.levels = #qmlir.levels<odd, bits = 4>} {
  func.return
}

// -----

// expected-error@+1 {{levels of the form groups have bits, size, multipliers as #qmlir.weights}}
func.func @c1_kind() attributes {qmlir.levels = #qmlir.levels<groups, bits = 4, size = 32, multipliers = 5>} {
  func.return
}

// -----

// expected-error@+1 {{levels of the form codebook have bits, table as #qmlir.weights}}
func.func @c1_missing() attributes {qmlir.levels = #qmlir.levels<codebook, bits = 4>} {
  func.return
}

// -----

// expected-error@+1 {{levels of the form even have bits}}
func.func @c1_more() attributes {qmlir.levels = #qmlir.levels<even, bits = 4, size = 32>} {
  func.return
}

// -----

// expected-error@+1 {{even levels have 2 to 7 bits, got 8}}
func.func @c2_even() attributes {qmlir.levels = #qmlir.levels<even, bits = 8>} {
  func.return
}

// -----

// expected-error@+1 {{groups have 1 weight or more of 2 to 7 bits, got 32, 8}}
func.func @c2_bits() attributes {qmlir.levels = #qmlir.levels<groups, bits = 8, size = 32, multipliers = #qmlir.weights<tensor<1x1xi8>, [1]>>} {
  func.return
}

// -----

// expected-error@+1 {{affine levels are integers of 2 to 8 bits from 0 or half of them below 0 on, in blocks of 1 or more, got 4, -7, 1}}
func.func @c2_least() attributes {qmlir.levels = #qmlir.levels<affine, bits = 4, least = -7, size = 1, scales = #qmlir.weights<tensor<1x1xf32>, [1.0]>, offsets = #qmlir.weights<tensor<1x1xf32>, [1.0]>>} {
  func.return
}

// -----

// expected-error@+1 {{scales of affine levels have two dimensions, and offsets the same, one row or none}}
func.func @c2_offsets() attributes {qmlir.levels = #qmlir.levels<affine, bits = 4, least = -8, size = 1, scales = #qmlir.weights<tensor<2x1xf32>, [1.0, 2.0]>, offsets = #qmlir.weights<tensor<3x1xf32>, [1.0, 1.0, 1.0]>>} {
  func.return
}

// -----

// expected-error@+1 {{scales of affine levels are f32, bf16 or f8E8M0FNU, and offsets f32}}
func.func @c2_scales() attributes {qmlir.levels = #qmlir.levels<affine, bits = 4, least = 0, size = 1, scales = #qmlir.weights<tensor<1x1xf16>, [1.0]>, offsets = #qmlir.weights<tensor<0x1xf32>, []>>} {
  func.return
}

// -----

// expected-error@+1 {{multipliers of groups are i8 of two dimensions, 1 or more}}
func.func @c2_multipliers() attributes {qmlir.levels = #qmlir.levels<groups, bits = 4, size = 32, multipliers = #qmlir.weights<tensor<1x1xi8>, [0]>>} {
  func.return
}

// -----

// expected-error@+1 {{a codebook has places of 2 to 6 bits, got 7}}
func.func @c2_places() attributes {qmlir.levels = #qmlir.levels<codebook, bits = 7, table = #qmlir.weights<tensor<1xi8>, [0]>>} {
  func.return
}

// -----

// expected-error@+1 {{a codebook of 2 bits is i8 [4] in ascending order}}
func.func @c2_length() attributes {qmlir.levels = #qmlir.levels<codebook, bits = 2, table = #qmlir.weights<tensor<3xi8>, [0, 1, 2]>>} {
  func.return
}

// -----

// expected-error@+1 {{a codebook of 2 bits is i8 [4] in ascending order}}
func.func @c2_order() attributes {qmlir.levels = #qmlir.levels<codebook, bits = 2, table = #qmlir.weights<tensor<4xi8>, [0, 2, 1, 3]>>} {
  func.return
}

// -----

// expected-error@+1 {{blocks have 1 weight or more, got 0}}
func.func @c2_blocks() attributes {qmlir.levels = #qmlir.levels<blocks, size = 0>} {
  func.return
}
