// RUN: not qmlir-opt --npu-tile %s 2>&1 | filecheck %s
// CHECK: nn.reshape "both": must be a layer that the device has commands for

// Another name for bytes is a layer of its own: what computes on it is the next.
builtin.module attributes {npu.device = "nmp"} {
  func.func @main(%x: tensor<1x4xi8>) -> tensor<2x2xi8> {
    %y = npu.layer "both" (%a = %x : tensor<1x4xi8>) -> (tensor<2x2xi8>) {
      %1 = nn.reshape %a {shape = array<i64: 2, 2>} : tensor<1x4xi8> -> tensor<2x2xi8>
      %2 = qint.requantize %1 {multiplier = array<i32: 1073741824>, shift = array<i32: -4>, contract = "shift", min = -128 : i32, max = 127 : i32} : tensor<2x2xi8> -> tensor<2x2xi8>
      npu.yield %2 : tensor<2x2xi8>
    }
    func.return %y : tensor<2x2xi8>
  }
}
