// Images read at computed places.

// RUN: qmlir-opt %s | filecheck %s
// RUN: qmlir-opt --mlir-print-op-generic %s | filecheck %s --check-prefix=GENERIC
// RUN: qmlir-opt --mlir-print-op-generic %s | qmlir-opt | filecheck %s

// CHECK-LABEL: func.func @sample
func.func @sample(%x: tensor<1x4x5x3xf32>, %p: tensor<1x7x2xf32>, %v: tensor<2x4x5x6x1xf64>, %w: tensor<2x3xf64>) {
  // CHECK: nn.sample %x, %p {method = "linear", padding = "zeros"} : tensor<1x4x5x3xf32>, tensor<1x7x2xf32> -> tensor<1x7x3xf32>
  // GENERIC: "nn.sample"(%{{.*}}, %{{.*}}) <{method = "linear", padding = "zeros"}>
  %0 = nn.sample %x, %p {method = "linear", padding = "zeros"} : tensor<1x4x5x3xf32>, tensor<1x7x2xf32> -> tensor<1x7x3xf32>
  // CHECK: nn.sample %v, %w {method = "nearest", padding = "reflect_centres"} : tensor<2x4x5x6x1xf64>, tensor<2x3xf64> -> tensor<2x1xf64>
  %1 = nn.sample %v, %w {method = "nearest", padding = "reflect_centres"} : tensor<2x4x5x6x1xf64>, tensor<2x3xf64> -> tensor<2x1xf64>
  func.return
}
