// RUN: qmlir-opt --split-input-file --verify-diagnostics %s

%x = "test.op"() : () -> tensor<*xf32>
// shape_of_c1: expected-error@+1 {{'shape.shape_of' result must be a 1-D tensor of index, got tensor<2x2xindex>}}
%0 = shape.shape_of %x : tensor<*xf32> -> tensor<2x2xindex>

// -----

%s = "test.op"() : () -> tensor<index>
// num_elements_c1: expected-error@+1 {{'shape.num_elements' shape must be a 1-D tensor of index, got tensor<index>}}
%0 = shape.num_elements %s : tensor<index> -> index

// -----

%s, %i = "test.op"() : () -> (tensor<?xindex>, index)
// split_at_c1: expected-error@+1 {{'shape.split_at' tail must be a 1-D tensor of index, got tensor<index>}}
%0, %1 = "shape.split_at"(%s, %i) : (tensor<?xindex>, index) -> (tensor<?xindex>, tensor<index>)
