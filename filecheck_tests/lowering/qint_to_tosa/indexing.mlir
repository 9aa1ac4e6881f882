// RUN: qmlir-opt --qint-to-tosa %s | filecheck %s

// CHECK-LABEL: func.func @slice
// CHECK-DAG: "tosa.const_shape"() <{values = dense<[0, 1]> : tensor<2xindex>}>
// CHECK-DAG: "tosa.const_shape"() <{values = dense<[2, 3]> : tensor<2xindex>}>
// CHECK: "tosa.slice"(%x, %{{.*}}, %{{.*}}) : (tensor<2x6xi8>, !tosa.shape<2>, !tosa.shape<2>) -> tensor<2x3xi8>
func.func @slice(%x: tensor<2x6xi8>) -> tensor<2x3xi8> {
  %y = nn.slice %x {offsets = array<i64: 0, 1>, sizes = array<i64: 2, 3>, strides = array<i64: 1, 1>} : tensor<2x6xi8> -> tensor<2x3xi8>
  func.return %y : tensor<2x3xi8>
}

// Reversed, then every second element: the first of each row of two.
// CHECK-LABEL: func.func @backwards
// CHECK: "tosa.reverse"(%x) <{axis = 0 : i32}> : (tensor<6xi8>) -> tensor<6xi8>
// CHECK: "tosa.slice"({{.*}}) : (tensor<6xi8>, !tosa.shape<1>, !tosa.shape<1>) -> tensor<5xi8>
// CHECK: "tosa.pad"({{.*}}) : (tensor<1x5x1xi8>, !tosa.shape<6>, tensor<1xi8>) -> tensor<1x6x1xi8>
// CHECK: "tosa.reshape"({{.*}}) : (tensor<1x6x1xi8>, !tosa.shape<4>) -> tensor<1x3x2x1xi8>
// CHECK: "tosa.slice"({{.*}}) : (tensor<1x3x2x1xi8>, !tosa.shape<4>, !tosa.shape<4>) -> tensor<1x3x1x1xi8>
// CHECK: "tosa.reshape"({{.*}}) : (tensor<1x3x1x1xi8>, !tosa.shape<1>) -> tensor<3xi8>
func.func @backwards(%x: tensor<6xi8>) -> tensor<3xi8> {
  %y = nn.slice %x {offsets = array<i64: 5>, sizes = array<i64: 3>, strides = array<i64: -2>} : tensor<6xi8> -> tensor<3xi8>
  func.return %y : tensor<3xi8>
}

// A negative index counts from the end; then it is brought inside.
// CHECK-LABEL: func.func @gather
// CHECK: "tosa.greater_equal"
// CHECK: "tosa.add"(%i,
// CHECK: "tosa.select"
// CHECK: "tosa.maximum"
// CHECK: "tosa.minimum"
// CHECK: "tosa.tile"({{.*}}) : (tensor<1x3xi32>, !tosa.shape<2>) -> tensor<2x3xi32>
// CHECK: "tosa.gather"({{.*}}) : (tensor<2x5x1xi8>, tensor<2x3xi32>) -> tensor<2x3x1xi8>
func.func @gather(%x: tensor<2x5xi8>, %i: tensor<3xi32>) -> tensor<2x3xi8> {
  %y = nn.gather %x, %i {axis = 1 : i64} : tensor<2x5xi8>, tensor<3xi32> -> tensor<2x3xi8>
  func.return %y : tensor<2x3xi8>
}

// Constant indices are places already, and of 32 bits.
// CHECK-LABEL: func.func @constant_indices
// CHECK-NOT: i64>
// CHECK: "tosa.const"() <{values = dense<[4, 0, 4]> : tensor<3xi32>}>
// CHECK: "tosa.gather"
func.func @constant_indices(%x: tensor<2x5xi8>) -> tensor<2x3xi8> {
  %i = nn.constant <tensor<3xi64>, [-1, 0, 9]> : tensor<3xi64>
  %y = nn.gather %x, %i {axis = 1 : i64} : tensor<2x5xi8>, tensor<3xi64> -> tensor<2x3xi8>
  func.return %y : tensor<2x3xi8>
}

// CHECK-LABEL: func.func @gather_nd
// CHECK: "tosa.reshape"(%x, %{{.*}}) : (tensor<2x5x4xi8>, !tosa.shape<3>) -> tensor<1x10x4xi8>
// CHECK: "tosa.const"() <{values = dense<[{{\[5, 1\]}}]> : tensor<1x2xi32>}>
// CHECK: "tosa.mul"
// CHECK: "tosa.reduce_sum"({{.*}}) <{axis = 1 : i32}> : (tensor<3x2xi32>) -> tensor<3x1xi32>
// CHECK: "tosa.gather"({{.*}}) : (tensor<1x10x4xi8>, tensor<1x3xi32>) -> tensor<1x3x4xi8>
func.func @gather_nd(%x: tensor<2x5x4xi8>, %i: tensor<3x2xi32>) -> tensor<3x4xi8> {
  %y = nn.gather_nd %x, %i : tensor<2x5x4xi8>, tensor<3x2xi32> -> tensor<3x4xi8>
  func.return %y : tensor<3x4xi8>
}

// TOSA's own scatter leaves open what two updates of one row do.
// CHECK-LABEL: func.func @scatter_nd
// CHECK: "tosa.equal"({{.*}}) : (tensor<3x1xi32>, tensor<1x5xi32>) -> tensor<3x5xi1>
// CHECK: "tosa.reduce_max"({{.*}}) <{axis = 0 : i32}> : (tensor<3x5xi32>) -> tensor<1x5xi32>
// CHECK: "tosa.gather"({{.*}}) : (tensor<1x3x4xi8>, tensor<1x5xi32>) -> tensor<1x5x4xi8>
// CHECK: "tosa.select"
func.func @scatter_nd(%x: tensor<5x4xi8>, %u: tensor<3x4xi8>, %i: tensor<3x1xi32>) -> tensor<5x4xi8> {
  %y = nn.scatter_nd %x, %u, %i : tensor<5x4xi8>, tensor<3x4xi8>, tensor<3x1xi32> -> tensor<5x4xi8>
  func.return %y : tensor<5x4xi8>
}
