// RUN: not qmlir-opt --correct-bias %s 2>&1 | filecheck %s --check-prefix=NONE
// RUN: not qmlir-opt --correct-bias="data=%s" %s 2>&1 | filecheck %s --check-prefix=TEXT
// RUN: not qmlir-opt --correct-bias="data=%S/Inputs/samples.npy" %s 2>&1 | filecheck %s --check-prefix=SHAPE

// NONE: correct-bias: needs data; give some: --correct-bias="data=samples.npy"
// TEXT: must be a .npy or an .npz file
// SHAPE: must be float32[1, 3], got float32[1, 2]
func.func @main(%x: tensor<1x3xf32>) -> tensor<1x3xf32> {
  func.return %x : tensor<1x3xf32>
}
