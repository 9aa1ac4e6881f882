// A runtime's way to quantize floats is said on each cast.

// RUN: qmlir-opt --nn-to-qint --split-input-file %s | filecheck %s

// CHECK-LABEL: func.func @reference
// CHECK: quant.qcast %x {qmlir.quantization = "float32_away"}
builtin.module attributes {qmlir.numerics = "litert-reference"} {
  func.func @reference(%x: tensor<4xf32>) -> tensor<4x!quant.uniform<i8:f32, 0.5:3>> {
    %0 = quant.qcast %x : tensor<4xf32> to tensor<4x!quant.uniform<i8:f32, 0.5:3>>
    func.return %0 : tensor<4x!quant.uniform<i8:f32, 0.5:3>>
  }
}

// -----

// CHECK-LABEL: func.func @xnnpack
// CHECK: quant.qcast %x {qmlir.quantization = "float32_reciprocal"}
builtin.module attributes {qmlir.numerics = "litert-xnnpack"} {
  func.func @xnnpack(%x: tensor<4xf32>) -> tensor<4x!quant.uniform<i8:f32, 0.5:3>> {
    %0 = quant.qcast %x : tensor<4xf32> to tensor<4x!quant.uniform<i8:f32, 0.5:3>>
    func.return %0 : tensor<4x!quant.uniform<i8:f32, 0.5:3>>
  }
}

// -----

// CHECK-LABEL: func.func @default
// CHECK: quant.qcast %x : tensor
func.func @default(%x: tensor<4xf32>) -> tensor<4x!quant.uniform<i8:f32, 0.5:3>> {
  %0 = quant.qcast %x : tensor<4xf32> to tensor<4x!quant.uniform<i8:f32, 0.5:3>>
  func.return %0 : tensor<4x!quant.uniform<i8:f32, 0.5:3>>
}
