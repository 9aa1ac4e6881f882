// RUN: qmlir-opt --set-interface=type=int8 --split-input-file --verify-diagnostics %s

// expected-error@unknown {{input "x": must be quantized by one of its readers, got nn.relu}}
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %1 = nn.relu %x : tensor<4xf32> -> tensor<4xf32>
  func.return %1 : tensor<4xf32>
}

// -----

// expected-error@unknown {{output "result 0": must be dequantized integers, got nn.relu}}
func.func @main(%x: tensor<4x!quant.uniform<i8:f32, 0.5>>) -> tensor<4xf32> {
  %0 = quant.dcast %x : tensor<4x!quant.uniform<i8:f32, 0.5>> to tensor<4xf32>
  %1 = nn.relu %0 : tensor<4xf32> -> tensor<4xf32>
  func.return %1 : tensor<4xf32>
}

// -----

// expected-error@unknown {{input "x": must hold integers of at most 8 bits for int8, got 16 bits}}
func.func @main(%x: tensor<4x!quant.uniform<i16:f32, 0.5>>) -> tensor<4x!quant.uniform<i16:f32, 0.5>> {
  %1 = nn.relu %x : tensor<4x!quant.uniform<i16:f32, 0.5>> -> tensor<4x!quant.uniform<i16:f32, 0.5>>
  func.return %1 : tensor<4x!quant.uniform<i16:f32, 0.5>>
}

// -----

// expected-error@unknown {{input "x": must have one scale and one zero point}}
func.func @main(%x: tensor<2x2xf32>) -> tensor<2x2xf32> {
  %0 = quant.qcast %x : tensor<2x2xf32> to tensor<2x2x!quant.uniform<i8:f32:0, {0.5, 0.25}>>
  %1 = quant.dcast %0 : tensor<2x2x!quant.uniform<i8:f32:0, {0.5, 0.25}>> to tensor<2x2xf32>
  func.return %1 : tensor<2x2xf32>
}
