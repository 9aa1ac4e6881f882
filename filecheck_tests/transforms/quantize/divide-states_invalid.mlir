// RUN: not qmlir-opt --apply-policy="settings={cache-precision=int4}" --divide-states %s 2>&1 | filecheck %s --check-prefix=STATIC
// RUN: not qmlir-opt --apply-policy="settings={activations=dynamic cache-precision=int4}" --divide-states %s 2>&1 | filecheck %s

// STATIC: cache-precision=int4 stores quotients of rows, in states that the network only moves, got activations=static; give activations=dynamic

// CHECK: state "s": cache-precision=int4 stores two elements of a row in a byte, and needs an even number of them, got 9; leave it out

func.func @main(%x: tensor<1x9xf32>, %i: tensor<1x1xi64>, %s: tensor<4x9xf32> {qmlir.name = #qmlir.name<tensors ["s"]>, qmlir.state = #qmlir.state<0>}) -> tensor<4x9xf32> {
  calib.observe %s {name = "s", range = [-3.0, 2.0]} : tensor<4x9xf32>
  %0 = nn.scatter_nd %s, %x, %i : tensor<4x9xf32>, tensor<1x9xf32>, tensor<1x1xi64> -> tensor<4x9xf32>
  calib.observe %0 {name = "next", range = [-3.0, 2.0]} : tensor<4x9xf32>
  func.return %0 : tensor<4x9xf32>
}
