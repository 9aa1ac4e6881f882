// RUN: qmlir-opt --nn-to-qint --elide-weights %s | filecheck %s

// LiteRT compares what stored integers stand for in rounded steps of 1/256: tables list it.
module attributes {qmlir.numerics = "litert-reference"} {
// CHECK-LABEL: @steps
func.func @steps(%a: tensor<4x!quant.uniform<i8:f32, 0.001>>, %b: tensor<4x!quant.uniform<i8:f32, 0.5>>) -> tensor<4xi1> {
  // CHECK: %[[A:.*]] = quant.scast %a
  // CHECK: %[[B:.*]] = quant.scast %b
  // CHECK: %[[L:.*]] = qint.lookup %[[A]], {{.*}} : tensor<4xi8> -> tensor<4xi32>
  // CHECK: %[[R:.*]] = qint.lookup %[[B]], {{.*}} : tensor<4xi8> -> tensor<4xi32>
  // CHECK: nn.less %[[L]], %[[R]] : tensor<4xi32>, tensor<4xi32> -> tensor<4xi1>
  %0 = quant.dcast %a : tensor<4x!quant.uniform<i8:f32, 0.001>> to tensor<4xf32>
  %1 = quant.dcast %b : tensor<4x!quant.uniform<i8:f32, 0.5>> to tensor<4xf32>
  %2 = nn.less %0, %1 {qmlir.integer_operator} : tensor<4xf32>, tensor<4xf32> -> tensor<4xi1>
  func.return %2 : tensor<4xi1>
}

// Where no two integers of one scale come together, they compare as they are.
// CHECK-LABEL: @alike
func.func @alike(%a: tensor<4x!quant.uniform<i8:f32, 0.5>>, %b: tensor<4x!quant.uniform<i8:f32, 0.5>>) -> tensor<4xi1> {
  // CHECK-NOT: qint.lookup
  // CHECK: nn.equal {{.*}} : tensor<4xi8>, tensor<4xi8> -> tensor<4xi1>
  %0 = quant.dcast %a : tensor<4x!quant.uniform<i8:f32, 0.5>> to tensor<4xf32>
  %1 = quant.dcast %b : tensor<4x!quant.uniform<i8:f32, 0.5>> to tensor<4xf32>
  %2 = nn.equal %0, %1 {qmlir.integer_operator} : tensor<4xf32>, tensor<4xf32> -> tensor<4xi1>
  func.return %2 : tensor<4xi1>
}

// Which is less of integers of 16 bits their storage says, whatever their scales.
// CHECK-LABEL: @stored
func.func @stored(%a: tensor<4x!quant.uniform<i16:f32, 0.5>>, %b: tensor<4x!quant.uniform<i16:f32, 0.001>>) -> tensor<4xi1> {
  // CHECK-NOT: qint.lookup
  // CHECK: nn.less_equal {{.*}} : tensor<4xi16>, tensor<4xi16> -> tensor<4xi1>
  %0 = quant.dcast %a : tensor<4x!quant.uniform<i16:f32, 0.5>> to tensor<4xf32>
  %1 = quant.dcast %b : tensor<4x!quant.uniform<i16:f32, 0.001>> to tensor<4xf32>
  %2 = nn.less_equal %0, %1 {qmlir.integer_operator} : tensor<4xf32>, tensor<4xf32> -> tensor<4xi1>
  func.return %2 : tensor<4xi1>
}

// What the model compares behind casts is compared on floats.
// CHECK-LABEL: @floats
func.func @floats(%a: tensor<4x!quant.uniform<i8:f32, 0.001>>, %b: tensor<4x!quant.uniform<i8:f32, 0.5>>) -> tensor<4xi1> {
  // CHECK: nn.less {{.*}} : tensor<4xf32>, tensor<4xf32> -> tensor<4xi1>
  %0 = quant.dcast %a {qmlir.on_floats} : tensor<4x!quant.uniform<i8:f32, 0.001>> to tensor<4xf32>
  %1 = quant.dcast %b {qmlir.on_floats} : tensor<4x!quant.uniform<i8:f32, 0.5>> to tensor<4xf32>
  %2 = nn.less %0, %1 : tensor<4xf32>, tensor<4xf32> -> tensor<4xi1>
  func.return %2 : tensor<4xi1>
}
}
