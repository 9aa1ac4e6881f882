// Where upstream rejects one of its further types, so do we.

// RUN: qmlir-opt --split-input-file --verify-diagnostics %s

// expected-error@+1 {{expected '{'}}
func.func private @blocks_without_braces(!quant.uniform<u8:f32:{0:1}, 1.0>)

// -----

// expected-error@+1 {{illegal quantized dimension: -1}}
func.func private @negative_block_axis(!quant.uniform<u8:f32:{-1:1}, {1.0}>)

// -----

// expected-error@+1 {{illegal block size: 0}}
func.func private @empty_block(!quant.uniform<u8:f32:{0:0}, {1.0}>)

// -----

// expected-error@+1 {{tensor literal is invalid; ranks are not consistent between elements}}
func.func private @ragged_scales(!quant.uniform<u8:f32:{0:1}, {{1.0,2.0}, {3.0}}>)

// -----

// expected-error@+1 {{tensor literal is invalid; ranks are not consistent between elements}}
func.func private @mixed_scales(!quant.uniform<u8:f32:{0:1}, {1.0, {3.0}}>)

// -----

// expected-error@+1 {{scale out of expressed type range [5.96046e-08, 65504], got 66000.0}}
func.func private @block_scale(!quant.uniform<u8:f16:{0:1}, {{1.0}, {6.6e4}}>)

// -----

// expected-error@+1 {{zero point 256 must match the storage type ui8}}
func.func private @block_zero_point(!quant.uniform<u8:f32:{0:1}, {1.0:256}>)

// -----

// expected-error@+1 {{sub-channel quantization needs integers as storage, got f8E5M2}}
func.func private @blocks_of_floats(!quant.uniform<f8E5M2:f32:{0:1}, {1.0}>)

// -----

// expected-error@+1 {{illegal storage type maximum: 449}}
func.func private @float_maximum(!quant.uniform<f8E4M3FN<-448:449>:f32, 1.0>)

// -----

// expected-error@+1 {{illegal storage type minimum: -7}}
func.func private @float_minimum(!quant.uniform<f4E2M1FN<-7:6>:f32, 1.0>)

// -----

// expected-error@+1 {{illegal storage type prefix}}
func.func private @no_storage(!quant.uniform<f16:f32, 1.0>)

// -----

// expected-error@+1 {{expressed type must be floating point of at most 64 bits, got f80}}
func.func private @wide_expressed(!quant.uniform<i8:f80, 1.0>)

// -----

// expected-error@+1 {{expected '>'}}
func.func private @any_colon(!quant.any<i8<-4:3>f32>)

// -----

// expected-error@+1 {{illegal storage type prefix}}
func.func private @any_prefix(!quant.any<int8<-4:3>:f32>)

// -----

// expected-error@+1 {{illegal storage min and storage max: (2:1)}}
func.func private @any_range(!quant.any<i8<2:1>:f32>)

// -----

// expected-error@+1 {{expressed type must be floating point, got i32}}
func.func private @any_expressed(!quant.any<i8:i32>)

// -----

// expected-error@+1 {{calibrated values must be present: expected ':'}}
func.func private @calibrated_maximum(!quant.calibrated<f32<-0.998>>)

// -----

// expected-error@+1 {{calibrated values must be present: expected floating point literal}}
func.func private @calibrated_integers(!quant.calibrated<f32<-1:1>>)

// -----

// expected-error@+1 {{invalid kind of type specified: expecting float expressed type, got i8}}
func.func private @calibrated_type(!quant.calibrated<i8<-4.0:3.0>>)

// -----

// expected-error@+1 {{illegal min and max: (1.000000e+00:-1.000000e+00)}}
func.func private @calibrated_range(!quant.calibrated<f32<1.0:-1.0>>)

// -----

// expected-error@+1 {{illegal min and max: (nan:1.000000e+00)}}
func.func private @calibrated_nan(!quant.calibrated<f32<0x7FF8000000000000:1.0>>)

// -----

!blocks = !quant.uniform<u8:f32:{0:1, 1:2}, {{1.0, 2.0}, {3.0, 4.0}}>
%x = "test.op"() : () -> f32
// q5_scalar: expected-error@+1 {{'quant.qcast' scalar types may not use sub-channel quantization}}
%0 = quant.qcast %x : f32 to !blocks

