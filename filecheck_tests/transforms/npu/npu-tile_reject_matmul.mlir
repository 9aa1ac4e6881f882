// RUN: not qmlir-opt --npu-tile %s 2>&1 | filecheck %s
// CHECK: qint.matmul "product": needs a queue that arranges matrices as weights (queue.arranges)

builtin.module attributes {npu.device = "gemmini"} {
  func.func @main(%x: tensor<8x4xi8>, %y: tensor<4x8xi8>) -> tensor<8x8xi8> {
    %p = npu.layer "product" (%0 = %x : tensor<8x4xi8>, %1 = %y : tensor<4x8xi8>) -> (tensor<8x8xi8>) {
      %2 = qint.matmul %0, %1 : tensor<8x4xi8>, tensor<4x8xi8> -> tensor<8x8xi32>
      %3 = qint.requantize %2 {multiplier = array<i32: 1073741824>, shift = array<i32: -3>, contract = "shift", min = -128 : i32, max = 127 : i32} : tensor<8x8xi32> -> tensor<8x8xi8>
      npu.yield %3 : tensor<8x8xi8>
    }
    func.return %p : tensor<8x8xi8>
  }
}
