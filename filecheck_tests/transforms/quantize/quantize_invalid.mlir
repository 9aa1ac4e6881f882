// Nothing to go by: the error says what would help.

// RUN: not qmlir-opt --quantize --split-input-file %s 2>&1 | filecheck %s
// RUN: not qmlir-opt --quantize="profile=none.yaml" --split-input-file %s 2>&1 | filecheck %s --check-prefix=PROFILE
// RUN: not qmlir-opt --quantize="schema=symetric" %s 2>&1 | filecheck %s --check-prefix=SCHEMA

// CHECK: error: quantize: needs ranges: at least one calib.observe with a range, got no observers; profile the network and give profile=FILE, or run --insert-observers and --apply-profile first, or write ranges into the IR
// CHECK-NEXT: error: quantize: needs ranges: at least one calib.observe with a range, got 1 observers, none with a range;
// PROFILE: error: none.yaml: must be a readable profile, got no such file or directory
// SCHEMA: error: {{.*}}symetric{{.*}}symmetric
func.func @no_observer(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = nn.relu %x : tensor<4xf32> -> tensor<4xf32>
  func.return %0 : tensor<4xf32>
}

// -----

func.func @no_range(%x: tensor<4xf32>) -> tensor<4xf32> {
  calib.observe %x {name = "x"} : tensor<4xf32>
  %0 = nn.relu %x : tensor<4xf32> -> tensor<4xf32>
  func.return %0 : tensor<4xf32>
}
