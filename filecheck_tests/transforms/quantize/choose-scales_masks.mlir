// RUN: qmlir-opt --choose-scales %s | filecheck %s

// The scores have a range, [-2, 2]. Masked scores get 6.9 more below for rows of 2, log(2 · 2 / 2^-8), and the mask saturates.
// CHECK-LABEL: func.func @constant
// CHECK: quant.qcast %mask {{.*}} to tensor<2x2x!quant.uniform<i8:f32, 0.042{{[0-9]*}}:127>>
// CHECK: %[[Y:.*]] = nn.add
// CHECK: quant.qcast %[[Y]] {{.*}} to tensor<2x2x!quant.uniform<i8:f32, 0.042{{[0-9]*}}:{{[0-9]+}}>>
func.func @constant(%x: tensor<2x2xf32>) -> tensor<2x2xf32> {
  calib.observe %x {name = "x", range = [-2.0, 2.0]} : tensor<2x2xf32>
  %mask = nn.constant <tensor<2x2xf32>, [0.0, -3.4028234663852886E+38, 0.0, 0.0]> : tensor<2x2xf32>
  %0 = nn.add %x, %mask : tensor<2x2xf32>, tensor<2x2xf32> -> tensor<2x2xf32>
  %1 = nn.softmax %0 {axis = 1 : i64} : tensor<2x2xf32> -> tensor<2x2xf32>
  func.return %1 : tensor<2x2xf32>
}

// A mask that is chosen at run time has the type in which it is added, and so have the numbers that it is chosen from.
// CHECK-LABEL: func.func @chosen
// CHECK-DAG: quant.qcast %zero {{.*}} to tensor<!quant.uniform<i8:f32, [[STEP:0.042[0-9]*:127]]>>
// CHECK-DAG: quant.qcast %never {{.*}} to tensor<!quant.uniform<i8:f32, [[STEP]]>>
// CHECK: %[[M:.*]] = nn.where
// CHECK: quant.qcast %[[M]] {{.*}} to tensor<1x2x!quant.uniform<i8:f32, [[STEP]]>>
// CHECK: %[[Y:.*]] = nn.add
// CHECK: quant.qcast %[[Y]] {{.*}} to tensor<2x2x!quant.uniform<i8:f32, 0.042
func.func @chosen(%x: tensor<2x2xf32>, %keep: tensor<1x2xi1>) -> tensor<2x2xf32> {
  calib.observe %x {name = "x", range = [-2.0, 2.0]} : tensor<2x2xf32>
  %zero = nn.constant <tensor<f32>, [0.0]> : tensor<f32>
  %never = nn.constant <tensor<f32>, [-1.0E+09]> : tensor<f32>
  %m = nn.where %keep, %zero, %never : tensor<1x2xi1>, tensor<f32>, tensor<f32> -> tensor<1x2xf32>
  %0 = nn.add %x, %m : tensor<2x2xf32>, tensor<1x2xf32> -> tensor<2x2xf32>
  %1 = nn.softmax %0 {axis = 1 : i64} : tensor<2x2xf32> -> tensor<2x2xf32>
  func.return %1 : tensor<2x2xf32>
}

// Scores of which some are replaced: the number that replaces them saturates.
// CHECK-LABEL: func.func @replaced
// CHECK: quant.qcast %never {{.*}} to tensor<!quant.uniform<i8:f32, 0.042
// CHECK: %[[Y:.*]] = nn.where
// CHECK: quant.qcast %[[Y]] {{.*}} to tensor<2x2x!quant.uniform<i8:f32, 0.042
func.func @replaced(%x: tensor<2x2xf32>, %keep: tensor<2x2xi1>) -> tensor<2x2xf32> {
  %r = nn.relu %x : tensor<2x2xf32> -> tensor<2x2xf32>
  calib.observe %x {name = "x", range = [-2.0, 2.0]} : tensor<2x2xf32>
  calib.observe %r {name = "r", range = [-2.0, 2.0]} : tensor<2x2xf32>
  %never = nn.constant <tensor<f32>, [-1.0E+04]> : tensor<f32>
  %0 = nn.where %keep, %r, %never : tensor<2x2xi1>, tensor<2x2xf32>, tensor<f32> -> tensor<2x2xf32>
  %1 = nn.softmax %0 {axis = 1 : i64} : tensor<2x2xf32> -> tensor<2x2xf32>
  func.return %1 : tensor<2x2xf32>
}

// What no softmax reads is no mask: the constant has its own range.
// CHECK-LABEL: func.func @no_softmax
// CHECK: quant.qcast %c {{.*}} to tensor<2x2x!quant.uniform<i8:f32, 392.{{[0-9]*}}:127>>
func.func @no_softmax(%x: tensor<2x2xf32>) -> tensor<2x2xf32> {
  calib.observe %x {name = "x", range = [-2.0, 2.0]} : tensor<2x2xf32>
  %c = nn.constant <tensor<2x2xf32>, [0.0, -1.0E+05, 0.0, 0.0]> : tensor<2x2xf32>
  %0 = nn.add %x, %c : tensor<2x2xf32>, tensor<2x2xf32> -> tensor<2x2xf32>
  calib.observe %0 {name = "y", range = [-100002.0, 2.0]} : tensor<2x2xf32>
  func.return %0 : tensor<2x2xf32>
}

