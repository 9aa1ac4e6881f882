// RUN: qmlir-opt --split-input-file --verify-diagnostics %s

%x, %w, %b, %zp = "test.op"() : () -> (tensor<1x4x5x3xi8>, tensor<2x3x3x3xi8>, tensor<2xi32>, tensor<1xi8>)
// conv2d_w1: expected-error@+1 {{'tosa.conv2d' needs strides and dilations of at least 1 and no negative padding, got [0, 1], [1, 1] and [1, 1, 1, 1]}}
%0 = tosa.conv2d %x, %w, %b, %zp, %zp {acc_type = i32, dilation = array<i64: 1, 1>, pad = array<i64: 1, 1, 1, 1>, stride = array<i64: 0, 1>} : (tensor<1x4x5x3xi8>, tensor<2x3x3x3xi8>, tensor<2xi32>, tensor<1xi8>, tensor<1xi8>) -> tensor<1x4x5x2xi32>

// -----

%x, %w, %b, %zp = "test.op"() : () -> (tensor<1x4x5x3xi8>, tensor<2x3x3x3xi8>, tensor<2xi32>, tensor<1xi8>)
// conv2d_w2: expected-error@+1 {{'tosa.conv2d' needs input - 1 + padding - (kernel - 1) * dilation to be a multiple of the stride along dimension 1, got 4 - 1 + 1 + 1 - (3 - 1) * 1 and a stride of 2}}
%0 = tosa.conv2d %x, %w, %b, %zp, %zp {acc_type = i32, dilation = array<i64: 1, 1>, pad = array<i64: 1, 1, 1, 1>, stride = array<i64: 2, 1>} : (tensor<1x4x5x3xi8>, tensor<2x3x3x3xi8>, tensor<2xi32>, tensor<1xi8>, tensor<1xi8>) -> tensor<1x4x5x2xi32>

// -----

%x, %w, %b, %zp = "test.op"() : () -> (tensor<1x4x5x3xi8>, tensor<2x3x3x3xi8>, tensor<2xi32>, tensor<1xi8>)
// conv2d_w3: expected-error@+1 {{'tosa.conv2d' must yield 4 elements along dimension 1, got tensor<1x3x5x2xi32>}}
%0 = tosa.conv2d %x, %w, %b, %zp, %zp {acc_type = i32, dilation = array<i64: 1, 1>, pad = array<i64: 1, 1, 1, 1>, stride = array<i64: 1, 1>} : (tensor<1x4x5x3xi8>, tensor<2x3x3x3xi8>, tensor<2xi32>, tensor<1xi8>, tensor<1xi8>) -> tensor<1x3x5x2xi32>

// -----

%x, %w, %b, %zp = "test.op"() : () -> (tensor<1x4x5x3xi8>, tensor<2x3x3xi8>, tensor<2xi32>, tensor<1xi8>)
// conv2d_c1: expected-error@+1 {{'tosa.conv2d' needs weight of rank 4, got tensor<2x3x3xi8>}}
%0 = tosa.conv2d %x, %w, %b, %zp, %zp {acc_type = i32, dilation = array<i64: 1, 1>, pad = array<i64: 1, 1, 1, 1>, stride = array<i64: 1, 1>} : (tensor<1x4x5x3xi8>, tensor<2x3x3xi8>, tensor<2xi32>, tensor<1xi8>, tensor<1xi8>) -> tensor<1x4x5x2xi32>

// -----

%x, %w, %b, %zp = "test.op"() : () -> (tensor<1x4x5x3xi8>, tensor<2x3x3x3xf32>, tensor<2xi32>, tensor<1xi8>)
// conv2d_c2_elements: expected-error@+1 {{'tosa.conv2d' needs input and weight that are both integers or both floats, got i8 and f32}}
%0 = tosa.conv2d %x, %w, %b, %zp, %zp {acc_type = i32, dilation = array<i64: 1, 1>, pad = array<i64: 1, 1, 1, 1>, stride = array<i64: 1, 1>} : (tensor<1x4x5x3xi8>, tensor<2x3x3x3xf32>, tensor<2xi32>, tensor<1xi8>, tensor<1xi8>) -> tensor<1x4x5x2xi32>

// -----

%x, %w, %b, %zp = "test.op"() : () -> (tensor<1x4x5x3xi8>, tensor<2x3x3x3xi8>, tensor<2xi32>, tensor<1xi8>)
// conv2d_c2_accumulator: expected-error@+1 {{'tosa.conv2d' needs an acc_type of i32 for elements of type i8, got f32}}
%0 = tosa.conv2d %x, %w, %b, %zp, %zp {acc_type = f32, dilation = array<i64: 1, 1>, pad = array<i64: 1, 1, 1, 1>, stride = array<i64: 1, 1>} : (tensor<1x4x5x3xi8>, tensor<2x3x3x3xi8>, tensor<2xi32>, tensor<1xi8>, tensor<1xi8>) -> tensor<1x4x5x2xi32>

// -----

%x, %w, %b, %zp = "test.op"() : () -> (tensor<1x4x5x3xi8>, tensor<2x3x3x3xi8>, tensor<2xi8>, tensor<1xi8>)
// conv2d_c3_element: expected-error@+1 {{'tosa.conv2d' needs bias of element type i32, got tensor<2xi8>}}
%0 = tosa.conv2d %x, %w, %b, %zp, %zp {acc_type = i32, dilation = array<i64: 1, 1>, pad = array<i64: 1, 1, 1, 1>, stride = array<i64: 1, 1>} : (tensor<1x4x5x3xi8>, tensor<2x3x3x3xi8>, tensor<2xi8>, tensor<1xi8>, tensor<1xi8>) -> tensor<1x4x5x2xi32>

// -----

