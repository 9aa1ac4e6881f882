// RUN: qmlir-opt --strip-func-quant-types --allow-unregistered-dialect --split-input-file --verify-diagnostics %s

!q = !quant.uniform<i8:f32, 0.5>

func.func private @callee(tensor<4x!q>)
func.func @value() {
  // expected-error@+1 {{strip-func-quant-types: functions on quantized types must not be values, got (tensor<4x!quant.uniform<i8:f32, 5.000000e-01>>) -> (); call functions by name}}
  %0 = "test.function_value"() : () -> ((tensor<4x!q>) -> ())
  func.return
}
