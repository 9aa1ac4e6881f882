// RUN: not qmlir-opt --npu-tile %s 2>&1 | filecheck %s
// CHECK: error: the module: must name its device in npu.device, got none; run qint-to-npu first

builtin.module {
  func.func @main(%x: tensor<1x4xi8>) -> tensor<1x4xi8> {
    func.return %x : tensor<1x4xi8>
  }
}