%x, %w, %b, %zp = "test.op"() : () -> (tensor<1x4x5x3xi8>, tensor<2x3x3x3xi8>, tensor<3xi32>, tensor<1xi8>)
// conv2d_c3_length: expected-error@+1 {{'tosa.conv2d' needs a bias of 1 or 2 elements, got tensor<3xi32>}}
%0 = tosa.conv2d %x, %w, %b, %zp, %zp {acc_type = i32, dilation = array<i64: 1, 1>, pad = array<i64: 1, 1, 1, 1>, stride = array<i64: 1, 1>} : (tensor<1x4x5x3xi8>, tensor<2x3x3x3xi8>, tensor<3xi32>, tensor<1xi8>, tensor<1xi8>) -> tensor<1x4x5x2xi32>

// -----

%x, %w, %b, %zp = "test.op"() : () -> (tensor<1x4x5x3xi16>, tensor<2x3x3x3xi8>, tensor<2xi32>, tensor<1xi8>)
// conv2d_c4: expected-error@+1 {{'tosa.conv2d' needs input_zp of element type i16, got tensor<1xi8>}}
%0 = tosa.conv2d %x, %w, %b, %zp, %zp {acc_type = i48, dilation = array<i64: 1, 1>, pad = array<i64: 1, 1, 1, 1>, stride = array<i64: 1, 1>} : (tensor<1x4x5x3xi16>, tensor<2x3x3x3xi8>, tensor<2xi32>, tensor<1xi8>, tensor<1xi8>) -> tensor<1x4x5x2xi32>

// -----

%x, %w, %b, %zp = "test.op"() : () -> (tensor<1x4x5x3xi8>, tensor<2x3x3x3xi8>, tensor<2xi32>, tensor<1xi8>)
// conv2d_c5: expected-error@+1 {{'tosa.conv2d' slides over 2 dimensions, got properties for others: 2, 2, 2 entries}}
%0 = tosa.conv2d %x, %w, %b, %zp, %zp {acc_type = i32, dilation = array<i64: 1, 1>, pad = array<i64: 1, 1>, stride = array<i64: 1, 1>} : (tensor<1x4x5x3xi8>, tensor<2x3x3x3xi8>, tensor<2xi32>, tensor<1xi8>, tensor<1xi8>) -> tensor<1x4x5x2xi32>

// -----

%x, %w, %b, %zp = "test.op"() : () -> (tensor<1x4x5x3xi8>, tensor<2x3x3x4xi8>, tensor<2xi32>, tensor<1xi8>)
// conv2d_c6_input: expected-error@+1 {{'tosa.conv2d' needs weights for the input's channels, got tensor<2x3x3x4xi8> for tensor<1x4x5x3xi8>}}
%0 = tosa.conv2d %x, %w, %b, %zp, %zp {acc_type = i32, dilation = array<i64: 1, 1>, pad = array<i64: 1, 1, 1, 1>, stride = array<i64: 1, 1>} : (tensor<1x4x5x3xi8>, tensor<2x3x3x4xi8>, tensor<2xi32>, tensor<1xi8>, tensor<1xi8>) -> tensor<1x4x5x2xi32>

// -----

%x, %w, %b, %zp = "test.op"() : () -> (tensor<1x4x5x3xi8>, tensor<2x3x3x3xi8>, tensor<2xi32>, tensor<1xi8>)
// conv2d_c6_output: expected-error@+1 {{'tosa.conv2d' must yield 2 channels, got tensor<1x4x5x3xi32>}}
%0 = tosa.conv2d %x, %w, %b, %zp, %zp {acc_type = i32, dilation = array<i64: 1, 1>, pad = array<i64: 1, 1, 1, 1>, stride = array<i64: 1, 1>} : (tensor<1x4x5x3xi8>, tensor<2x3x3x3xi8>, tensor<2xi32>, tensor<1xi8>, tensor<1xi8>) -> tensor<1x4x5x3xi32>

// -----

%x, %w, %b, %zp = "test.op"() : () -> (tensor<1x4x5x3xi8>, tensor<2x3x3x3xi8>, tensor<2xi32>, tensor<1xi8>)
// conv2d_c6_images: expected-error@+1 {{'tosa.conv2d' must yield as many images as it takes, got tensor<2x4x5x2xi32> from tensor<1x4x5x3xi8>}}
%0 = tosa.conv2d %x, %w, %b, %zp, %zp {acc_type = i32, dilation = array<i64: 1, 1>, pad = array<i64: 1, 1, 1, 1>, stride = array<i64: 1, 1>} : (tensor<1x4x5x3xi8>, tensor<2x3x3x3xi8>, tensor<2xi32>, tensor<1xi8>, tensor<1xi8>) -> tensor<2x4x5x2xi32>

// -----

%x, %w, %b, %zp = "test.op"() : () -> (tensor<1x4x5x3xi8>, tensor<2x3x3x3xi8>, tensor<2xi32>, tensor<1xi8>)
// transpose_conv2d_w1: expected-error@+1 {{'tosa.transpose_conv2d' needs an out_pad larger than minus the kernel's 3, got [-3, 0, 0, 0]}}
%0 = tosa.transpose_conv2d %x, %w, %b, %zp, %zp {acc_type = i32, out_pad = array<i64: -3, 0, 0, 0>, stride = array<i64: 1, 1>} : (tensor<1x4x5x3xi8>, tensor<2x3x3x3xi8>, tensor<2xi32>, tensor<1xi8>, tensor<1xi8>) -> tensor<1x6x7x2xi32>

// -----

%x, %w, %b, %zp = "test.op"() : () -> (tensor<1x4x5x3xi8>, tensor<2x3x3x3xi8>, tensor<2xi32>, tensor<1xi8>)
// transpose_conv2d_w3: expected-error@+1 {{'tosa.transpose_conv2d' must yield 7 elements along dimension 2, got tensor<1x6x8x2xi32>}}
%0 = tosa.transpose_conv2d %x, %w, %b, %zp, %zp {acc_type = i32, out_pad = array<i64: 0, 0, 0, 0>, stride = array<i64: 1, 1>} : (tensor<1x4x5x3xi8>, tensor<2x3x3x3xi8>, tensor<2xi32>, tensor<1xi8>, tensor<1xi8>) -> tensor<1x6x8x2xi32>

// -----

