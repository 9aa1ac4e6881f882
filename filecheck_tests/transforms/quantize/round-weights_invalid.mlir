// RUN: not qmlir-opt --round-weights %s 2>&1 | filecheck %s --check-prefix=NONE
// RUN: not qmlir-opt --apply-policy="settings={data=%s}" --round-weights %s 2>&1 | filecheck %s --check-prefix=TEXT
// RUN: not qmlir-opt --apply-policy="settings={data=%S/Inputs/samples.npy}" --round-weights %s 2>&1 | filecheck %s --check-prefix=SHAPE

// NONE: round-weights: needs data; give some before: --apply-policy="settings={data=samples.npy}"
// TEXT: must be a .npy or an .npz file
// SHAPE: must be float32[1, 3], got float32[1, 2]
func.func @main(%x: tensor<1x3xf32>) -> tensor<1x3xf32> {
  func.return %x : tensor<1x3xf32>
}
