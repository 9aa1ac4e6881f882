// RUN: qmlir-opt --batch-samples="most=8" --split-input-file %s | filecheck %s

// Samples stay apart through layouts, reshapes that merge them with rows, and a table that each of them reads.
// CHECK: func.func @main
// CHECK-SAME: attributes {qmlir.samples = {most = 8 : i64, inputs = array<i1: true, false, true>}}
func.func @main(%x: tensor<1x2x3xf32>, %shift: tensor<3xf32>, %i: tensor<1x2xi64>) -> (tensor<1x2x3xf32>, tensor<1x2x4xf32>) {
  %rows = nn.reshape %x {shape = array<i64: 2, 3>} : tensor<1x2x3xf32> -> tensor<2x3xf32>
  %moved = nn.add %rows, %shift : tensor<2x3xf32>, tensor<3xf32> -> tensor<2x3xf32>
  %y = nn.reshape %moved {shape = array<i64: 1, 2, 3>} : tensor<2x3xf32> -> tensor<1x2x3xf32>
  %table = nn.constant <tensor<2x4xf32>, [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0]> : tensor<2x4xf32>
  %z = nn.gather %table, %i {axis = 0 : i64} : tensor<2x4xf32>, tensor<1x2xi64> -> tensor<1x2x4xf32>
  func.return %y, %z : tensor<1x2x3xf32>, tensor<1x2x4xf32>
}

// -----

// Where the source model had symbols, only the inputs with symbols have samples.
// CHECK: qmlir.samples = {most = 8 : i64, inputs = array<i1: true, false>}
module attributes {qmlir.batch = {x = "N"}} {
  func.func @main(%x: tensor<1x4xf32> {qmlir.name = #qmlir.name<tensors ["x"]>}, %s: tensor<1x4xf32> {qmlir.name = #qmlir.name<tensors ["s"]>}) -> tensor<1x4xf32> {
    %y = nn.mul %x, %s : tensor<1x4xf32>, tensor<1x4xf32> -> tensor<1x4xf32>
    func.return %y : tensor<1x4xf32>
  }
}
