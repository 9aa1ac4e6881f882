// RUN: not qmlir-opt --npu-fit --npu-tile --npu-place %s 2>&1 | filecheck %s

// What no stripes help, an input and an output that are there as a whole, is named where addresses are given.
builtin.module attributes {npu.device = "ethos-u55-like"} {
  func.func @main(%x: tensor<1x256x512x8xi8>) -> tensor<1x256x512x8xi8> {
    %a = npu.layer "a" (%0 = %x : tensor<1x256x512x8xi8>) -> (tensor<1x256x512x8xi8>) {
      %1 = qint.requantize %0 {multiplier = array<i32: 1073741824>, shift = array<i32: -4>, contract = "single", min = -128 : i32, max = 127 : i32} : tensor<1x256x512x8xi8> -> tensor<1x256x512x8xi8>
      npu.yield %1 : tensor<1x256x512x8xi8>
    }
    %b = npu.layer "b" (%0 = %a : tensor<1x256x512x8xi8>) -> (tensor<1x256x512x8xi8>) {
      %1 = qint.requantize %0 {multiplier = array<i32: 1073741824>, shift = array<i32: -4>, contract = "single", min = -128 : i32, max = 127 : i32} : tensor<1x256x512x8xi8> -> tensor<1x256x512x8xi8>
      npu.yield %1 : tensor<1x256x512x8xi8>
    }
    func.return %b : tensor<1x256x512x8xi8>
  }
}
// CHECK: npu-place: tensors must fit the 1835008 bytes that the memory sram has for them, got 2{{[0-9]*}} bytes; {{.*}}input0 1048576
