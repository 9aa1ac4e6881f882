// RUN: not qmlir-opt --qint-to-npu=device=gemmini --split-input-file %s 2>&1 | filecheck %s

// CHECK: qint-to-npu: gemmini must compute some operation of the network, got none of them (qint.requantize: scales change by the contract float_even, got shift (quant.round)); quantize the network for the device
func.func @main(%x: tensor<1x4xi8>) -> tensor<1x4xi8> {
  %y = qint.requantize %x {multiplier = array<i32: 1073741824>, shift = array<i32: -4>, contract = "shift", min = -128 : i32, max = 127 : i32} : tensor<1x4xi8> -> tensor<1x4xi8>
  func.return %y : tensor<1x4xi8>
}

// -----

// Movement alone is no success.
// CHECK: gemmini must compute some operation of the network, got none of them (nn.transpose: it moves data that no operation of the device reads or writes)
func.func @main(%x: tensor<1x4xi8>) -> tensor<4x1xi8> {
  %y = nn.transpose %x {permutation = array<i64: 1, 0>} : tensor<1x4xi8> -> tensor<4x1xi8>
  func.return %y : tensor<4x1xi8>
}
