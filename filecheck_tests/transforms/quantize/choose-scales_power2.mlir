// What a promise of powers of two rules out: scales that came with the graph, and another schema.

// RUN: not qmlir-opt --quantize="schema=symmetric_with_power2_scale" --split-input-file %s 2>&1 | filecheck %s
// RUN: not qmlir-opt --quantize="schema=symmetric" --split-input-file %s 2>&1 | filecheck %s --check-prefix=OTHER

// CHECK: error: function "main": qmlir.scales promises scales that are powers of two, got {{.*}} of quant.qcast with scale 0.1; the nearest is 2^-3 = 0.125; quantize the float network with schema symmetric_with_power2_scale, or drop the promise
// OTHER: error: function "promised": qmlir.scales promises scales that are powers of two, got {{.*}} of quant.qcast with scale 0.007874015718698502; the nearest is 2^-7 = 0.0078125; quantize the float network with schema symmetric_with_power2_scale, or drop the promise

!q = !quant.uniform<i8:f32, 0.1>

func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = quant.qcast %x : tensor<4xf32> to tensor<4x!q>
  %1 = quant.dcast %0 : tensor<4x!q> to tensor<4xf32>
  %2 = nn.relu %1 : tensor<4xf32> -> tensor<4xf32>
  calib.observe %2 {name = "r", range = [0.0, 1.0]} : tensor<4xf32>
  func.return %2 : tensor<4xf32>
}

// -----

func.func @promised(%x: tensor<4xf32>) -> tensor<4xf32> attributes {qmlir.scales = #qmlir.power_of_two} {
  calib.observe %x {name = "image", range = [0.0, 1.0]} : tensor<4xf32>
  %0 = nn.relu %x : tensor<4xf32> -> tensor<4xf32>
  calib.observe %0 {name = "r", range = [0.0, 1.0]} : tensor<4xf32>
  func.return %0 : tensor<4xf32>
}
