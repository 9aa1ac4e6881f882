// RUN: qmlir-opt %s | filecheck %s
// RUN: qmlir-opt --mlir-print-op-generic %s | qmlir-opt | filecheck %s

// CHECK: func.func @zeros(%x: tensor<2xf32>, %s: tensor<4xf32> {qmlir.state = #qmlir.state<1>}) -> (tensor<2xf32>, tensor<4xf32>)
func.func @zeros(%x: tensor<2xf32>, %s: tensor<4xf32> {qmlir.state = #qmlir.state<1>}) -> (tensor<2xf32>, tensor<4xf32>) {
  func.return %x, %s : tensor<2xf32>, tensor<4xf32>
}

// One element for all, in stored integers.
// CHECK: qmlir.state = #qmlir.state<0, reset = #qmlir.weights<tensor<i8>, [38]>>
func.func @element(%s: tensor<4x!quant.uniform<i8:f32, 0.5:3>> {qmlir.state = #qmlir.state<0, reset = #qmlir.weights<tensor<i8>, [38]>>})
    -> tensor<4x!quant.uniform<i8:f32, 0.5:3>> {
  func.return %s : tensor<4x!quant.uniform<i8:f32, 0.5:3>>
}

// An array, and two states in another order than their results.
// CHECK: %a: tensor<2xf32> {qmlir.state = #qmlir.state<1, reset = #qmlir.weights<tensor<2xf32>, [0.5, -1.0]>>}, %b: tensor<i64> {qmlir.state = #qmlir.state<0>}
func.func @array(%a: tensor<2xf32> {qmlir.state = #qmlir.state<1, reset = #qmlir.weights<tensor<2xf32>, [0.5, -1.0]>>}, %b: tensor<i64> {qmlir.state = #qmlir.state<0>})
    -> (tensor<i64>, tensor<2xf32>) {
  func.return %b, %a : tensor<i64>, tensor<2xf32>
}
