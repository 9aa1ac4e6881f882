// RUN: qmlir-opt --lower-quant-ops --split-input-file --verify-diagnostics %s

// A zero point outside the storage type is a good type, and no constant of that type.
!q = !quant.uniform<i8:f32, 2.0:300>
%x = "test.op"() : () -> f32
// zero_point: expected-error@+1 {{zero points must lie in the storage type's range [-128, 127], got 300; choose a wider storage type}}
%0 = quant.qcast %x : f32 to !q

// -----

!q = !quant.uniform<u8:f32:0, {2.0:255, 3.0:-1}>
%x = "test.op"() : () -> tensor<2x!q>
// zero_points: expected-error@+1 {{zero points must lie in the storage type's range [0, 255], got -1; choose a wider storage type}}
%0 = quant.dcast %x : tensor<2x!q> to tensor<2xf32>

// -----

!q = !quant.any<i8:f32>
%x = "test.op"() : () -> tensor<2x!q>
// no_scale: expected-error@+1 {{the quantized type must have scales, and integers as storage, got !quant.any<i8:f32>; use !quant.uniform}}
%0 = quant.dcast %x : tensor<2x!q> to tensor<2xf32>

// -----

!q = !quant.uniform<f8E5M2:f32, 2.0>
%x = "test.op"() : () -> tensor<2xf32>
// small_float: expected-error@+1 {{the quantized type must have scales, and integers as storage, got !quant.uniform<f8E5M2:f32, 2.000000e+00>; use !quant.uniform}}
%0 = quant.qcast %x : tensor<2xf32> to tensor<2x!q>
