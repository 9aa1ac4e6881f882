// RUN: not qmlir-opt --npu-tile %s 2>&1 | filecheck %s
// CHECK: npu.layer "": rest must say memory, base, bytes and roles, got {memory = "act"}; run npu-cascade

builtin.module attributes {npu.device = "nmp"} {
  func.func @main(%z: tensor<1x4xi8>) -> tensor<1x4xi8> {
    %c = npu.layer "c" (%0 = %z : tensor<1x4xi8>) -> (tensor<1x4xi8>) attributes {stays = 0 : i64, rest = {memory = "act"}} {
      %1 = qint.requantize %0 {multiplier = array<i32: 1073741824>, shift = array<i32: -4>, contract = "shift", min = -128 : i32, max = 127 : i32} : tensor<1x4xi8> -> tensor<1x4xi8>
      npu.yield %1 : tensor<1x4xi8>
    }
    func.return %c : tensor<1x4xi8>
  }
}
