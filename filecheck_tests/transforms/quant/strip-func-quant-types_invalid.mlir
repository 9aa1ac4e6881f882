// RUN: qmlir-opt --strip-func-quant-types --allow-unregistered-dialect --split-input-file --verify-diagnostics %s

!q = !quant.uniform<i8:f32, 0.5>

func.func private @callee(tensor<4x!q>)
func.func @value() {
  // expected-error@+1 {{strip-func-quant-types: functions on quantized types must not be values, got (tensor<4x!quant.uniform<i8:f32, 5.000000e-01>>) -> (); call functions by name}}
  %0 = "test.function_value"() : () -> ((tensor<4x!q>) -> ())
  func.return
}

// -----

// expected-error@unknown {{strip-func-quant-types: quantized types of function calibrated must be stored as integers, got tensor<4x!quant.calibrated<f32<-1.000000e+00:1.000000e+00>>>; use !quant.uniform with integer storage}}
func.func private @calibrated(tensor<4x!quant.calibrated<f32<-1.0:1.0>>>)

// -----

// expected-error@unknown {{strip-func-quant-types: quantized types of function small_float must be stored as integers, got !quant.uniform<f8E5M2:f32, 2.000000e+00>; use !quant.uniform with integer storage}}
func.func private @small_float() -> !quant.uniform<f8E5M2:f32, 2.0>