%a, %b, %zp = "test.op"() : () -> (tensor<2x3xi8>, tensor<3x4xi8>, tensor<1xi8>)
// matmul_c1_rank: expected-error@+1 {{'tosa.matmul' needs a of rank 3, got tensor<2x3xi8>}}
%0 = tosa.matmul %a, %b, %zp, %zp : (tensor<2x3xi8>, tensor<3x4xi8>, tensor<1xi8>, tensor<1xi8>) -> tensor<2x4xi32>

// -----

%a, %b, %zp = "test.op"() : () -> (tensor<1x2x3xi8>, tensor<1x4x5xi8>, tensor<1xi8>)
// matmul_c1_sizes: expected-error@+1 {{'tosa.matmul' needs a [N, H, C] and b [N, C, W], got tensor<1x2x3xi8> and tensor<1x4x5xi8>}}
%0 = tosa.matmul %a, %b, %zp, %zp : (tensor<1x2x3xi8>, tensor<1x4x5xi8>, tensor<1xi8>, tensor<1xi8>) -> tensor<1x2x5xi32>

// -----

%a, %b, %zp = "test.op"() : () -> (tensor<1x2x3xi8>, tensor<1x3x5xi16>, tensor<1xi8>)
// matmul_c2_operands: expected-error@+1 {{'tosa.matmul' needs operands of one element type, got i8 and i16}}
%0 = tosa.matmul %a, %b, %zp, %zp : (tensor<1x2x3xi8>, tensor<1x3x5xi16>, tensor<1xi8>, tensor<1xi8>) -> tensor<1x2x5xi32>

// -----

%a, %b, %zp = "test.op"() : () -> (tensor<1x2x3xi8>, tensor<1x3x5xi8>, tensor<1xi8>)
// matmul_c2_result: expected-error@+1 {{'tosa.matmul' must yield elements of type i32 from i8, got tensor<1x2x5xi8>}}
%0 = tosa.matmul %a, %b, %zp, %zp : (tensor<1x2x3xi8>, tensor<1x3x5xi8>, tensor<1xi8>, tensor<1xi8>) -> tensor<1x2x5xi8>

// -----

%a, %b, %z, %zp = "test.op"() : () -> (tensor<1x2x3xi8>, tensor<1x3x5xi8>, tensor<2xi8>, tensor<1xi8>)
// matmul_c4: expected-error@+1 {{'tosa.matmul' needs a_zp of one element, got tensor<2xi8>}}
%0 = tosa.matmul %a, %b, %z, %zp : (tensor<1x2x3xi8>, tensor<1x3x5xi8>, tensor<2xi8>, tensor<1xi8>) -> tensor<1x2x5xi32>

// -----

%x = "test.op"() : () -> tensor<6x4x3xi8>
// max_pool2d_p1_rank: expected-error@+1 {{'tosa.max_pool2d' needs input of rank 4, got tensor<6x4x3xi8>}}
%0 = tosa.max_pool2d %x {kernel = array<i64: 2, 2>, pad = array<i64: 0, 0, 0, 0>, stride = array<i64: 2, 2>} : (tensor<6x4x3xi8>) -> tensor<1x3x2x3xi8>

// -----

%x = "test.op"() : () -> tensor<1x6x4x3xi8>
// max_pool2d_p1_channels: expected-error@+1 {{'tosa.max_pool2d' must keep images and channels, got tensor<1x3x2x4xi8> from tensor<1x6x4x3xi8>}}
%0 = tosa.max_pool2d %x {kernel = array<i64: 2, 2>, pad = array<i64: 0, 0, 0, 0>, stride = array<i64: 2, 2>} : (tensor<1x6x4x3xi8>) -> tensor<1x3x2x4xi8>

// -----

%x = "test.op"() : () -> tensor<1x6x4x3xi8>
// max_pool2d_p2_count: expected-error@+1 {{'tosa.max_pool2d' needs 2 kernel sizes, 2 strides and 4 paddings, got 1, 2 and 4}}
%0 = tosa.max_pool2d %x {kernel = array<i64: 2>, pad = array<i64: 0, 0, 0, 0>, stride = array<i64: 2, 2>} : (tensor<1x6x4x3xi8>) -> tensor<1x3x2x3xi8>

// -----

%x = "test.op"() : () -> tensor<1x6x4x3xi8>
// max_pool2d_p2_padding: expected-error@+1 {{'tosa.max_pool2d' needs a kernel of at least 1 that is larger than the padding, got (2, 2) and (2, 2, 0, 0)}}
%0 = tosa.max_pool2d %x {kernel = array<i64: 2, 2>, pad = array<i64: 2, 2, 0, 0>, stride = array<i64: 2, 2>} : (tensor<1x6x4x3xi8>) -> tensor<1x3x2x3xi8>

// -----

%x = "test.op"() : () -> tensor<1x6x4x3xi8>
// max_pool2d_w2: expected-error@+1 {{'tosa.max_pool2d' needs input - 1 + padding - (kernel - 1) * dilation to be a multiple of the stride along dimension 1, got 6 - 1 + 0 + 0 - (2 - 1) * 1 and a stride of 3}}
%0 = tosa.max_pool2d %x {kernel = array<i64: 2, 2>, pad = array<i64: 0, 0, 0, 0>, stride = array<i64: 3, 2>} : (tensor<1x6x4x3xi8>) -> tensor<1x3x2x3xi8>

// -----

%x, %zp = "test.op"() : () -> (tensor<1x6x4x3xi8>, tensor<1xi8>)
// avg_pool2d_p4: expected-error@+1 {{'tosa.avg_pool2d' needs an acc_type of i32 for elements of type i8, got f32}}
%0 = tosa.avg_pool2d %x, %zp, %zp {acc_type = f32, kernel = array<i64: 2, 2>, pad = array<i64: 0, 0, 0, 0>, stride = array<i64: 2, 2>} : (tensor<1x6x4x3xi8>, tensor<1xi8>, tensor<1xi8>) -> tensor<1x3x2x3xi8>

// -----

