// RUN: not qmlir-opt --npu-tile %s 2>&1 | filecheck %s
// CHECK: npu.layer "computed": must have weights and a bias that are constants in it

builtin.module attributes {npu.device = "nmp"} {
  func.func @main(%x: tensor<1x4x4x2xi8>, %w: tensor<2x1x1x2xi8>) -> tensor<1x4x4x2xi8> {
    %y = "npu.layer"(%x, %w) <{label = "computed"}> ({
    ^bb0(%a: tensor<1x4x4x2xi8>, %b: tensor<2x1x1x2xi8>):
      %s = qint.conv2d %a, %b : tensor<1x4x4x2xi8>, tensor<2x1x1x2xi8> -> tensor<1x4x4x2xi32>
      %r = qint.requantize %s {multiplier = array<i32: 1073741824>, shift = array<i32: -3>, contract = "shift", min = -128 : i32, max = 127 : i32} : tensor<1x4x4x2xi32> -> tensor<1x4x4x2xi8>
      npu.yield %r : tensor<1x4x4x2xi8>
    }) : (tensor<1x4x4x2xi8>, tensor<2x1x1x2xi8>) -> tensor<1x4x4x2xi8>
    func.return %y : tensor<1x4x4x2xi8>
  }
}
