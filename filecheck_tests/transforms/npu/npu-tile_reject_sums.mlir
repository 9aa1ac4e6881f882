// RUN: not qmlir-opt --npu-tile %s 2>&1 | filecheck %s
// CHECK: qint.conv2d "sums": must be followed by a change of scale in its layer

builtin.module attributes {npu.device = "nmp"} {
  func.func @main(%x: tensor<1x4x4x2xi8>) -> tensor<1x4x4x2xi32> {
    %y = "npu.layer"(%x) <{label = "sums"}> ({
    ^bb0(%a: tensor<1x4x4x2xi8>):
      %w = nn.constant <tensor<2x1x1x2xi8>, [1, 2, 3, 4]> : tensor<2x1x1x2xi8>
      %s = qint.conv2d %a, %w : tensor<1x4x4x2xi8>, tensor<2x1x1x2xi8> -> tensor<1x4x4x2xi32>
      npu.yield %s : tensor<1x4x4x2xi32>
    }) : (tensor<1x4x4x2xi8>) -> tensor<1x4x4x2xi32>
    func.return %y : tensor<1x4x4x2xi32>
  }
}
