// RUN: qmlir-opt --split-input-file --verify-diagnostics %s

// contents_fill_the_buffer: expected-error@+1 {{'npu.buffer' of 8 bytes must hold as many, got 4}}
%c = npu.buffer "dram" 8 {role = "weights", contents = #qmlir.weights<tensor<4xi8>, [1, 2, 3, 4]>} : !npu.buffer

// -----

// no_such_command: expected-error@+1 {{there is no command mov; known: set-context, sync,}}
npu.issue "load" "mov" source = 0

// -----

// fields_in_order: expected-error@+1 {{barrier}}
npu.issue "load" "sync" after "exec" 1

// -----

%c = npu.buffer "dram" 4 {role = "bias"} : !npu.buffer
// no_such_value: expected-error@+1 {{step must be one of requantize, lookup, got look}}
npu.issue "post" "set-context" ctx = 3 step = look bits = 8
