// RUN: qmlir-opt "--quantize=schema=symmetric" %s | filecheck %s

// The second channel's weights are next to nothing beside its bias: their scale is the least for which the device has a
// multiplier beside the first channel's, with which it shares a shift, 2^-7 of that scale, and they become 0.
builtin.module attributes {npu.device = "nvdla-small"} {
  func.func @main(%x: tensor<1x2xf32>) -> tensor<1x2xf32> {
    %w = nn.constant <tensor<2x2xf32>, [0.5, -1.0, 1.0e-9, -1.0e-9]> : tensor<2x2xf32>
    %b = nn.constant <tensor<2xf32>, [0.25, 0.5]> : tensor<2xf32>
    calib.observe %x {name = "x", range = [-1.0, 1.0]} : tensor<1x2xf32>
    %y = nn.fully_connected %x, %w, %b {qmlir.name = #qmlir.name<nodes ["fc"]>} : tensor<1x2xf32>, tensor<2x2xf32>, tensor<2xf32> -> tensor<1x2xf32>
    calib.observe %y {name = "y", range = [-1.0, 1.0]} : tensor<1x2xf32>
    func.return %y : tensor<1x2xf32>
  }
}

// CHECK: nn.constant <tensor<2x2xi8>, [64, -127, 0, 0]> : tensor<2x2x!quant.uniform<i8<-127:127>:f32:0, {0.0078740157186985015,6.1515806009992957E-5}>>
// CHECK: nn.fully_connected {{.*}} weight scales widened for biases and shifts to fit in channel 1