%x, %z, %zp = "test.op"() : () -> (tensor<1x6x4x3xi16>, tensor<1xi16>, tensor<1xi8>)
// avg_pool2d_p3: expected-error@+1 {{'tosa.avg_pool2d' needs input_zp of element type i16, got tensor<1xi8>}}
%0 = tosa.avg_pool2d %x, %zp, %z {acc_type = i32, kernel = array<i64: 2, 2>, pad = array<i64: 0, 0, 0, 0>, stride = array<i64: 2, 2>} : (tensor<1x6x4x3xi16>, tensor<1xi8>, tensor<1xi16>) -> tensor<1x3x2x3xi16>

// -----

%x, %y = "test.op"() : () -> (tensor<2x3xi32>, tensor<3xi32>)
// add_e1_rank: expected-error@+1 {{'tosa.add' needs operands of one rank, got tensor<2x3xi32>, tensor<3xi32>}}
%0 = tosa.add %x, %y : (tensor<2x3xi32>, tensor<3xi32>) -> tensor<2x3xi32>

// -----

%x, %y = "test.op"() : () -> (tensor<2x3xi32>, tensor<4x3xi32>)
// add_e1_shapes: expected-error@+1 {{'tosa.add' needs operands whose shapes broadcast, got tensor<2x3xi32>, tensor<4x3xi32>}}
%0 = tosa.add %x, %y : (tensor<2x3xi32>, tensor<4x3xi32>) -> tensor<2x3xi32>

// -----

%x, %y = "test.op"() : () -> (tensor<2x1xi32>, tensor<2x3xi32>)
// add_e1_result: expected-error@+1 {{'tosa.add' must yield a tensor of shape 2x3, got tensor<2x1xi32>}}
%0 = tosa.add %x, %y : (tensor<2x1xi32>, tensor<2x3xi32>) -> tensor<2x1xi32>

// -----

%x, %y = "test.op"() : () -> (tensor<3xi32>, tensor<3xi8>)
// add_e2: expected-error@+1 {{'tosa.add' needs operand of element type i32, got tensor<3xi8>}}
%0 = tosa.add %x, %y : (tensor<3xi32>, tensor<3xi8>) -> tensor<3xi32>

// -----

%x = "test.op"() : () -> tensor<3xi32>
// greater_e2: expected-error@+1 {{'tosa.greater' needs result of element type i1, got tensor<3xi32>}}
%0 = tosa.greater %x, %x : (tensor<3xi32>, tensor<3xi32>) -> tensor<3xi32>

// -----

%x, %s = "test.op"() : () -> (tensor<3xi32>, tensor<1xi32>)
// mul_m1: expected-error@+1 {{'tosa.mul' needs a shift of type tensor<1xi8>, got tensor<1xi32>}}
%0 = tosa.mul %x, %x, %s : (tensor<3xi32>, tensor<3xi32>, tensor<1xi32>) -> tensor<3xi32>

// -----

%x, %s = "test.op"() : () -> (tensor<3xf32>, tensor<1xi8>)
// mul_e2: expected-error@+1 {{'tosa.mul' needs result of element type f32, got tensor<3xi32>}}
%0 = tosa.mul %x, %x, %s : (tensor<3xf32>, tensor<3xf32>, tensor<1xi8>) -> tensor<3xi32>

// -----

%x, %z, %y = "test.op"() : () -> (tensor<3xi32>, tensor<1xi8>, tensor<1xi32>)
// negate_n1: expected-error@+1 {{'tosa.negate' needs input1_zp of element type i32, got tensor<1xi8>}}
%0 = tosa.negate %x, %z, %y : (tensor<3xi32>, tensor<1xi8>, tensor<1xi32>) -> tensor<3xi32>

// -----

%c, %x = "test.op"() : () -> (tensor<3xi8>, tensor<3xi32>)
// select_e2: expected-error@+1 {{'tosa.select' needs condition of element type i1, got tensor<3xi8>}}
%0 = tosa.select %c, %x, %x : (tensor<3xi8>, tensor<3xi32>, tensor<3xi32>) -> tensor<3xi32>

// -----

%x = "test.op"() : () -> tensor<3xi8>
// clamp_e2: expected-error@+1 {{'tosa.clamp' needs bounds of element type i8, got 0 : i32}}
%0 = tosa.clamp %x {min_val = 0 : i32, max_val = 5 : i32} : (tensor<3xi8>) -> tensor<3xi8>

// -----

%x = "test.op"() : () -> tensor<3xi8>
// clamp_b1: expected-error@+1 {{'tosa.clamp' needs a min_val that is not above max_val, got 5 and 0}}
%0 = tosa.clamp %x {min_val = 5 : i8, max_val = 0 : i8} : (tensor<3xi8>) -> tensor<3xi8>

// -----

%x = "test.op"() : () -> tensor<3xi8>
// cast_e1: expected-error@+1 {{'tosa.cast' must yield a tensor of shape 3, got tensor<4xi32>}}
%0 = tosa.cast %x : (tensor<3xi8>) -> tensor<4xi32>

// -----

%x = "test.op"() : () -> tensor<3xindex>
// cast_e2: expected-error@+1 {{'tosa.cast' needs elements that are integers or floats, got tensor<3xindex>}}
%0 = tosa.cast %x : (tensor<3xindex>) -> tensor<3xi32>

// -----

%x, %t = "test.op"() : () -> (tensor<3xi32>, tensor<256xi8>)
// table_l1_element: expected-error@+1 {{'tosa.table' needs data of element type i8 or i16, got tensor<3xi32>}}
%0 = tosa.table %x, %t : (tensor<3xi32>, tensor<256xi8>) -> tensor<3xi8>

// -----

%x, %t = "test.op"() : () -> (tensor<3xi8>, tensor<255xi8>)
// table_l1_entries: expected-error@+1 {{'tosa.table' needs a table of 256 entries for i8, got tensor<255xi8>}}
%0 = tosa.table %x, %t : (tensor<3xi8>, tensor<255xi8>) -> tensor<3xi8>