// A search for the greatest needs masked numbers just below all others: 4 / 64 below. What it finds has the same type.
// CHECK-LABEL: func.func @searched
// CHECK: quant.qcast %never {{.*}} to tensor<!quant.uniform<i8:f32, [[STEP:0.015931[0-9]*:1]]>>
// CHECK: %[[Y:.*]] = nn.where
// CHECK: quant.qcast %[[Y]] {{.*}} to tensor<2x2x!quant.uniform<i8:f32, [[STEP]]>>
func.func @searched(%x: tensor<2x2xf32>, %keep: tensor<2x2xi1>) -> (tensor<2x1xi64>, tensor<2x1xf32>) {
  calib.observe %x {name = "x", range = [-2.0, 2.0]} : tensor<2x2xf32>
  %never = nn.constant <tensor<f32>, [0xFF800000]> : tensor<f32>
  %0 = nn.where %keep, %x, %never : tensor<2x2xi1>, tensor<2x2xf32>, tensor<f32> -> tensor<2x2xf32>
  %1 = nn.arg_max %0 {axis = 1 : i64} : tensor<2x2xf32> -> tensor<2x1xi64>
  %2 = nn.reduce_max %0 {axes = array<i64: 1>} : tensor<2x2xf32> -> tensor<2x1xf32>
  func.return %1, %2 : tensor<2x1xi64>, tensor<2x1xf32>
}

// Two layers choose from one constant, each with a range of its own.
// CHECK-LABEL: func.func @shared
// CHECK-DAG: quant.qcast %never {{.*}} to tensor<!quant.uniform<i8:f32, [[FINE:0.042[0-9]*:[0-9]*]]>>
// CHECK-DAG: quant.qcast %never {{.*}} to tensor<!quant.uniform<i8:f32, [[COARSE:0.81[0-9]*:4]]>>
// CHECK: %[[A:.*]] = nn.where
// CHECK: quant.qcast %[[A]] {{.*}}, [[FINE]]>>
// CHECK: %[[B:.*]] = nn.where
// CHECK: quant.qcast %[[B]] {{.*}}, [[COARSE]]>>
func.func @shared(%x: tensor<2x2xf32>, %y: tensor<2x2xf32>, %keep: tensor<2x2xi1>) -> (tensor<2x2xf32>, tensor<2x2xf32>) {
  calib.observe %x {name = "x", range = [-2.0, 2.0]} : tensor<2x2xf32>
  calib.observe %y {name = "y", range = [-100.0, 100.0]} : tensor<2x2xf32>
  %never = nn.constant <tensor<f32>, [0xFF800000]> : tensor<f32>
  %0 = nn.where %keep, %x, %never : tensor<2x2xi1>, tensor<2x2xf32>, tensor<f32> -> tensor<2x2xf32>
  %1 = nn.softmax %0 {axis = 1 : i64} : tensor<2x2xf32> -> tensor<2x2xf32>
  %2 = nn.where %keep, %y, %never : tensor<2x2xi1>, tensor<2x2xf32>, tensor<f32> -> tensor<2x2xf32>
  %3 = nn.softmax %2 {axis = 1 : i64} : tensor<2x2xf32> -> tensor<2x2xf32>
  func.return %1, %3 : tensor<2x2xf32>, tensor<2x2xf32>
}

// A mask that is multiplied at run time: of the number, as much counts as a step of the other factor needs to saturate, (2 + 2 + 6.9) · 255.
// CHECK-LABEL: func.func @multiplied
// CHECK: quant.qcast %number {{.*}} to tensor<!quant.uniform<i8:f32, 10.9{{[0-9]*}}:127>>
func.func @multiplied(%x: tensor<2x2xf32>, %drop: tensor<2x2xf32>) -> tensor<2x2xf32> {
  calib.observe %x {name = "x", range = [-2.0, 2.0]} : tensor<2x2xf32>
  calib.observe %drop {name = "drop", range = [0.0, 1.0]} : tensor<2x2xf32>
  %number = nn.constant <tensor<f32>, [-3.4028234663852886E+38]> : tensor<f32>
  %m = nn.mul %drop, %number : tensor<2x2xf32>, tensor<f32> -> tensor<2x2xf32>
  %0 = nn.add %x, %m : tensor<2x2xf32>, tensor<2x2xf32> -> tensor<2x2xf32>
  %1 = nn.softmax %0 {axis = 1 : i64} : tensor<2x2xf32> -> tensor<2x2xf32>
  func.return %1 : tensor<2x2xf32>
}
