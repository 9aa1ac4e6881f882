// RUN: not qmlir-opt --npu-tile %s 2>&1 | filecheck %s
// CHECK: quant.dcast "real": must be a layer that the device has commands for

builtin.module attributes {npu.device = "nmp"} {
  func.func @main(%x: tensor<1x4x!quant.uniform<i8:f32, 5.000000e-01>>) -> tensor<1x4xf32> {
    %y = "npu.layer"(%x) <{label = "real"}> ({
    ^bb0(%a: tensor<1x4x!quant.uniform<i8:f32, 5.000000e-01>>):
      %r = quant.dcast %a : tensor<1x4x!quant.uniform<i8:f32, 5.000000e-01>> to tensor<1x4xf32>
      npu.yield %r : tensor<1x4xf32>
    }) : (tensor<1x4x!quant.uniform<i8:f32, 5.000000e-01>>) -> tensor<1x4xf32>
    func.return %y : tensor<1x4xf32>
  }
}
