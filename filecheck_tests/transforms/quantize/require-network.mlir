// RUN: not qmlir-opt --require-network --split-input-file %s 2>&1 | filecheck %s

// CHECK: error: quantize: needs a network of operations of nn, got operations of arith only; quantize the .onnx or .tflite file, or what `qmlir import` writes for it
func.func @arithmetic(%x: f32) -> f32 {
  %0 = arith.addf %x, %x : f32
  func.return %0 : f32
}

// -----

// CHECK-NEXT: error: quantize: needs a network of operations of nn, got a module without functions;
module {}

// -----

// A function that returns its argument is a network.
// CHECK-NOT: error
func.func @identity(%x: tensor<4xf32>) -> tensor<4xf32> {
  func.return %x : tensor<4xf32>
}