// -----

%x, %t = "test.op"() : () -> (tensor<3xi8>, tensor<256xi8>)
// table_l2: expected-error@+1 {{'tosa.table' must yield a tensor of shape 3, got tensor<4xi8>}}
%0 = tosa.table %x, %t : (tensor<3xi8>, tensor<256xi8>) -> tensor<4xi8>

// -----

%v, %i = "test.op"() : () -> (tensor<2x5x3xf32>, tensor<3x4xi32>)
// gather_l1_indices: expected-error@+1 {{'tosa.gather' needs indices for each batch of values, got tensor<3x4xi32> and tensor<2x5x3xf32>}}
%0 = tosa.gather %v, %i : (tensor<2x5x3xf32>, tensor<3x4xi32>) -> tensor<2x4x3xf32>

// -----

%v, %i = "test.op"() : () -> (tensor<2x5x3xf32>, tensor<2x4xi16>)
// gather_l1_element: expected-error@+1 {{'tosa.gather' needs indices of element type i32 or i64, got tensor<2x4xi16>}}
%0 = tosa.gather %v, %i : (tensor<2x5x3xf32>, tensor<2x4xi16>) -> tensor<2x4x3xf32>

// -----

%v, %i, %u = "test.op"() : () -> (tensor<2x3x3xf32>, tensor<2x4xi32>, tensor<2x4x3xf32>)
// scatter_l1: expected-error@+1 {{'tosa.scatter' has no place for 4 elements in tensor<2x3x3xf32>}}
%0 = tosa.scatter %v, %i, %u : (tensor<2x3x3xf32>, tensor<2x4xi32>, tensor<2x4x3xf32>) -> tensor<2x3x3xf32>

// -----

%x = "test.op"() : () -> tensor<2x3xf32>
// reduce_r1: expected-error@+1 {{'tosa.reduce_sum' needs an axis within the rank of tensor<2x3xf32>, got 2}}
%0 = tosa.reduce_sum %x {axis = 2 : i32} : (tensor<2x3xf32>) -> tensor<2x1xf32>

// -----

%x = "test.op"() : () -> tensor<2x3xf32>
// reduce_r2: expected-error@+1 {{'tosa.reduce_sum' must yield a tensor of shape 2x1, got tensor<2xf32>}}
%0 = tosa.reduce_sum %x {axis = 1 : i32} : (tensor<2x3xf32>) -> tensor<2xf32>

// -----

%x = "test.op"() : () -> tensor<2x3xf32>
// reduce_r3: expected-error@+1 {{'tosa.reduce_all' needs input of element type i1, got tensor<2x3xf32>}}
%0 = tosa.reduce_all %x {axis = 1 : i32} : (tensor<2x3xf32>) -> tensor<2x1xf32>

// -----

%x = "test.op"() : () -> tensor<2x3xf32>
// argmax_r2: expected-error@+1 {{'tosa.argmax' must yield integers, got tensor<2xf32>}}
%0 = tosa.argmax %x {axis = 1 : i32} : (tensor<2x3xf32>) -> tensor<2xf32>

// -----

%x, %m, %s, %xz, %yz = "test.op"() : () -> (tensor<3x2xf32>, tensor<1xi32>, tensor<1xi8>, tensor<1xi32>, tensor<1xi8>)
// rescale_c1_float: expected-error@+1 {{'tosa.rescale' needs integers to scale, got f32 to i8}}
%0 = tosa.rescale %x, %m, %s, %xz, %yz {rounding_mode = SINGLE_ROUND, scale32 = true, per_channel = false, input_unsigned = false, output_unsigned = false} : (tensor<3x2xf32>, tensor<1xi32>, tensor<1xi8>, tensor<1xi32>, tensor<1xi8>) -> tensor<3x2xi8>

// -----

%x, %m, %s, %xz, %yz = "test.op"() : () -> (tensor<3x2xi32>, tensor<1xi32>, tensor<1xi8>, tensor<1xi32>, tensor<1xi8>)
// rescale_c1_shape: expected-error@+1 {{'tosa.rescale' must yield a tensor of shape 3x2, got tensor<2x3xi8>}}
%0 = tosa.rescale %x, %m, %s, %xz, %yz {rounding_mode = SINGLE_ROUND, scale32 = true, per_channel = false, input_unsigned = false, output_unsigned = false} : (tensor<3x2xi32>, tensor<1xi32>, tensor<1xi8>, tensor<1xi32>, tensor<1xi8>) -> tensor<2x3xi8>

// -----

%x, %m, %s, %xz, %yz = "test.op"() : () -> (tensor<3x2xi48>, tensor<1xi32>, tensor<1xi8>, tensor<1xi48>, tensor<1xi8>)
// rescale_c1_i48: expected-error@+1 {{'tosa.rescale' needs integers of at most 32 bits with scale32 to scale, got i48 to i8}}
%0 = tosa.rescale %x, %m, %s, %xz, %yz {rounding_mode = SINGLE_ROUND, scale32 = true, per_channel = false, input_unsigned = false, output_unsigned = false} : (tensor<3x2xi48>, tensor<1xi32>, tensor<1xi8>, tensor<1xi48>, tensor<1xi8>) -> tensor<3x2xi8>

// -----

%x, %m, %s, %xz, %yz = "test.op"() : () -> (tensor<3x2xi32>, tensor<1xi32>, tensor<1xi8>, tensor<1xi32>, tensor<1xi8>)
// rescale_c2_multiplier: expected-error@+1 {{'tosa.rescale' needs multiplier of element type i16, got tensor<1xi32>}}
%0 = tosa.rescale %x, %m, %s, %xz, %yz {rounding_mode = SINGLE_ROUND, scale32 = false, per_channel = false, input_unsigned = false, output_unsigned = false} : (tensor<3x2xi32>, tensor<1xi32>, tensor<1xi8>, tensor<1xi32>, tensor<1xi8>) -> tensor<3x2xi8>

// -----

