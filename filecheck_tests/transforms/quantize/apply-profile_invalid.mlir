// RUN: not qmlir-opt --apply-profile="file=%S/Inputs/relu.yaml" %s 2>&1 | filecheck %s --check-prefix=MISSING
// MISSING: error: {{.*}}relu.yaml: must be of this network, whose tensors "z" it lacks, got a profile of 2 tensors, "x", "r"; profile this model, or accept what fits with partial=true

// RUN: qmlir-opt --apply-profile="file=%S/Inputs/relu.yaml partial=true" %s | filecheck %s --check-prefix=PARTIAL
// PARTIAL: calib.observe %x {name = "x", range = [-1.500000e+00 : f64, 6.000000e+00 : f64]}
// PARTIAL: calib.observe %{{.*}} {name = "z"}

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
