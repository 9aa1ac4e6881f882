// RUN: not qmlir-opt --npu-tile %s 2>&1 | filecheck %s
// CHECK: qint.depthwise_conv2d "twice": must have one output channel for each input channel, got 4 for 2

builtin.module attributes {npu.device = "nmp"} {
  func.func @main(%x: tensor<1x4x4x2xi8>) -> tensor<1x4x4x4xi8> {
    %y = "npu.layer"(%x) <{label = "twice"}> ({
    ^bb0(%a: tensor<1x4x4x2xi8>):
      %w = nn.constant <tensor<1x1x1x4xi8>, [1, 2, 3, 4]> : tensor<1x1x1x4xi8>
      %s = qint.depthwise_conv2d %a, %w : tensor<1x4x4x2xi8>, tensor<1x1x1x4xi8> -> tensor<1x4x4x4xi32>
      %r = qint.requantize %s {multiplier = array<i32: 1073741824>, shift = array<i32: -3>, contract = "shift", min = -128 : i32, max = 127 : i32} : tensor<1x4x4x4xi32> -> tensor<1x4x4x4xi8>
      npu.yield %r : tensor<1x4x4x4xi8>
    }) : (tensor<1x4x4x2xi8>) -> tensor<1x4x4x4xi8>
    func.return %y : tensor<1x4x4x4xi8>
  }
}
