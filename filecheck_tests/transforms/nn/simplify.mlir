// RUN: qmlir-opt --simplify %s | filecheck %s

// A layer as a channels-first frontend writes it: convolution, batch normalization, addition, relu, then a matrix
// product of the flattened image. Each pass has its own test; this is their order.

// CHECK-LABEL: func.func @main
// CHECK: %[[X:.*]] = nn.reshape %image {shape = array<i64: 1, 2, 2, 1>}
// CHECK: %[[Y:.*]] = nn.conv2d %[[X]], %w, %{{.*}} {qmlir.name = #qmlir.name<nodes ["conv", "bn", "plus", "relu"], tensors ["relu_out"], absorbed ["conv_out", "bn_out.scaled", "bn_out", "plus_out"]>, min = 0.000000e+00 : f32}
// CHECK: %[[F:.*]] = nn.reshape %[[Y]] {shape = array<i64: 1, 8>}
// CHECK-NEXT: %[[W:.*]] = nn.constant <tensor<1x8xf32>, [1.0, 5.0, 2.0, 6.0, 3.0, 7.0, 4.0, 8.0]>
// CHECK-NEXT: nn.fully_connected %[[F]], %[[W]] {qmlir.name = #qmlir.name<nodes ["product"], tensors ["scores"]>}
// CHECK-NEXT: func.return
func.func @main(%image: tensor<1x1x2x2xf32>) -> tensor<1x1xf32> {
  %w = nn.constant <tensor<2x1x1x1xf32>, [1.0, 2.0]> : tensor<2x1x1x1xf32>
  %scale = nn.constant <tensor<2xf32>, [3.0, 4.0]> : tensor<2xf32>
  %offset = nn.constant <tensor<2xf32>, [5.0, 6.0]> : tensor<2xf32>
  %more = nn.constant <tensor<2x1x1xf32>, [7.0, 8.0]> : tensor<2x1x1xf32>
  %matrix = nn.constant <tensor<8x1xf32>, [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0]> : tensor<8x1xf32>
  %0 = nn.transpose %image {permutation = array<i64: 0, 2, 3, 1>} : tensor<1x1x2x2xf32> -> tensor<1x2x2x1xf32>
  %1 = nn.conv2d %0, %w {qmlir.name = #qmlir.name<nodes ["conv"], tensors ["conv_out"]>} : tensor<1x2x2x1xf32>, tensor<2x1x1x1xf32> -> tensor<1x2x2x2xf32>
  %2 = nn.transpose %1 {permutation = array<i64: 0, 3, 1, 2>} : tensor<1x2x2x2xf32> -> tensor<1x2x2x2xf32>
  %3 = nn.transpose %2 {permutation = array<i64: 0, 2, 3, 1>} : tensor<1x2x2x2xf32> -> tensor<1x2x2x2xf32>
  %4 = nn.mul %3, %scale {qmlir.name = #qmlir.name<tensors ["bn_out.scaled"]>} : tensor<1x2x2x2xf32>, tensor<2xf32> -> tensor<1x2x2x2xf32>
  %5 = nn.add %4, %offset {qmlir.name = #qmlir.name<nodes ["bn"], tensors ["bn_out"]>} : tensor<1x2x2x2xf32>, tensor<2xf32> -> tensor<1x2x2x2xf32>
  %6 = nn.transpose %5 {permutation = array<i64: 0, 3, 1, 2>} : tensor<1x2x2x2xf32> -> tensor<1x2x2x2xf32>
  %7 = nn.add %6, %more {qmlir.name = #qmlir.name<nodes ["plus"], tensors ["plus_out"]>} : tensor<1x2x2x2xf32>, tensor<2x1x1xf32> -> tensor<1x2x2x2xf32>
  %8 = nn.relu %7 {qmlir.name = #qmlir.name<nodes ["relu"], tensors ["relu_out"]>} : tensor<1x2x2x2xf32> -> tensor<1x2x2x2xf32>
  %9 = nn.reshape %8 {shape = array<i64: 1, 8>} : tensor<1x2x2x2xf32> -> tensor<1x8xf32>
  %10 = nn.matmul %9, %matrix {qmlir.name = #qmlir.name<nodes ["product"], tensors ["scores"]>} : tensor<1x8xf32>, tensor<8x1xf32> -> tensor<1x1xf32>
  func.return %10 : tensor<1x1xf32>
}
