// The command of the README, on a network with its ranges in the IR.

// RUN: qmlir-opt --quantize="schema=symmetric" %s | filecheck %s
// RUN: qmlir-opt --quantize="schema=symmetric per-channel=false" %s | filecheck %s --check-prefix=TENSOR
// RUN: qmlir-opt --quantize --quantize %s | qmlir-opt --quantize | filecheck %s --check-prefix=AGAIN
// RUN: qmlir-opt --quantize="precision=int16" %s | filecheck %s --check-prefix=INT16
// RUN: qmlir-opt --quantize="precision=int16 weight-precision=int8" %s | filecheck %s --check-prefix=MIXED
// RUN: not qmlir-opt --quantize="fail-on-float=true" %s 2>&1 | filecheck %s --check-prefix=FAIL

// CHECK-NOT: calib.observe
// CHECK: %[[X:.*]] = quant.qcast %x : tensor<1x2xf32> to tensor<1x2x!quant.uniform<i8:f32, 5.000000e-01>>
// CHECK: %[[W:.*]] = nn.constant <tensor<2x2xi8>, [127, 64, 127, -64]> : tensor<2x2x!quant.uniform<i8<-127:127>:f32:0, {1.000000e+00,5.000000e-01}>>
// CHECK: %[[B:.*]] = nn.constant <tensor<2xi32>, [2, -8]> : tensor<2x!quant.uniform<i32:f32:0, {5.000000e-01,2.500000e-01}>>
// CHECK: %[[Y:.*]] = nn.fully_connected %[[X]], %[[W]], %[[B]] {{.*}}"i8 activations, i8 weights per channel"
// CHECK: %[[F:.*]] = quant.dcast %[[Y]] : tensor<1x2x!quant.uniform<i8:f32, 2.500000e-01>> to tensor<1x2xf32>
// CHECK: nn.cumulative_product %[[F]] {{.*}}#qmlir.decision<float, "target", "each of its products has more digits than the one before, which no single scale holds">
// CHECK-NOT: quant.

// TENSOR: nn.constant <tensor<2x2xi8>, [127, 64, 64, -32]> : tensor<2x2x!quant.uniform<i8<-127:127>:f32, 1.000000e+00>>
// TENSOR: nn.constant <tensor<2xi32>, [2, -4]> : tensor<2x!quant.uniform<i32:f32, 5.000000e-01>>

// Twice is once.
// AGAIN: quant.qcast
// AGAIN-NOT: quant.qcast
// AGAIN: nn.fully_connected {{.*}}#qmlir.decision<quantized, "integer",
// AGAIN: nn.cumulative_product {{.*}}#qmlir.decision<float, "target",

// Weights of 8 bits beside data of 16.
// MIXED: nn.constant <tensor<2x2xi8>, [127, 64, 127, -64]> : tensor<2x2x!quant.uniform<i8<-127:127>:f32:0, {1.000000e+00,5.000000e-01}>>
// MIXED: nn.fully_connected {{.*}}#qmlir.decision<quantized, "integer", "i16 activations, i8 weights per channel">

// INT16: nn.fully_connected {{.*}}#qmlir.decision<quantized, "integer", "i16 activations, i16 weights per channel">
// INT16: nn.cumulative_product {{.*}}#qmlir.decision<float, "target",

// FAIL: error: {{.*}}quantize: must leave no operation float, got 1 (nn.cumulative_product "nn.cumulative_product": each of its products has more digits than the one before, which no single scale holds)

func.func @main(%x: tensor<1x2xf32>) -> tensor<1x2xf32> {
  calib.observe %x {name = "x", range = [-64.0, 63.5]} : tensor<1x2xf32>
  %w = nn.constant <tensor<2x2xf32>, [127.0, 64.0, 63.5, -32.0]> : tensor<2x2xf32>
  %b = nn.constant <tensor<2xf32>, [1.0, -2.0]> : tensor<2xf32>
  %0 = nn.fully_connected %x, %w, %b : tensor<1x2xf32>, tensor<2x2xf32>, tensor<2xf32> -> tensor<1x2xf32>
  calib.observe %0 {name = "y", range = [-32.0, 31.75]} : tensor<1x2xf32>
  %1 = nn.cumulative_product %0 {axis = 1 : i64} : tensor<1x2xf32> -> tensor<1x2xf32>
  func.return %1 : tensor<1x2xf32>
}
