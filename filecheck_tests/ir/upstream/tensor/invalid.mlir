// RUN: qmlir-opt --split-input-file --verify-diagnostics %s

%x, %s = "test.op"() : () -> (tensor<*xf32>, tensor<1xindex>)
// reshape_c1: expected-error@+1 {{element types of source and destination tensor types should be the same: got f32 and i32}}
%0 = tensor.reshape %x(%s) : (tensor<*xf32>, tensor<1xindex>) -> tensor<?xi32>

// -----

%x, %s = "test.op"() : () -> (tensor<*xf32>, tensor<1x1xindex>)
// reshape_c2_rank: expected-error@+1 {{the shape must be a 1-D tensor, got tensor<1x1xindex>}}
%0 = tensor.reshape %x(%s) : (tensor<*xf32>, tensor<1x1xindex>) -> tensor<?xf32>

// -----

%x, %s = "test.op"() : () -> (tensor<*xf32>, tensor<?xindex>)
// reshape_c2_dynamic: expected-error@+1 {{cannot use shape operand with dynamic length to reshape to statically-ranked tensor}}
%0 = tensor.reshape %x(%s) : (tensor<*xf32>, tensor<?xindex>) -> tensor<?xf32>

// -----

%x, %s = "test.op"() : () -> (tensor<*xf32>, tensor<2xindex>)
// reshape_c2_length: expected-error@+1 {{length of shape operand differs from the result's tensor rank: got 2 and 1}}
%0 = tensor.reshape %x(%s) : (tensor<*xf32>, tensor<2xindex>) -> tensor<?xf32>

// -----

%x, %s = "test.op"() : () -> (tensor<2x3xf32>, tensor<1xindex>)
// reshape_c3: expected-error@+1 {{source and destination tensor should have the same number of elements: got 6 and 5}}
%0 = tensor.reshape %x(%s) : (tensor<2x3xf32>, tensor<1xindex>) -> tensor<5xf32>
