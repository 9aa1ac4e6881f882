// RUN: not qmlir-opt --apply-profile="file=%S/Inputs/relu.yaml" %s 2>&1 | filecheck %s --check-prefix=MISSING
// MISSING: error: {{.*}}relu.yaml: must be of this network, whose tensors "z" it lacks, got a profile of 2 tensors, "x", "r" ("z" is not there); profile this model, or accept what fits with partial=true

// RUN: qmlir-opt --apply-profile="file=%S/Inputs/relu.yaml partial=true" %s | filecheck %s --check-prefix=PARTIAL
// PARTIAL: calib.observe %x {name = "x", range = [-1.500000e+00 : f64, 6.000000e+00 : f64]
// PARTIAL: calib.observe %{{.*}} {name = "z"}

// RUN: not qmlir-opt --apply-profile="file=%S/Inputs/glow.yaml" %s 2>&1 | filecheck %s --check-prefix=GLOW
// GLOW: error: {{.*}}glow.yaml: must be of this network, whose tensors "z" it lacks, got a profile of 3 tensors, "x:0", "r:0", "conv_1__2:0" ("z" is not there)

// RUN: not qmlir-opt --apply-profile="file=%S/Inputs/other_relu.yaml partial=true" %s 2>&1 | filecheck %s --check-prefix=OTHER
// OTHER: error: {{.*}}other_relu.yaml: must be of this network, whose tensors "x", "z" it lacks, got a profile of 2 tensors, "x", "z" ("x" is computed in another way when it was profiled)

// RUN: qmlir-opt --apply-profile="file=%S/Inputs/other_relu.yaml by-name=true" %s | filecheck %s --check-prefix=NAME
// NAME: calib.observe %x {name = "x", range = [-1.500000e+00 : f64, 6.000000e+00 : f64]
// NAME: calib.observe %{{.*}} {name = "z", range = [0.000000e+00 : f64, 6.000000e+00 : f64]

// RUN: not qmlir-opt --apply-profile="file=%S/Inputs/swapped.yaml" %s 2>&1 | filecheck %s --check-prefix=SWAPPED
// SWAPPED: error: {{.*}}swapped.yaml:6:12: must be a whole profile, got a broken entry (tensor "x": range [6.0, -1.5] is not two finite numbers in order)

// RUN: not qmlir-opt --apply-profile="file=%S/Inputs/malformed.yaml" %s 2>&1 | filecheck %s --check-prefix=MALFORMED
// MALFORMED: error: {{.*}}malformed.yaml:6:3: must be a profile in YAML, got a mistake (did not find expected ',' or '}' while parsing a flow mapping)

// RUN: not qmlir-opt --apply-profile %s 2>&1 | filecheck %s --check-prefix=NONE
// NONE: error: apply-profile: needs a file; give one: --apply-profile="file=profile.yaml"

// RUN: not qmlir-opt --apply-profile="file=%S/Inputs/none.yaml" %s 2>&1 | filecheck %s --check-prefix=ABSENT
// ABSENT: error: {{.*}}none.yaml: must be a readable profile, got no such file or directory; write one with `qmlir profile`

func.func @main(%x: tensor<1x4xf32>) -> tensor<1x4xf32> {
  calib.observe %x {name = "x"} : tensor<1x4xf32>
  %0 = nn.relu %x : tensor<1x4xf32> -> tensor<1x4xf32>
  calib.observe %0 {name = "z"} : tensor<1x4xf32>
  func.return %0 : tensor<1x4xf32>
}
