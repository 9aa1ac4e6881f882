// RUN: not qmlir-opt --npu-tile %s 2>&1 | filecheck %s
// CHECK: npu.layer "c": must leave its result in the external memory: the device has no other for data and results

builtin.module attributes {npu.device = "vta"} {
  func.func @main(%z: tensor<1x4xi8>) -> tensor<1x4xi8> {
    %c = npu.layer "c" (%0 = %z : tensor<1x4xi8>) -> (tensor<1x4xi8>) attributes {stays = 0 : i64} {
      %1 = qint.requantize %0 {multiplier = array<i32: 1073741824>, shift = array<i32: -4>, contract = "shift", min = -128 : i32, max = 127 : i32} : tensor<1x4xi8> -> tensor<1x4xi8>
      npu.yield %1 : tensor<1x4xi8>
    }
    func.return %c : tensor<1x4xi8>
  }
}
