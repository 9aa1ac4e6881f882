// RUN: not qmlir-opt --npu-tile %s 2>&1 | filecheck %s
// CHECK: qint.layer_norm "norm": must have rows that fit the memories of post, got rows of 200000 and 200000 bytes for 163840 and 98304

builtin.module attributes {npu.device = "nmp"} {
  func.func @main(%x: tensor<2x200000xi8>) -> tensor<2x200000xi8> {
    %y = npu.layer "norm" (%a = %x : tensor<2x200000xi8>) -> (tensor<2x200000xi8>) {
      %s = qint.layer_norm %a {axis = 1 : i64, end = 2 : i64, multiplier = 1073741824 : i32, shift = 26 : i32, fraction = 8 : i32, epsilon = 7 : i64, min = -128 : i32, max = 127 : i32} : tensor<2x200000xi8> -> tensor<2x200000xi8>
      npu.yield %s : tensor<2x200000xi8>
    }
    func.return %y : tensor<2x200000xi8>
  }
}
