// What calls of operators that a program defines refuse.

// RUN: qmlir-opt --split-input-file --verify-diagnostics %s

%x = "test.op"() : () -> tensor<?xf32>
// t1_dynamic: expected-error@+1 {{'custom.call' needs static shapes, got tensor<?xf32>}}
%0 = custom.call "mine" "Swirl"(%x) {attributes = {}} : (tensor<?xf32>) -> tensor<2xf32>

// -----

%x = "test.op"() : () -> tensor<2x!quant.uniform<i8:f32, 0.5>>
// quantized: expected-error@+1 {{'custom.call' takes plain tensors, got}}
%0 = custom.call "mine" "Swirl"(%x) {attributes = {}} : (tensor<2x!quant.uniform<i8:f32, 0.5>>) -> tensor<2xf32>

// -----

%x = "test.op"() : () -> tensor<2xf32>
// symbol_without_numbers: expected-error@+1 {{'custom.call' has a symbol and numbers, or neither}}
%0 = custom.call "mine" "Swirl"(%x) {attributes = {}, symbol = "swirl"} : (tensor<2xf32>) -> tensor<2xf32>

// -----

%x = "test.op"() : () -> tensor<2xf32>
// symbol: expected-error@+1 {{'custom.call' needs a symbol that is a name in C, got "a-b"}}
%0 = custom.call "mine" "Swirl"(%x) {attributes = {}, symbol = "a-b", numbers = []} : (tensor<2xf32>) -> tensor<2xf32>
