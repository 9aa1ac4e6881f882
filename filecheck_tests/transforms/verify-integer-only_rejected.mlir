// RUN: not qmlir-opt --verify-integer-only --split-input-file %s 2>&1 | filecheck %s

// CHECK: error: nn.exp "e": must compute on integers by integer instructions, got f32 (it computes on f32), by way of qint.requantize "y" → quant.dcast "quant.dcast" → nn.exp "e", and 2 more; quantize it, or choose other numerics
func.func @fallback(%x: tensor<4xi8>) -> tensor<4xi8> {
  %0 = qint.requantize %x {qmlir.name = #qmlir.name<tensors ["y"]>, multiplier = array<i32: 1073741824>, shift = array<i32: 1>, contract = "single", min = -128 : i32, max = 127 : i32} : tensor<4xi8> -> tensor<4xi8>
  %1 = quant.scast %0 : tensor<4xi8> to tensor<4x!quant.uniform<i8:f32, 0.5>>
  %2 = quant.dcast %1 : tensor<4x!quant.uniform<i8:f32, 0.5>> to tensor<4xf32>
  %3 = nn.exp %2 {qmlir.name = #qmlir.name<nodes ["e"]>} : tensor<4xf32> -> tensor<4xf32>
  %4 = quant.qcast %3 : tensor<4xf32> to tensor<4x!quant.uniform<i8:f32, 0.5>>
  %5 = quant.scast %4 : tensor<4x!quant.uniform<i8:f32, 0.5>> to tensor<4xi8>
  func.return %5 : tensor<4xi8>
}

// -----

// A cast through f16 before the quantization.
// CHECK: error: nn.cast "nn.cast": must compute on integers by integer instructions, got f32 and f16 (it computes on f32 and f16), by way of input "x" → nn.cast "nn.cast"
func.func @half(%x: tensor<4xf32>) -> tensor<4x!quant.uniform<i8:f32, 0.5>> {
  %0 = nn.cast %x : tensor<4xf32> -> tensor<4xf16>
  %1 = nn.cast %0 : tensor<4xf16> -> tensor<4xf32>
  %2 = quant.qcast %1 : tensor<4xf32> to tensor<4x!quant.uniform<i8:f32, 0.5>>
  func.return %2 : tensor<4x!quant.uniform<i8:f32, 0.5>>
}

// -----

// CHECK: error: nn.softmax "scores": must compute on integers by integer instructions, got f32 (no range is known)
func.func @tail(%x: tensor<4xi8>) -> tensor<4xf32> {
  %0 = quant.scast %x : tensor<4xi8> to tensor<4x!quant.uniform<i8:f32, 0.5>>
  %1 = quant.dcast %0 : tensor<4x!quant.uniform<i8:f32, 0.5>> to tensor<4xf32>
  %2 = nn.softmax %1 {axis = 0 : i64, qmlir.name = #qmlir.name<tensors ["scores"]>, qmlir.decision = #qmlir.decision<float, "no-range", "no range is known">} : tensor<4xf32> -> tensor<4xf32>
  func.return %2 : tensor<4xf32>
}

// -----

// Integers that float instructions compute.
// CHECK: error: qint.requantize "qint.requantize": must compute on integers by integer instructions, got float instructions (contract float_even rounds in float32)
func.func @hidden(%x: tensor<4xi32>) -> tensor<4xi8> {
  %0 = qint.requantize %x {multiplier = array<i32: 1073741824>, shift = array<i32: -7>, contract = "float_even", min = -128 : i32, max = 127 : i32} : tensor<4xi32> -> tensor<4xi8>
  func.return %0 : tensor<4xi8>
}

// -----

// Kernels and machine-level code.
// CHECK: error: arith.addf "kernel": must compute on integers by integer instructions, got f32 (it computes on f32), by way of @kernel → arith.addf
func.func @kernel(%x: f32) -> f32 {
  %0 = arith.addf %x, %x : f32
  func.return %0 : f32
}

// -----

// CHECK-NOT: error
func.func @integers(%x: tensor<4xi8>) -> tensor<4xi8> {
  func.return %x : tensor<4xi8>
}
