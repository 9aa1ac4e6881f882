// Data movement follows a layer that a policy promotes: a concat of 16-bit and 8-bit tensors has 16 bits, and so has
// each transpose, pad, pool and reshape between it and the network's result.

// RUN: qmlir-opt --quantize="rules={name=wide precision=int16}" %s | filecheck %s

// CHECK-LABEL: func.func @last
// CHECK: nn.relu {{.*}}-> tensor<1x2x4x!quant.uniform<i8:f32, {{.*}}>>
// CHECK: nn.requantize {{.*}}-> tensor<1x2x4x!quant.uniform<i16:f32, {{.*}}>>
// CHECK: nn.concat {{.*}}-> tensor<1x4x4x!quant.uniform<i16:f32, {{.*}}>>
// CHECK-NOT: nn.requantize
// CHECK: nn.transpose {{.*}}#qmlir.decision<quantized, "moved", "moves i16 values">
// CHECK-NOT: nn.requantize
// CHECK: nn.pad {{.*}}#qmlir.decision<quantized, "moved", "moves i16 values">
// CHECK-NOT: nn.requantize
// CHECK: nn.reshape {{.*}}#qmlir.decision<quantized, "moved", "moves i16 values">
// CHECK-NEXT: quant.dcast
func.func @last(%x: tensor<1x2x4xf32>) -> tensor<20xf32> {
  calib.observe %x {name = "x", range = [-1.0, 1.0]} : tensor<1x2x4xf32>
  %wide = nn.relu %x {qmlir.name = #qmlir.name<tensors ["wide"]>} : tensor<1x2x4xf32> -> tensor<1x2x4xf32>
  calib.observe %wide {name = "wide", range = [0.0, 1.0]} : tensor<1x2x4xf32>
  %narrow = nn.relu %x {qmlir.name = #qmlir.name<tensors ["narrow"]>} : tensor<1x2x4xf32> -> tensor<1x2x4xf32>
  calib.observe %narrow {name = "narrow", range = [0.0, 1.0]} : tensor<1x2x4xf32>
  %c = nn.concat %wide, %narrow {axis = 1 : i64} : tensor<1x2x4xf32>, tensor<1x2x4xf32> -> tensor<1x4x4xf32>
  %t = nn.transpose %c {permutation = array<i64: 0, 2, 1>} : tensor<1x4x4xf32> -> tensor<1x4x4xf32>
  %p = nn.pad %t {low = array<i64: 0, 0, 0>, high = array<i64: 0, 1, 0>, value = 0.0 : f32} : tensor<1x4x4xf32> -> tensor<1x5x4xf32>
  %r = nn.reshape %p {shape = array<i64: 20>} : tensor<1x5x4xf32> -> tensor<20xf32>
  func.return %r : tensor<20xf32>
}

// A reader in 8 bits takes the concat with it: nothing but this reader would see the other digits.

// CHECK-LABEL: func.func @read
// CHECK: nn.requantize {{.*}}-> tensor<1x2x4x!quant.uniform<i8:f32, {{.*}}>>
// CHECK: nn.concat {{.*}}-> tensor<1x4x4x!quant.uniform<i8:f32, {{.*}}>>
// CHECK: nn.transpose {{.*}}#qmlir.decision<quantized, "moved", "moves i8 values">
// CHECK: nn.tanh {{.*}}#qmlir.decision<quantized, "integer", "i8 activations">
func.func @read(%x: tensor<1x2x4xf32>) -> tensor<1x4x4xf32> {
  calib.observe %x {name = "x", range = [-1.0, 1.0]} : tensor<1x2x4xf32>
  %wide = nn.relu %x {qmlir.name = #qmlir.name<tensors ["wide"]>} : tensor<1x2x4xf32> -> tensor<1x2x4xf32>
  calib.observe %wide {name = "wide", range = [0.0, 1.0]} : tensor<1x2x4xf32>
  %narrow = nn.relu %x {qmlir.name = #qmlir.name<tensors ["narrow"]>} : tensor<1x2x4xf32> -> tensor<1x2x4xf32>
  calib.observe %narrow {name = "narrow", range = [0.0, 1.0]} : tensor<1x2x4xf32>
  %c = nn.concat %wide, %narrow {axis = 1 : i64} : tensor<1x2x4xf32>, tensor<1x2x4xf32> -> tensor<1x4x4xf32>
  %t = nn.transpose %c {permutation = array<i64: 0, 2, 1>} : tensor<1x4x4xf32> -> tensor<1x4x4xf32>
  %y = nn.tanh %t : tensor<1x4x4xf32> -> tensor<1x4x4xf32>
  calib.observe %y {name = "y", range = [-1.0, 1.0]} : tensor<1x4x4xf32>
  func.return %y : tensor<1x4x4xf32>
}
