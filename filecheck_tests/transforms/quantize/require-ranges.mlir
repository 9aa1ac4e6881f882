// RUN: qmlir-opt --require-ranges --split-input-file %s 2>&1 | filecheck %s --check-prefix=GOOD
// RUN: not qmlir-opt --require-ranges %S/quantize_invalid.mlir --split-input-file 2>&1 | filecheck %s

// CHECK: error: quantize: needs ranges: at least one calib.observe with a range, got no observers; profile the network
// CHECK-NEXT: error: quantize: needs ranges: at least one calib.observe with a range, got 1 observers, none with a range;

// GOOD-LABEL: func.func @range
func.func @range(%x: tensor<4xf32>) -> tensor<4xf32> {
  calib.observe %x {name = "x", range = [-1.0, 1.0]} : tensor<4xf32>
  %0 = nn.relu %x : tensor<4xf32> -> tensor<4xf32>
  func.return %0 : tensor<4xf32>
}

// -----

// GOOD-LABEL: func.func @policy
func.func @policy(%x: tensor<4xf32>) -> tensor<4xf32> {
  calib.observe %x {name = "x", qmlir.policy = {range = [0.0, 2.0]}} : tensor<4xf32>
  %0 = nn.relu %x : tensor<4xf32> -> tensor<4xf32>
  func.return %0 : tensor<4xf32>
}

// -----

// Nothing to choose: the types are there.
// GOOD-LABEL: func.func @quantized
func.func @quantized(%x: tensor<4x!quant.uniform<i8:f32, 0.5>>) -> tensor<4x!quant.uniform<i8:f32, 0.5>> {
  %0 = nn.relu %x : tensor<4x!quant.uniform<i8:f32, 0.5>> -> tensor<4x!quant.uniform<i8:f32, 0.5>>
  func.return %0 : tensor<4x!quant.uniform<i8:f32, 0.5>>
}
