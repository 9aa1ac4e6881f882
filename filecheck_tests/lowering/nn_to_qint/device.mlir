// RUN: qmlir-opt --nn-to-qint %s | filecheck %s

// A network that was quantized for a device rounds as the device does.
builtin.module attributes {npu.device = "gemmini"} {
  func.func @main(%x: tensor<4x!quant.uniform<i8:f32, 0.5>>) -> tensor<4x!quant.uniform<i8:f32, 0.3>> {
    %y = nn.relu %x : tensor<4x!quant.uniform<i8:f32, 0.5>> -> tensor<4x!quant.uniform<i8:f32, 0.3>>
    func.return %y : tensor<4x!quant.uniform<i8:f32, 0.3>>
  }
}
// CHECK: qint.requantize {{.*}} contract = "float_even"
