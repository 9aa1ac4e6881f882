// RUN: qmlir-opt --batch-samples="most=8" --split-input-file --verify-diagnostics %s

func.func @main(%x: tensor<1x4xf32>) -> tensor<1x4xf32> {
  // expected-error @below {{nn.softmax "scores": must keep the samples of a batch apart, but works along the axis on which the samples lie}}
  %y = nn.softmax %x {axis = 0 : i64, qmlir.name = #qmlir.name<nodes ["scores"]>} : tensor<1x4xf32> -> tensor<1x4xf32>
  func.return %y : tensor<1x4xf32>
}

// -----

func.func @main(%x: tensor<1x4xf32>) -> tensor<1x1xf32> {
  %t = nn.transpose %x {permutation = array<i64: 1, 0>} : tensor<1x4xf32> -> tensor<4x1xf32>
  // expected-error @below {{must keep the samples of a batch apart, but sums over samples, or multiplies samples with each other}}
  %y = nn.matmul %x, %t : tensor<1x4xf32>, tensor<4x1xf32> -> tensor<1x1xf32>
  func.return %y : tensor<1x1xf32>
}

// -----

func.func @main(%x: tensor<1x4xf32>) -> tensor<4x1xf32> {
  %t = nn.transpose %x {permutation = array<i64: 1, 0>} : tensor<1x4xf32> -> tensor<4x1xf32>
  // expected-error @below {{output "output0": must have the samples of a batch along its first axis, one element for each, got axis 1 of [4, 1]}}
  func.return %t : tensor<4x1xf32>
}

// -----

// expected-error @unknown {{the network: must have an input that begins with a dimension of size 1, for the samples of a batch, got [4]}}
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  func.return %x : tensor<4xf32>
}

// -----

// expected-error @unknown {{the network: has states, which pass from one call to the next}}
func.func @main(%x: tensor<1x4xf32>, %s: tensor<1x4xf32> {qmlir.state = #qmlir.state<1>}) -> (tensor<1x4xf32>, tensor<1x4xf32>) {
  %y = nn.add %x, %s : tensor<1x4xf32>, tensor<1x4xf32> -> tensor<1x4xf32>
  func.return %y, %y : tensor<1x4xf32>, tensor<1x4xf32>
}

// -----

// A sum over the batch does nothing on one sample, and is gone: the import has noted it.
// expected-error @unknown {{nn.reduce_sum "total": must keep the samples of a batch apart, but works along the axis on which the samples lie}}
module attributes {qmlir.mixes_samples = "nn.reduce_sum \22total\22: must keep the samples of a batch apart, but works along the axis on which the samples lie"} {
  func.func @main(%x: tensor<1x4xf32>) -> tensor<1x4xf32> {
    func.return %x : tensor<1x4xf32>
  }
}
