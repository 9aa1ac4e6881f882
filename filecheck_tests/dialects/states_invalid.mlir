// RUN: qmlir-opt --verify-diagnostics --split-input-file %s

// expected-error @below {{argument 0 must have a #qmlir.state as qmlir.state, got 1 : i64}}
func.func @other(%s: tensor<4xf32> {qmlir.state = 1 : i64}) -> tensor<4xf32> {
  func.return %s : tensor<4xf32>
}

// -----

// expected-error @below {{state 0 needs result 1, and there are 1 results}}
func.func @no_result(%s: tensor<4xf32> {qmlir.state = #qmlir.state<1>}) -> tensor<4xf32> {
  func.return %s : tensor<4xf32>
}

// -----

// expected-error @below {{states 0 and 1 must have results of their own, got result 0 for both}}
func.func @shared(%s: tensor<4xf32> {qmlir.state = #qmlir.state<0>}, %t: tensor<4xf32> {qmlir.state = #qmlir.state<0>}) -> tensor<4xf32> {
  func.return %s : tensor<4xf32>
}

// -----

// expected-error @below {{state 0 and result 0 must be tensors of one type, got tensor<4xf32> and tensor<2xf32>}}
func.func @type(%s: tensor<4xf32> {qmlir.state = #qmlir.state<0>}, %x: tensor<2xf32>) -> tensor<2xf32> {
  func.return %x : tensor<2xf32>
}

// -----

// expected-error @below {{state 0 and result 0 must be tensors of one type, got f32 and f32}}
func.func @scalar(%s: f32 {qmlir.state = #qmlir.state<0>}) -> f32 {
  func.return %s : f32
}

// -----

// expected-error @below {{the reset value of state 0 must be tensor<f32> or of the shape of tensor<4xf32>, got tensor<2xf32>}}
func.func @shape(%s: tensor<4xf32> {qmlir.state = #qmlir.state<0, reset = #qmlir.weights<tensor<2xf32>, [0.0, 1.0]>>}) -> tensor<4xf32> {
  func.return %s : tensor<4xf32>
}

// -----

// expected-error @below {{the reset value of state 0 must be tensor<i8> or of the shape of}}
func.func @stored(%s: tensor<4x!quant.uniform<i8:f32, 0.5>> {qmlir.state = #qmlir.state<0, reset = #qmlir.weights<tensor<f32>, [0.5]>>})
    -> tensor<4x!quant.uniform<i8:f32, 0.5>> {
  func.return %s : tensor<4x!quant.uniform<i8:f32, 0.5>>
}

// -----

// expected-error @below {{the reset value of a state must be #qmlir.weights}}
func.func @number(%s: tensor<4xf32> {qmlir.state = #qmlir.state<0, reset = 0.5 : f32>}) -> tensor<4xf32> {
  func.return %s : tensor<4xf32>
}
