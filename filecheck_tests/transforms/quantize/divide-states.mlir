// RUN: qmlir-opt --divide-states %s | filecheck %s --check-prefix=STATIC
// RUN: qmlir-opt --apply-policy="settings={activations=dynamic}" --divide-states %s | filecheck %s
// RUN: qmlir-opt --apply-policy="settings={activations=dynamic cache-precision=int4}" --divide-states %s | filecheck %s --check-prefix=FOUR

// STATIC-NOT: nn.divide_rows

// Quotients of 4 bits are integers from -7 to 7.
// FOUR: nn.divide_rows %x {qmlir.name = {{.*}}, qmlir.policy = {{{.*}}parameters = [0.14285714285714285 : f64, 0 : i64]}}
// FOUR: nn.scatter_nd %s, {{.*}}parameters = [0.14285714285714285 : f64, 0 : i64]

// Rows are divided where they enter; both parts are moved; what reads the cache reads their product.
// CHECK-LABEL: func.func @main
// CHECK-SAME: %s: tensor<4x8xf32> {qmlir.name = #qmlir.name<tensors ["s"]>, qmlir.state = #qmlir.state<1>}
// CHECK-SAME: %[[H:[0-9]+]]: tensor<4x1xf32> {qmlir.state = #qmlir.state<2>, qmlir.name = #qmlir.name<tensors ["s.magnitudes"]>}
// CHECK: calib.observe %s {{.*}}range = [-1.000000e+00 : f64, 1.000000e+00 : f64]
// CHECK: %[[N:.*]] = nn.row_magnitudes %x {qmlir.name = #qmlir.name<tensors ["s.new.magnitudes"]>}
// CHECK: %[[Q:.*]] = nn.divide_rows %x
// CHECK: %[[QS:.*]] = nn.scatter_nd %s, %[[Q]], %i
// CHECK: %[[MS:.*]] = nn.scatter_nd %[[H]], %[[N]], %i {{.*}}tensor<4x1xf32>, tensor<1x1xf32>, tensor<1x1xi64> -> tensor<4x1xf32>
// CHECK: %[[P:.*]] = nn.multiply_rows %[[QS]], %[[MS]]
// CHECK: %[[Y:.*]] = nn.relu %[[P]]
// CHECK: func.return %[[Y]], %[[QS]], %[[MS]]
func.func @main(%x: tensor<1x8xf32>, %i: tensor<1x1xi64>, %s: tensor<4x8xf32> {qmlir.name = #qmlir.name<tensors ["s"]>, qmlir.state = #qmlir.state<1>}) -> (tensor<4x8xf32>, tensor<4x8xf32>) {
  calib.observe %s {name = "s", range = [-3.0, 2.0]} : tensor<4x8xf32>
  %0 = nn.scatter_nd %s, %x, %i : tensor<4x8xf32>, tensor<1x8xf32>, tensor<1x1xi64> -> tensor<4x8xf32>
  calib.observe %0 {name = "next", range = [-3.0, 2.0]} : tensor<4x8xf32>
  %y = nn.relu %0 : tensor<4x8xf32> -> tensor<4x8xf32>
  calib.observe %y {name = "y", range = [0.0, 2.0]} : tensor<4x8xf32>
  func.return %y, %0 : tensor<4x8xf32>, tensor<4x8xf32>
}

// What computes on the rows on the way is no cache.
// CHECK-LABEL: func.func @sum
// CHECK-NOT: nn.divide_rows
func.func @sum(%x: tensor<4x8xf32>, %s: tensor<4x8xf32> {qmlir.state = #qmlir.state<0>}) -> tensor<4x8xf32> {
  calib.observe %s {name = "s", range = [-3.0, 2.0]} : tensor<4x8xf32>
  %0 = nn.add %s, %x : tensor<4x8xf32>, tensor<4x8xf32> -> tensor<4x8xf32>
  calib.observe %0 {name = "next", range = [-3.0, 2.0]} : tensor<4x8xf32>
  func.return %0 : tensor<4x8xf32>
}