// -----

!blocks = !quant.uniform<u8:f32:{0:1, 1:2}, {{1.0, 2.0}, {3.0, 4.0}}>
%x = "test.op"() : () -> tensor<*xf32>
// q5_unranked: expected-error@+1 {{'quant.qcast' tensor containing the sub-channel quantized type must be ranked}}
%0 = quant.qcast %x : tensor<*xf32> to tensor<*x!blocks>

// -----

!blocks = !quant.uniform<u8:f32:{0:1, 3:2}, {{1.0, 2.0}, {3.0, 4.0}}>
%x = "test.op"() : () -> tensor<2x4xf32>
// q5_axis: expected-error@+1 {{'quant.qcast' quantized dimension 3 must be less than tensor rank 2}}
%0 = quant.qcast %x : tensor<2x4xf32> to tensor<2x4x!blocks>

// -----

!blocks = !quant.uniform<u8:f32:{0:1, 1:3}, {{1.0, 2.0}, {3.0, 4.0}}>
%x = "test.op"() : () -> tensor<2x4xf32>
// q5_divisible: expected-error@+1 {{'quant.qcast' tensor dimension size 4 at axis 1 must be divisible by the corresponding block size 3}}
%0 = quant.qcast %x : tensor<2x4xf32> to tensor<2x4x!blocks>

// -----

!blocks = !quant.uniform<u8:f32:{1:2}, {{1.0, 2.0}, {3.0, 4.0}}>
%x = "test.op"() : () -> tensor<0x4xf32>
// q5_zero: expected-error@+1 {{'quant.qcast' tensor dimension size of zero is not allowed with sub-channel quantization}}
%0 = quant.qcast %x : tensor<0x4xf32> to tensor<0x4x!blocks>

// -----

!blocks = !quant.uniform<u8:f32:{0:1, 1:2}, {{1.0, 2.0}, {3.0, 4.0}}>
%x = "test.op"() : () -> tensor<2x6xf32>
// q5_count: expected-error@+1 {{'quant.qcast' dimension size 2 of scales tensor at axis 1 should match (tensor dimension at axis / block sizes at axis) = 3}}
%0 = quant.qcast %x : tensor<2x6xf32> to tensor<2x6x!blocks>

// -----

!blocks = !quant.uniform<u8:f32:{1:2}, {{1.0, 2.0}, {3.0, 4.0}}>
%x = "test.op"() : () -> tensor<2x4xf32>
// q5_one_block: expected-error@+1 {{'quant.qcast' dimension size 2 of scales tensor at axis 0 should match (tensor dimension at axis / block sizes at axis) = 1}}
%0 = quant.qcast %x : tensor<2x4xf32> to tensor<2x4x!blocks>

// -----

!blocks = !quant.uniform<u8:f32:{0:1, 1:2}, {{1.0, 2.0}, {3.0, 4.0}}>
%x = "test.op"() : () -> tensor<2x4x1xf32>
// q5_rank: expected-error@+1 {{'quant.qcast' Rank of scales 2 must match the rank of the tensor 3}}
%0 = quant.qcast %x : tensor<2x4x1xf32> to tensor<2x4x1x!blocks>

// -----

%x = "test.op"() : () -> !quant.uniform<f8E5M2:f32, 2.0>
// q4_float_storage: expected-error@+1 {{storage type in quantized type expected to match integer type: got f8E5M2 and i8}}
%0 = quant.scast %x : !quant.uniform<f8E5M2:f32, 2.0> to i8

// -----

%x = "test.op"() : () -> !quant.calibrated<f32<0.0:1.0>>
// q4_calibrated_storage: expected-error@+1 {{storage type in quantized type expected to match integer type: got none and i8}}
%0 = quant.scast %x : !quant.calibrated<f32<0.0:1.0>> to i8

// -----

%x = "test.op"() : () -> !quant.any<i8>
// q4_any_expressed: expected-error@+1 {{expressed type in quantized type expected to match float type: got none and f32}}
%0 = quant.dcast %x : !quant.any<i8> to f32