%x, %m, %s, %xz, %yz = "test.op"() : () -> (tensor<3x2xi32>, tensor<1xi32>, tensor<1xi32>, tensor<1xi32>, tensor<1xi8>)
// rescale_c2_shift: expected-error@+1 {{'tosa.rescale' needs shift of element type i8, got tensor<1xi32>}}
%0 = tosa.rescale %x, %m, %s, %xz, %yz {rounding_mode = SINGLE_ROUND, scale32 = true, per_channel = false, input_unsigned = false, output_unsigned = false} : (tensor<3x2xi32>, tensor<1xi32>, tensor<1xi32>, tensor<1xi32>, tensor<1xi8>) -> tensor<3x2xi8>

// -----

%x, %m, %s, %xz, %yz = "test.op"() : () -> (tensor<3x2xi32>, tensor<1xi32>, tensor<1xi8>, tensor<1xi32>, tensor<1xi8>)
// rescale_c2_channels: expected-error@+1 {{'tosa.rescale' needs a multiplier of 2 elements, got tensor<1xi32>}}
%0 = tosa.rescale %x, %m, %s, %xz, %yz {rounding_mode = SINGLE_ROUND, scale32 = true, per_channel = true, input_unsigned = false, output_unsigned = false} : (tensor<3x2xi32>, tensor<1xi32>, tensor<1xi8>, tensor<1xi32>, tensor<1xi8>) -> tensor<3x2xi8>

// -----

%x, %m, %s, %xz, %yz = "test.op"() : () -> (tensor<3x2xi32>, tensor<1xi32>, tensor<1xi8>, tensor<1xi8>, tensor<1xi8>)
// rescale_c3: expected-error@+1 {{'tosa.rescale' needs input_zp of element type i32, got tensor<1xi8>}}
%0 = tosa.rescale %x, %m, %s, %xz, %yz {rounding_mode = SINGLE_ROUND, scale32 = true, per_channel = false, input_unsigned = false, output_unsigned = false} : (tensor<3x2xi32>, tensor<1xi32>, tensor<1xi8>, tensor<1xi8>, tensor<1xi8>) -> tensor<3x2xi8>

// -----

%x, %m, %s, %xz, %yz = "test.op"() : () -> (tensor<3x2xi32>, tensor<1xi16>, tensor<1xi8>, tensor<1xi32>, tensor<1xi8>)
// rescale_c4: expected-error@+1 {{'tosa.rescale' needs scale32 for rounding_mode DOUBLE_ROUND}}
%0 = tosa.rescale %x, %m, %s, %xz, %yz {rounding_mode = DOUBLE_ROUND, scale32 = false, per_channel = false, input_unsigned = false, output_unsigned = false} : (tensor<3x2xi32>, tensor<1xi16>, tensor<1xi8>, tensor<1xi32>, tensor<1xi8>) -> tensor<3x2xi8>

// -----

%x, %m, %s, %xz, %yz = "test.op"() : () -> (tensor<3x2xi32>, tensor<1xi32>, tensor<1xi8>, tensor<1xi32>, tensor<1xi8>)
// rescale_c5: expected-error@+1 {{'tosa.rescale' needs at most one of input and output unsigned, of 8 or 16 bits, got i32 to i8}}
%0 = tosa.rescale %x, %m, %s, %xz, %yz {rounding_mode = SINGLE_ROUND, scale32 = true, per_channel = false, input_unsigned = true, output_unsigned = false} : (tensor<3x2xi32>, tensor<1xi32>, tensor<1xi8>, tensor<1xi32>, tensor<1xi8>) -> tensor<3x2xi8>

// -----

// const_s1: expected-error@+1 {{'tosa.const' must have the type of its values tensor<1xi8>, got tensor<2xi8>}}
%0 = "tosa.const"() <{values = dense<0> : tensor<1xi8>}> : () -> tensor<2xi8>

// -----

// const_shape_s1: expected-error@+1 {{'tosa.const_shape' needs a 1-D tensor of index with an element for each dimension, got tensor<1xindex> for !tosa.shape<2>}}
%0 = "tosa.const_shape"() <{values = dense<0> : tensor<1xindex>}> : () -> !tosa.shape<2>

// -----

%x = "test.op"() : () -> tensor<2xi8>
// identity_s1: expected-error@+1 {{'tosa.identity' needs result of element type i8, got tensor<2xi32>}}
%0 = tosa.identity %x : (tensor<2xi8>) -> tensor<2xi32>

// -----

%x = "test.op"() : () -> tensor<2x3xi8>
// concat_s1: expected-error@+1 {{'tosa.concat' needs an axis within the rank of tensor<2x3xi8>, got 2}}
%0 = tosa.concat %x {axis = 2 : i32} : (tensor<2x3xi8>) -> tensor<2x3xi8>

// -----

%x, %y = "test.op"() : () -> (tensor<2x3xi8>, tensor<1x4xi8>)
// concat_s2: expected-error@+1 {{'tosa.concat' needs operands that differ along axis 0 only, got tensor<2x3xi8>, tensor<1x4xi8> to tensor<3x3xi8>}}
%0 = tosa.concat %x, %y {axis = 0 : i32} : (tensor<2x3xi8>, tensor<1x4xi8>) -> tensor<3x3xi8>

// -----

%x, %zp = "test.op"() : () -> (tensor<2x3xi8>, tensor<1xi8>)
%s = tosa.const_shape {values = dense<[1, 1]> : tensor<2xindex>} : () -> !tosa.shape<2>
// pad_s1_count: expected-error@+1 {{'tosa.pad' needs padding of type !tosa.shape<4>, got !tosa.shape<2>}}
%0 = tosa.pad %x, %s, %zp : (tensor<2x3xi8>, !tosa.shape<2>, tensor<1xi8>) -> tensor<2x5xi8>

// -----

%x, %zp = "test.op"() : () -> (tensor<3xi8>, tensor<1xi8>)
%s = tosa.const_shape {values = dense<[-1, 1]> : tensor<2xindex>} : () -> !tosa.shape<2>
// pad_s1_negative: expected-error@+1 {{'tosa.pad' needs padding that is not negative, got [-1, 1]}}
%0 = tosa.pad %x, %s, %zp : (tensor<3xi8>, !tosa.shape<2>, tensor<1xi8>) -> tensor<3xi8>

