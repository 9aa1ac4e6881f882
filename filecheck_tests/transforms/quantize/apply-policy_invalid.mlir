// RUN: not qmlir-opt --apply-policy %s 2>&1 | filecheck %s --check-prefix=NONE
// NONE: error: apply-policy: needs a file or rules; give one: --apply-policy="file=net.yaml"

// Rules that match nothing.

// RUN: not qmlir-opt --apply-policy="rules={name=conv precision=int16}" %s 2>&1 | filecheck %s --check-prefix=NAME
// NAME: error: rule "name=conv precision=int16": must match an operation or a tensor by name, got conv; did you mean conv1?
// RUN: not qmlir-opt --apply-policy="rules={glob=convs* precision=int16}" %s 2>&1 | filecheck %s --check-prefix=GLOB
// GLOB: error: rule "glob=convs* precision=int16": must match an operation or a tensor by glob, got convs*; did you mean conv1?
// RUN: not qmlir-opt --apply-policy="rules={kind=conv3d precision=int16}" %s 2>&1 | filecheck %s --check-prefix=KIND
// KIND: error: rule "kind=conv3d precision=int16": must match an operation or a tensor by kind, got conv3d; did you mean conv2d?
// RUN: not qmlir-opt --apply-policy="rules={name=conv1 kind=softmax precision=int16}" %s 2>&1 | filecheck %s --check-prefix=BOTH
// BOTH: error: rule "name=conv1 kind=softmax precision=int16": must match an operation or a tensor by all it says, got name: conv1, kind: softmax
// RUN: not qmlir-opt --apply-policy="rules={between=image,featurs keep-float=true}" %s 2>&1 | filecheck %s --check-prefix=TENSOR
// TENSOR: error: rule "between=image,featurs keep-float=true": must be between tensors of the network, got featurs; did you mean features?
// RUN: not qmlir-opt --apply-policy="rules={between=features,image keep-float=true}" %s 2>&1 | filecheck %s --check-prefix=BETWEEN
// BETWEEN: error: rule "between=features,image keep-float=true": must match an operation or a tensor by between, got features to image

// Rules that cannot be honoured.

