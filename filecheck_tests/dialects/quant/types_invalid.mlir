// Where upstream rejects a quantized type, so do we, with a message that says at least as much.

// RUN: qmlir-opt --split-input-file --verify-diagnostics %s

// expected-error@+1 {{illegal storage type prefix: need i, u, si or ui and a width, or one of f8E5M2, f8E4M3FN, f4E2M1FN, got 'int8'}}
func.func private @prefix(!quant.uniform<int8:f32, 1.0>)

// -----

// expected-error@+1 {{illegal storage type size: 33; need 1 to 32 bits}}
func.func private @width(!quant.uniform<i33:f32, 1.0>)

// -----

// expected-error@+1 {{illegal storage type minimum: -9}}
func.func private @minimum(!quant.uniform<i4<-9:1>:f32, 1.0>)

// -----

// expected-error@+1 {{illegal storage type maximum: 9}}
func.func private @maximum(!quant.uniform<i4<-1:9>:f32, 1.0>)

// -----

// expected-error@+1 {{illegal storage min and storage max: (1:1)}}
func.func private @range(!quant.uniform<i8<1:1>:f32, 1.0>)

// -----

// expected-error@+1 {{expressed type must be floating point, got i32}}
func.func private @expressed(!quant.uniform<i8:i32, 1.0>)

// -----

// expected-error@+1 {{expected floating point literal}}
func.func private @integer_scale(!quant.uniform<i8:f32, 1:3>)

// -----

// expected-error@+1 {{scale out of expressed type range}}
func.func private @negative_scale(!quant.uniform<i8:f32, -1.0:3>)

// -----

// expected-error@+1 {{scale out of expressed type range [5.96046e-08, 65504], got 66000.0}}
func.func private @large_scale(!quant.uniform<i8:f16, 6.6e4>)

// -----

// expected-error@+1 {{scale out of expressed type range}}
func.func private @small_scale_on_an_axis(!quant.uniform<i8:f16:1, {2.0,5.8e-8}>)

// -----

// expected-error@+1 {{expected integer value}}
func.func private @zero_point(!quant.uniform<i8:f32, 0.1:x>)

// -----

// expected-error@+1 {{illegal quantized dimension: -1}}
func.func private @axis(!quant.uniform<i8:f32:-1, {2.0,3.0:1}>)

// -----

// expected-error@+1 {{expected floating point literal}}
func.func private @scales_without_axis(!quant.uniform<i8:f32, {2.0,3.0:1}>)

// -----

// expected-error@+1 {{expected '>'}}
func.func private @trailing(!quant.uniform<i8:f32, 1.0:3 4>)