// -----

%x, %zp = "test.op"() : () -> (tensor<3xi32>, tensor<1xi8>)
%s = tosa.const_shape {values = dense<[1, 1]> : tensor<2xindex>} : () -> !tosa.shape<2>
// pad_s2: expected-error@+1 {{'tosa.pad' needs pad_const of element type i32, got tensor<1xi8>}}
%0 = tosa.pad %x, %s, %zp : (tensor<3xi32>, !tosa.shape<2>, tensor<1xi8>) -> tensor<5xi32>

// -----

%x, %zp = "test.op"() : () -> (tensor<3xi8>, tensor<1xi8>)
%s = tosa.const_shape {values = dense<[1, 1]> : tensor<2xindex>} : () -> !tosa.shape<2>
// pad_s3: expected-error@+1 {{'tosa.pad' must yield a tensor of shape 5, got tensor<4xi8>}}
%0 = tosa.pad %x, %s, %zp : (tensor<3xi8>, !tosa.shape<2>, tensor<1xi8>) -> tensor<4xi8>

// -----

%x = "test.op"() : () -> tensor<2x3xi8>
%s = tosa.const_shape {values = dense<[3, 2]> : tensor<2xindex>} : () -> !tosa.shape<2>
// reshape_s1: expected-error@+1 {{'tosa.reshape' needs shape of type !tosa.shape<1>, got !tosa.shape<2>}}
%0 = tosa.reshape %x, %s : (tensor<2x3xi8>, !tosa.shape<2>) -> tensor<6xi8>

// -----

%x = "test.op"() : () -> tensor<2x3xi8>
%s = tosa.const_shape {values = dense<[3, 2]> : tensor<2xindex>} : () -> !tosa.shape<2>
// reshape_s1_sizes: expected-error@+1 {{'tosa.reshape' must yield a tensor of shape 3x2, got tensor<1x6xi8>}}
%0 = tosa.reshape %x, %s : (tensor<2x3xi8>, !tosa.shape<2>) -> tensor<1x6xi8>

// -----

%x = "test.op"() : () -> tensor<2x3xi8>
%s = tosa.const_shape {values = dense<[3, 3]> : tensor<2xindex>} : () -> !tosa.shape<2>
// reshape_s2: expected-error@+1 {{'tosa.reshape' cannot turn 6 elements into 9: 2x3 to 3x3}}
%0 = tosa.reshape %x, %s : (tensor<2x3xi8>, !tosa.shape<2>) -> tensor<3x3xi8>

// -----

%x = "test.op"() : () -> tensor<2x3xi8>
// reverse_s1: expected-error@+1 {{'tosa.reverse' needs an axis within the rank of tensor<2x3xi8>, got -1}}
%0 = tosa.reverse %x {axis = -1 : i32} : (tensor<2x3xi8>) -> tensor<2x3xi8>

// -----

%x = "test.op"() : () -> tensor<2x3xi8>
// reverse_s2: expected-error@+1 {{'tosa.reverse' must yield a tensor of shape 2x3, got tensor<3x2xi8>}}
%0 = tosa.reverse %x {axis = 1 : i32} : (tensor<2x3xi8>) -> tensor<3x2xi8>

// -----

%x = "test.op"() : () -> tensor<2x3xi8>
%s = tosa.const_shape {values = dense<[1]> : tensor<1xindex>} : () -> !tosa.shape<1>
// slice_s1: expected-error@+1 {{'tosa.slice' needs start of type !tosa.shape<2>, got !tosa.shape<1>}}
%0 = tosa.slice %x, %s, %s : (tensor<2x3xi8>, !tosa.shape<1>, !tosa.shape<1>) -> tensor<1x1xi8>

// -----

%x = "test.op"() : () -> tensor<2x3xi8>
%s = tosa.const_shape {values = dense<[2, 1]> : tensor<2xindex>} : () -> !tosa.shape<2>
// slice_s2: expected-error@+1 {{'tosa.slice' needs a slice within 2x3, got [2, 1] elements from [2, 1] on}}
%0 = tosa.slice %x, %s, %s : (tensor<2x3xi8>, !tosa.shape<2>, !tosa.shape<2>) -> tensor<2x1xi8>

// -----

%x = "test.op"() : () -> tensor<2x3xi8>
%s = tosa.const_shape {values = dense<[1, 1]> : tensor<2xindex>} : () -> !tosa.shape<2>
// slice_s3: expected-error@+1 {{'tosa.slice' must yield a tensor of shape 1x1, got tensor<1x2xi8>}}
%0 = tosa.slice %x, %s, %s : (tensor<2x3xi8>, !tosa.shape<2>, !tosa.shape<2>) -> tensor<1x2xi8>

// -----

%x = "test.op"() : () -> tensor<2x3xi8>
%s = tosa.const_shape {values = dense<[2]> : tensor<1xindex>} : () -> !tosa.shape<1>
// tile_s1: expected-error@+1 {{'tosa.tile' needs multiples of type !tosa.shape<2>, got !tosa.shape<1>}}
%0 = tosa.tile %x, %s : (tensor<2x3xi8>, !tosa.shape<1>) -> tensor<4x3xi8>

// -----

%x = "test.op"() : () -> tensor<2x3xi8>
%s = tosa.const_shape {values = dense<[2, 1]> : tensor<2xindex>} : () -> !tosa.shape<2>
// tile_s2: expected-error@+1 {{'tosa.tile' must yield a tensor of shape 4x3, got tensor<2x3xi8>}}
%0 = tosa.tile %x, %s : (tensor<2x3xi8>, !tosa.shape<2>) -> tensor<2x3xi8>

// -----

%x = "test.op"() : () -> tensor<2x3xi8>
// transpose_s1: expected-error@+1 {{'tosa.transpose' needs a permutation of 2 dimensions, got [1, 1]}}
%0 = tosa.transpose %x {perms = array<i32: 1, 1>} : (tensor<2x3xi8>) -> tensor<3x2xi8>