// RUN: not qmlir-opt --apply-policy="rules={kind=cumulative_product precision=int16}" %s 2>&1 | filecheck %s --check-prefix=TARGET
// TARGET: error: {{.*}}rule "kind=cumulative_product precision=int16": nn.cumulative_product "unit" cannot have precision int16: {{.*}}; drop the rule
// RUN: not qmlir-opt --apply-policy="rules={name=probs range=0,2}" %s 2>&1 | filecheck %s --check-prefix=FIXED
// FIXED: error: {{.*}}rule "name=probs range=0,2": nn.softmax "probs" cannot have range (0.0, 2.0): the function itself fixes its range
// RUN: not qmlir-opt --apply-policy="rules={name=probs per-channel=false}" %s 2>&1 | filecheck %s --check-prefix=WEIGHTS
// WEIGHTS: error: {{.*}}rule "name=probs per-channel=false": nn.softmax "probs" cannot have per-channel False: it has no weights, so no per-channel
// RUN: not qmlir-opt --apply-policy="rules={name=conv1 bias=int16}" %s 2>&1 | filecheck %s --check-prefix=BIAS
// BIAS: error: {{.*}}rule "name=conv1 bias=int16": nn.conv2d "conv1" cannot have bias int16: it has no bias
// RUN: not qmlir-opt --apply-policy="rules={name=image keep-float=true}" %s 2>&1 | filecheck %s --check-prefix=INPUT
// INPUT: error: {{.*}}rule "name=image keep-float=true": input "image" cannot have keep-float True: it is an input of the network, which has no keep-float
// RUN: not qmlir-opt --apply-policy="rules={name=conv1 precision=uint8 schema=symmetric}" %s 2>&1 | filecheck %s --check-prefix=SCHEMA
// SCHEMA: error: {{.*}}rule "name=conv1 precision=uint8 schema=symmetric": nn.conv2d "conv1" cannot have precision uint8, schema symmetric: schema symmetric needs signed integers, got uint8
// RUN: not qmlir-opt --apply-policy="rules={name=conv1 keep-float=true precision=int8}" %s 2>&1 | filecheck %s --check-prefix=FLOAT
// FLOAT: error: {{.*}}rule "name=conv1 keep-float=true precision=int8": nn.conv2d "conv1" cannot have keep-float True, precision int8: what stays float has no precision
// RUN: not qmlir-opt --apply-policy="rules={name=conv1 parameters=0.5,128}" %s 2>&1 | filecheck %s --check-prefix=ZERO
// ZERO: error: {{.*}}rule "name=conv1 parameters=0.5,128": nn.conv2d "conv1" cannot have parameters (0.5, 128): zero point 128 is no int8, which is -128 to 127
// RUN: not qmlir-opt --apply-policy="rules={name=conv1 schema=symmetric parameters=0.5,1}" %s 2>&1 | filecheck %s --check-prefix=SYMMETRIC
// SYMMETRIC: error: {{.*}}schema symmetric has zero point 0
// RUN: not qmlir-opt --apply-policy="rules={name=conv1 schema=symmetric_with_power2_scale parameters=0.3,0}" %s 2>&1 | filecheck %s --check-prefix=POWER
// POWER: error: {{.*}}schema symmetric_with_power2_scale has scales that are powers of two
// RUN: not qmlir-opt --apply-policy="rules={name=conv1 parameters=0.3,0; name=conv1 range=0,1 precision=int8}" %s 2>&1 | filecheck %s --check-prefix=TWICE
// TWICE: error: {{.*}}rule "name=conv1 range=0,1 precision=int8": {{.*}}it has a fixed range and fixed parameters, of which one has to go

// Files: where in them.

// RUN: not qmlir-opt --apply-policy="file=%S/Inputs/policy_typo.yaml" %s 2>&1 | filecheck %s --check-prefix=TYPO
// TYPO: error: {{.*}}policy_typo.yaml:3:19: there is no such setting, got precison; did you mean precision
// RUN: not qmlir-opt --apply-policy="file=%S/Inputs/policy_malformed.yaml" %s 2>&1 | filecheck %s --check-prefix=MALFORMED
// MALFORMED: error: {{.*}}policy_malformed.yaml:3:1: must be a policy in YAML, got a mistake
// RUN: not qmlir-opt --apply-policy="file=%S/Inputs/policy_unmatched.yaml" %s 2>&1 | filecheck %s --check-prefix=UNMATCHED
// UNMATCHED: error: {{.*}}policy_unmatched.yaml:3:5: must match an operation or a tensor by name, got conv2; did you mean conv1?

func.func @main(%image: tensor<1x2x2x1xf32> {qmlir.name = #qmlir.name<tensors ["image"]>}) -> tensor<1x2x2x1xf32> {
  %w = nn.constant <tensor<1x1x1x1xf32>, [0.5]> : tensor<1x1x1x1xf32>
  %0 = nn.conv2d %image, %w {qmlir.name = #qmlir.name<nodes ["conv1"], tensors ["features"]>} : tensor<1x2x2x1xf32>, tensor<1x1x1x1xf32> -> tensor<1x2x2x1xf32>
  %1 = nn.softmax %0 {axis = 3 : i64, qmlir.name = #qmlir.name<tensors ["probs"]>} : tensor<1x2x2x1xf32> -> tensor<1x2x2x1xf32>
  %2 = nn.cumulative_product %1 {axis = 1 : i64, qmlir.name = #qmlir.name<tensors ["unit"]>} : tensor<1x2x2x1xf32> -> tensor<1x2x2x1xf32>
  func.return %2 : tensor<1x2x2x1xf32>
}
