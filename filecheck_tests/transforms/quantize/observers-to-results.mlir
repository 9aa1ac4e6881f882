// RUN: qmlir-opt --observers-to-results %s | filecheck %s

// CHECK-LABEL: func.func @main
// CHECK-SAME: -> (tensor<2xf32> {qmlir.name = #qmlir.name<tensors ["half"]>}, tensor<4xf32>, tensor<4xf32>) {
// CHECK-NOT: calib.observe
// CHECK: func.return %{{.*}}, %x, %[[R:.*]] : tensor<2xf32>, tensor<4xf32>, tensor<4xf32>
func.func @main(%x: tensor<4xf32>) -> (tensor<2xf32> {qmlir.name = #qmlir.name<tensors ["half"]>}) {
  calib.observe %x {name = "x"} : tensor<4xf32>
  %0 = nn.relu %x : tensor<4xf32> -> tensor<4xf32>
  calib.observe %0 {name = "r", range = [0.0, 1.0]} : tensor<4xf32>
  %1 = nn.constant <tensor<2xf32>, [1.0, 2.0]> : tensor<2xf32>
  func.return %1 : tensor<2xf32>
}

// Nothing observed, nothing changed; declarations are left alone.
// CHECK-LABEL: func.func @plain
// CHECK-SAME: -> tensor<4xf32>
// CHECK: func.return %x : tensor<4xf32>
// CHECK: func.func private @declared(tensor<4xf32>) -> tensor<4xf32>
func.func @plain(%x: tensor<4xf32>) -> tensor<4xf32> {
  func.return %x : tensor<4xf32>
}
func.func private @declared(tensor<4xf32>) -> tensor<4xf32>