// -----

%x = "test.op"() : () -> tensor<2x3xi8>
// transpose_s2: expected-error@+1 {{'tosa.transpose' must yield a tensor of shape 3x2, got tensor<2x3xi8>}}
%0 = tosa.transpose %x {perms = array<i32: 1, 0>} : (tensor<2x3xi8>) -> tensor<2x3xi8>

// -----

%x = "test.op"() : () -> tensor<0x3xi8>
// t1: expected-error@+1 {{a tensor with elements is needed, got tensor<0x3xi8>}}
%0 = tosa.identity %x : (tensor<0x3xi8>) -> tensor<0x3xi8>

// -----

// of_vectors: expected-error@+1 {{a constant tensor is needed, got dense<1> : vector<1xi8>}}
%0 = "tosa.const"() <{values = dense<1> : vector<1xi8>}> : () -> tensor<1xi8>

// -----

// syntax: expected-error@+1 {{!tosa.shape needs a rank that is not negative, got -1}}
%0 = "tosa.const_shape"() <{values = dense<1> : tensor<1xindex>}> : () -> !tosa.shape<-1>

// -----

%x = "test.op"() : () -> tensor<2x3xi8>
// no_value: expected-error@+1 {{'axis' needs a value}}
%0 = tosa.reduce_sum %x {axis} : (tensor<2x3xi8>) -> tensor<2x1xi8>

// -----

%x = "test.op"() : () -> tensor<2x3xi8>
// no_word: expected-error@+1 {{Expected `PROPAGATE`, or `IGNORE`.}}
%0 = tosa.reduce_max %x axis(1) nan_mode<SOMETIMES> : (tensor<2x3xi8>) -> tensor<2x1xi8>

// -----

%x, %s, %o = "test.op"() : () -> (tensor<3x4xf32>, !tosa.shape<4>, !tosa.shape<2>)
// resize_rank: expected-error@+1 {{'tosa.resize' needs input of rank 4, got tensor<3x4xf32>}}
%0 = tosa.resize %x, %s, %o, %o {mode = BILINEAR} : (tensor<3x4xf32>, !tosa.shape<4>, !tosa.shape<2>, !tosa.shape<2>) -> tensor<6x8xf32>

// -----

%x, %s, %o = "test.op"() : () -> (tensor<1x3x4x2xi8>, !tosa.shape<4>, !tosa.shape<2>)
// resize_sums: expected-error@+1 {{'tosa.resize' needs result of element type i32, got tensor<1x6x8x2xi8>}}
%0 = tosa.resize %x, %s, %o, %o {mode = BILINEAR} : (tensor<1x3x4x2xi8>, !tosa.shape<4>, !tosa.shape<2>, !tosa.shape<2>) -> tensor<1x6x8x2xi8>

// -----

%x, %s, %o = "test.op"() : () -> (tensor<1x3x4x2xf32>, !tosa.shape<4>, !tosa.shape<2>)
// resize_channels: expected-error@+1 {{'tosa.resize' must keep images and channels}}
%0 = tosa.resize %x, %s, %o, %o {mode = BILINEAR} : (tensor<1x3x4x2xf32>, !tosa.shape<4>, !tosa.shape<2>, !tosa.shape<2>) -> tensor<1x6x8x3xf32>

// -----

%x, %s, %o = "test.op"() : () -> (tensor<1x3x4x2xf32>, !tosa.shape<3>, !tosa.shape<2>)
// resize_sizes: expected-error@+1 {{'tosa.resize' needs scale of type !tosa.shape<4>, got !tosa.shape<3>}}
%0 = tosa.resize %x, %s, %o, %o {mode = BILINEAR} : (tensor<1x3x4x2xf32>, !tosa.shape<3>, !tosa.shape<2>, !tosa.shape<2>) -> tensor<1x6x8x2xf32>

// -----

%x = "test.op"() : () -> tensor<1x3x4x2xf32>
%s = tosa.const_shape {values = dense<[4, 2, 4, 2]> : tensor<4xindex>} : () -> !tosa.shape<4>
%o = tosa.const_shape {values = dense<0> : tensor<2xindex>} : () -> !tosa.shape<2>
// resize_result: expected-error@+1 {{'tosa.resize' must yield 8 / 2 + 1 elements along dimension 1, got tensor<1x6x8x2xf32>}}
%0 = tosa.resize %x, %s, %o, %o {mode = BILINEAR} : (tensor<1x3x4x2xf32>, !tosa.shape<4>, !tosa.shape<2>, !tosa.shape<2>) -> tensor<1x6x8x2xf32>

// -----

%x = "test.op"() : () -> tensor<1x3x4x2xf32>
%s = tosa.const_shape {values = dense<[4, 2, 4, 0]> : tensor<4xindex>} : () -> !tosa.shape<4>
%o = tosa.const_shape {values = dense<0> : tensor<2xindex>} : () -> !tosa.shape<2>
// resize_scale: expected-error@+1 {{'tosa.resize' needs a scale of numbers of at least 1, got [4, 2, 4, 0]}}
%0 = tosa.resize %x, %s, %o, %o {mode = BILINEAR} : (tensor<1x3x4x2xf32>, !tosa.shape<4>, !tosa.shape<2>, !tosa.shape<2>) -> tensor<1x5x8x2xf32>

// -----

%x, %s, %o = "test.op"() : () -> (tensor<1x3x4x2xf32>, !tosa.shape<4>, !tosa.shape<2>)
// resize_mode: expected-error@+1 {{'tosa.resize' needs a mode of NEAREST_NEIGHBOR or BILINEAR, got CUBIC}}
%0 = "tosa.resize"(%x, %s, %o, %o) <{mode = "CUBIC"}> : (tensor<1x3x4x2xf32>, !tosa.shape<4>, !tosa.shape<2>, !tosa.shape<2>) -> tensor<1x6x8x2xf32>
