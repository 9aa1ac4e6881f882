// RUN: qmlir-opt --fold-qdq %s | filecheck %s

!q = !quant.uniform<i16:f32, 0.001>

// A factor behind elu's own form makes a selu of it.
// CHECK-LABEL: func.func @selu
// CHECK: nn.selu %x {{.*}}alpha = 1.500000e+00 : f32, gamma = 1.250000e+00 : f32
func.func @selu(%x: tensor<4x!q>) -> tensor<4x!q> {
  %f = quant.dcast %x : tensor<4x!q> to tensor<4xf32>
  %zero = nn.constant <tensor<f32>, [0.0]> : tensor<f32>
  %alpha = nn.constant <tensor<f32>, [1.5]> : tensor<f32>
  %gamma = nn.constant <tensor<f32>, [1.25]> : tensor<f32>
  %0 = nn.minimum %zero, %f : tensor<f32>, tensor<4xf32> -> tensor<4xf32>
  %1 = nn.elu %0 {alpha = 1.0 : f32} : tensor<4xf32> -> tensor<4xf32>
  %2 = nn.mul %1, %alpha : tensor<4xf32>, tensor<f32> -> tensor<4xf32>
  %3 = nn.relu %f : tensor<4xf32> -> tensor<4xf32>
  %4 = nn.add %2, %3 : tensor<4xf32>, tensor<4xf32> -> tensor<4xf32>
  %5 = nn.mul %4, %gamma : tensor<4xf32>, tensor<f32> -> tensor<4xf32>
  %6 = quant.qcast %5 : tensor<4xf32> to tensor<4x!q>
  func.return %6 : tensor<4x!q>
}

// A sine by the cosine of something else is no tangent, nor is one whose cosine others read.
// CHECK-LABEL: func.func @no_tangents
// CHECK-NOT: nn.tan
// CHECK: func.return
func.func @no_tangents(%x: tensor<4x!q>, %y: tensor<4x!q>) -> (tensor<4x!q>, tensor<4x!q>, tensor<4xf32>) {
  %f = quant.dcast %x : tensor<4x!q> to tensor<4xf32>
  %g = quant.dcast %y : tensor<4x!q> to tensor<4xf32>
  %0 = nn.sin %f : tensor<4xf32> -> tensor<4xf32>
  %1 = nn.cos %g : tensor<4xf32> -> tensor<4xf32>
  %2 = nn.div %0, %1 : tensor<4xf32>, tensor<4xf32> -> tensor<4xf32>
  %3 = quant.qcast %2 : tensor<4xf32> to tensor<4x!q>
  %4 = nn.sin %g : tensor<4xf32> -> tensor<4xf32>
  %5 = nn.cos %g : tensor<4xf32> -> tensor<4xf32>
  %6 = nn.div %4, %5 : tensor<4xf32>, tensor<4xf32> -> tensor<4xf32>
  %7 = quant.qcast %6 : tensor<4xf32> to tensor<4x!q>
  func.return %3, %7, %5 : tensor<4x!q>, tensor<4x!q>, tensor<4xf32>
}

// The two factors of a celu are reciprocal; the thresholds of a shrink lie on both sides of 0, at the same distance.
// CHECK-LABEL: func.func @parameters_that_do_not_fit
// CHECK-NOT: nn.celu
// CHECK-NOT: nn.shrink
// CHECK: func.return
func.func @parameters_that_do_not_fit(%x: tensor<4x!q>) -> (tensor<4x!q>, tensor<4x!q>) {
  %f = quant.dcast %x : tensor<4x!q> to tensor<4xf32>
  %zero = nn.constant <tensor<f32>, [0.0]> : tensor<f32>
  %alpha = nn.constant <tensor<f32>, [2.0]> : tensor<f32>
  %third = nn.constant <tensor<f32>, [0.3]> : tensor<f32>
  %least = nn.constant <tensor<f32>, [-1.0]> : tensor<f32>
  %0 = nn.mul %f, %third : tensor<4xf32>, tensor<f32> -> tensor<4xf32>
  %1 = nn.minimum %0, %zero : tensor<4xf32>, tensor<f32> -> tensor<4xf32>
  %2 = nn.elu %1 {alpha = 1.0 : f32} : tensor<4xf32> -> tensor<4xf32>
  %3 = nn.mul %2, %alpha : tensor<4xf32>, tensor<f32> -> tensor<4xf32>
  %4 = nn.relu %f : tensor<4xf32> -> tensor<4xf32>
  %5 = nn.add %4, %3 : tensor<4xf32>, tensor<4xf32> -> tensor<4xf32>
  %6 = quant.qcast %5 : tensor<4xf32> to tensor<4x!q>
  %7 = nn.less %alpha, %f : tensor<f32>, tensor<4xf32> -> tensor<4xi1>
  %8 = nn.less %f, %least : tensor<4xf32>, tensor<f32> -> tensor<4xi1>
  %9 = nn.sub %f, %third : tensor<4xf32>, tensor<f32> -> tensor<4xf32>
  %10 = nn.add %f, %third : tensor<4xf32>, tensor<f32> -> tensor<4xf32>
  %11 = nn.where %7, %9, %zero : tensor<4xi1>, tensor<4xf32>, tensor<f32> -> tensor<4xf32>
  %12 = nn.where %8, %10, %11 : tensor<4xi1>, tensor<4xf32>, tensor<4xf32> -> tensor<4xf32>
  %13 = quant.qcast %12 : tensor<4xf32> to tensor<4x!q>
  func.return %6, %13 : tensor<4x!q>, tensor<4x!q>
}
