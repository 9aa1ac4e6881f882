// RUN: not qmlir-opt --npu-fuse %s 2>&1 | filecheck %s

func.func @main() {
  func.return
}
// CHECK: must name its device in npu.device, got none; run qint-to-npu first
