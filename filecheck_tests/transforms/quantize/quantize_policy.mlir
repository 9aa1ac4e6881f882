// One layer in int16, another in floats: what a policy says, and what becomes of it.

// RUN: qmlir-opt --quantize="policy=%S/Inputs/mixed.yaml" %s | filecheck %s
// RUN: qmlir-opt --quantize="rules={name=dense1 precision=int16 weight-precision=int8; name=dense2 keep-float=true}" %s | filecheck %s
// RUN: qmlir-opt --apply-policy="file=%S/Inputs/mixed.yaml" --quantize %s | filecheck %s
// RUN: not qmlir-opt --quantize="policy=%S/Inputs/mixed.yaml fail-on-float=true" %s 2>&1 | filecheck %s --check-prefix=FAIL
// RUN: not qmlir-opt --quantize="rules={name=dense1 precision=int16; name=dense3 keep-float=true}" %s 2>&1 | filecheck %s --check-prefix=NONE
// RUN: not qmlir-opt --quantize="rules={kind=relu calibration=percentil}" %s 2>&1 | filecheck %s --check-prefix=VALUE
// RUN: not qmlir-opt --quantize="rules={name=late precision=int16}" %s 2>&1 | filecheck %s --check-prefix=RANGE
// RUN: not qmlir-opt --quantize="schema=symmetric_with_uint8 policy=%S/Inputs/policy.yaml" %s 2>&1 | filecheck %s --check-prefix=CONFLICT

// CHECK: nn.fully_connected {{.*}}qmlir.policy = {precision = "int16", weight_precision = "int8"}, qmlir.decision = #qmlir.decision<quantized, "integer", "i16 activations, i8 weights per channel">{{.*}} -> tensor<1x2x!quant.uniform<i16:f32, {{.*}}>>
// CHECK: nn.relu {{.*}}#qmlir.decision<quantized, "integer", "i8 activations">
// CHECK: quant.dcast
// CHECK: nn.fully_connected {{.*}}qmlir.policy = {keep_float = true}, qmlir.decision = #qmlir.decision<float, "policy", "the policy keeps it in floats">} : {{.*}} -> tensor<1x2xf32>

// FAIL: error: {{.*}}quantize: must leave no operation float, got 2 (nn.fully_connected "dense2": the policy keeps it in floats; nn.relu "late": {{.*}})
// NONE: error: {{.*}}rule "name=dense3 keep-float=true": must match an operation or a tensor by name, got dense3; did you mean dense
// VALUE: error: {{.*}}rule "kind=relu calibration=percentil": must be one of {{.*}}, got percentil; did you mean percentile?
// RANGE: error: {{.*}}rule "name=late precision=int16": nn.relu "late" cannot have precision int16: no range is known for "late"; drop the rule, or say something else in it
// CONFLICT: error: schema: must not contradict the policy's default, symmetric, got symmetric_with_uint8

func.func @main(%x: tensor<1x2xf32>) -> tensor<1x2xf32> {
  calib.observe %x {name = "x", range = [-1.0, 1.0]} : tensor<1x2xf32>
  %w = nn.constant <tensor<2x2xf32>, [1.0, 0.5, 0.25, -0.75]> : tensor<2x2xf32>
  %0 = nn.fully_connected %x, %w {qmlir.name = #qmlir.name<nodes ["dense1"], tensors ["h"]>} : tensor<1x2xf32>, tensor<2x2xf32> -> tensor<1x2xf32>
  calib.observe %0 {name = "h", range = [-1.5, 1.5]} : tensor<1x2xf32>
  %1 = nn.relu %0 {qmlir.name = #qmlir.name<tensors ["r"]>} : tensor<1x2xf32> -> tensor<1x2xf32>
  calib.observe %1 {name = "r", range = [0.0, 1.5]} : tensor<1x2xf32>
  %2 = nn.fully_connected %1, %w {qmlir.name = #qmlir.name<nodes ["dense2"], tensors ["y"]>} : tensor<1x2xf32>, tensor<2x2xf32> -> tensor<1x2xf32>
  calib.observe %2 {name = "y", range = [-1.5, 1.5]} : tensor<1x2xf32>
  %3 = nn.relu %2 {qmlir.name = #qmlir.name<tensors ["late"]>} : tensor<1x2xf32> -> tensor<1x2xf32>
  func.return %3 : tensor<1x2xf32>
}
