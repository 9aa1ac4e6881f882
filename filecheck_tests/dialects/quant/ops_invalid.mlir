// (Q6) of the casts, and how a refusal reads; tests/dialects/quant/test_ops.py refuses what (Q1) to (Q5) do.

// RUN: qmlir-opt --split-input-file --verify-diagnostics %s

%x = "test.op"() : () -> f32
// q1_dcast_operand: expected-error@+1 {{'quant.dcast' operand #0 must be scalar or tensor of quantized type, got f32}}
%0 = quant.dcast %x : f32 to f32

// -----

!q = !quant.uniform<i8:f32, 1.0>
%x = "test.op"() : () -> f32
// q6: expected-error@+1 {{'quant.qcast' qmlir.quantization must be one of exact, float32, float32_away, float32_reciprocal, exact_away, got float16}}
%0 = quant.qcast %x {qmlir.quantization = "float16"} : f32 to !q

// -----

!q = !quant.uniform<i8:f32, 1.0>
%x = "test.op"() : () -> !q
// q6_dequantized: expected-error@+1 {{'quant.dcast' qmlir.rest must be one of exact, float32_apart, got float32}}
%0 = quant.dcast %x {qmlir.quantization = "float32_apart", qmlir.rest = "float32"} : !q to f32

// -----

!q = !quant.uniform<i8:f32:0, {1.0, 2.0}>
%x = "test.op"() : () -> tensor<2xf32>
// q6_axis: expected-error@+1 {{'quant.qcast' qmlir.rest needs one scale for all elements, got !quant.uniform<i8:f32:0, {}}
%0 = quant.qcast %x {qmlir.rest = "exact_away"} : tensor<2xf32> to tensor<2x!q>
