// RUN: not qmlir-opt --fail-on-float --split-input-file %s 2>&1 | filecheck %s

// CHECK: error: quantize: must leave no operation float, got 1 (nn.relu "r": no range is known for "x");
func.func @float(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = nn.relu %x {qmlir.name = #qmlir.name<nodes ["r"]>, qmlir.decision = #qmlir.decision<float, "no-range", "no range is known for \"x\"">} : tensor<4xf32> -> tensor<4xf32>
  func.return %0 : tensor<4xf32>
}

// -----

// CHECK-NEXT: error: quantize: must leave no operation float, got 1 (arith.addf "arith.addf": it is no operation of nn); express it in operations of nn
func.func @foreign(%x: f32) -> f32 {
  %0 = arith.addf %x, %x : f32
  func.return %0 : f32
}

// -----

// CHECK-NOT: error
func.func @integers(%x: tensor<4x!quant.uniform<i8:f32, 0.5>>) -> tensor<4x!quant.uniform<i8:f32, 0.5>> {
  %0 = nn.relu %x : tensor<4x!quant.uniform<i8:f32, 0.5>> -> tensor<4x!quant.uniform<i8:f32, 0.5>>
  func.return %0 : tensor<4x!quant.uniform<i8:f32, 0.5>>
}
