// RUN: qmlir-opt --quantize="data=%S/Inputs/correlated.npy" %s | filecheck %s
// RUN: qmlir-opt --quantize %s | filecheck %s --check-prefix=WITHOUT
// RUN: qmlir-opt --quantize="data=%S/Inputs/correlated.npy" --mlir-print-ir-after-all %s 2>&1 | filecheck %s --check-prefix=STEPS
// RUN: qmlir-opt --quantize --mlir-print-ir-after=quantize %s 2>&1 | filecheck %s --check-prefix=WHOLE

// The samples are whole numbers, so the input keeps them: its scale is 1. Without samples, its range decides.
// CHECK-LABEL: func.func @main
// CHECK-NEXT: quant.qcast %x : tensor<1x2xf32> to tensor<1x2x!quant.uniform<i8:f32, 1.000000e+00:-128>>
// WITHOUT-LABEL: func.func @main
// WITHOUT-NEXT: quant.qcast %x : tensor<1x2xf32> to tensor<1x2x!quant.uniform<i8:f32, 0.023529{{.*}}:-128>>

// Each pass of the quantizer is seen; those that nothing is given for are left out.
// STEPS-NOT: IR Dump After apply-profile
// STEPS: IR Dump After require-network
// STEPS: IR Dump After apply-policy
// STEPS: IR Dump After require-ranges
// STEPS: IR Dump After separate-slices
// STEPS: IR Dump After keep-integers
// STEPS: IR Dump After equalize-channels
// STEPS: IR Dump After search-inputs
// STEPS: IR Dump After align-scales
// STEPS: IR Dump After choose-scales
// STEPS: IR Dump After adjust-layers
// STEPS: IR Dump After quantize-ops
// STEPS: IR Dump After quantize-bias
// STEPS: IR Dump After cancel-casts
// STEPS: IR Dump After honour-policy
// WHOLE-NOT: IR Dump After cancel-casts
// WHOLE: IR Dump After quantize
func.func @main(%x: tensor<1x2xf32>) -> tensor<1x1xf32> {
  calib.observe %x {name = "x", range = [0.0, 6.0]} : tensor<1x2xf32>
  %w = nn.constant <tensor<1x2xf32>, [1.0, 0.7]> : tensor<1x2xf32>
  %0 = nn.fully_connected %x, %w : tensor<1x2xf32>, tensor<1x2xf32> -> tensor<1x1xf32>
  calib.observe %0 {name = "y", range = [0.0, 12.0]} : tensor<1x1xf32>
  func.return %0 : tensor<1x1xf32>
}
