// RUN: qmlir-opt --qint-to-tosa %s | filecheck %s

// The last window ends where the padded image does: the row below that no window reaches is not padded, and the column
// on the right is cut off.
// CHECK-LABEL: func.func @conv2d
// CHECK: %{{.*}} = "tosa.const_shape"() <{values = dense<[1, 4, 3, 2]> : tensor<4xindex>}> : () -> !tosa.shape<4>
// CHECK: "tosa.slice"(%x, %{{.*}}, %{{.*}}) : (tensor<1x4x4x2xi8>, !tosa.shape<4>, !tosa.shape<4>) -> tensor<1x4x3x2xi8>
// CHECK: "tosa.const"() <{values = dense<-5> : tensor<1xi8>}>
// CHECK: "tosa.const"() <{values = dense<0> : tensor<1xi8>}>
// CHECK: %acc = "tosa.conv2d"(%{{.*}}, %w, %b, %{{.*}}, %{{.*}}) <{pad = array<i64: 1, 0, 0, 0>, stride = array<i64: 2, 2>, dilation = array<i64: 1, 2>, acc_type = i32}>
// CHECK-SAME: -> tensor<1x2x1x3xi32>
func.func @conv2d(%x: tensor<1x4x4x2xi8>, %w: tensor<3x3x2x2xi8>, %b: tensor<3xi32>) -> tensor<1x2x1x3xi32> {
  %acc = qint.conv2d %x, %w, %b {zero_point = -5 : i32, strides = array<i64: 2, 2>, dilations = array<i64: 1, 2>, padding = array<i64: 1, 1, 0, 0>} : tensor<1x4x4x2xi8>, tensor<3x3x2x2xi8>, tensor<3xi32> -> tensor<1x2x1x3xi32>
  func.return %acc : tensor<1x2x1x3xi32>
}

// An image of which nothing is reached is padded before it is cut.
// CHECK-LABEL: func.func @beside
// CHECK: "tosa.pad"(%x, %{{.*}}, %{{.*}}) : (tensor<1x1x1x1xi8>, !tosa.shape<8>, tensor<1xi8>) -> tensor<1x3x1x1xi8>
// CHECK: "tosa.slice"(%{{.*}}) : (tensor<1x3x1x1xi8>, !tosa.shape<4>, !tosa.shape<4>) -> tensor<1x1x1x1xi8>
// CHECK: "tosa.conv2d"({{.*}}) <{pad = array<i64: 0, 0, 0, 0>, stride = array<i64: 3, 1>
func.func @beside(%x: tensor<1x1x1x1xi8>, %w: tensor<1x1x1x1xi8>) -> tensor<1x1x1x1xi32> {
  %acc = qint.conv2d %x, %w {strides = array<i64: 3, 1>, padding = array<i64: 2, 0, 0, 0>} : tensor<1x1x1x1xi8>, tensor<1x1x1x1xi8> -> tensor<1x1x1x1xi32>
  func.return %acc : tensor<1x1x1x1xi32>
}

// CHECK-LABEL: func.func @depthwise
// CHECK: "tosa.reshape"(%w, %{{.*}}) : (tensor<1x2x2x6xi8>, !tosa.shape<4>) -> tensor<2x2x3x2xi8>
// CHECK: "tosa.const"() <{values = dense<0> : tensor<6xi32>}>
// CHECK: "tosa.depthwise_conv2d"
func.func @depthwise(%x: tensor<1x4x4x3xi8>, %w: tensor<1x2x2x6xi8>) -> tensor<1x3x3x6xi32> {
  %acc = qint.depthwise_conv2d %x, %w : tensor<1x4x4x3xi8>, tensor<1x2x2x6xi8> -> tensor<1x3x3x6xi32>
  func.return %acc : tensor<1x3x3x6xi32>
}

// TOSA 1.0 has no fully connected layer; it is a convolution of images of one pixel.
// CHECK-LABEL: func.func @fully_connected
// CHECK: "tosa.conv2d"({{.*}}) {{.*}} : (tensor<2x1x1x4xi8>, tensor<3x1x1x4xi8>, tensor<3xi32>, tensor<1xi8>, tensor<1xi8>) -> tensor<2x1x1x3xi32>
// CHECK: "tosa.reshape"({{.*}}) : (tensor<2x1x1x3xi32>, !tosa.shape<2>) -> tensor<2x3xi32>
func.func @fully_connected(%x: tensor<2x4xi8>, %w: tensor<3x4xi8>) -> tensor<2x3xi32> {
  %acc = qint.fully_connected %x, %w : tensor<2x4xi8>, tensor<3x4xi8> -> tensor<2x3xi32>
  func.return %acc : tensor<2x3xi32>
}

// A batch of one is repeated.
// CHECK-LABEL: func.func @matmul
// CHECK: "tosa.tile"(%a, %{{.*}}) : (tensor<1x3x4xi8>, !tosa.shape<3>) -> tensor<2x3x4xi8>
// CHECK: "tosa.matmul"({{.*}}) : (tensor<2x3x4xi8>, tensor<2x4x5xi8>, tensor<1xi8>, tensor<1xi8>) -> tensor<2x3x5xi32>
func.func @matmul(%a: tensor<1x3x4xi8>, %b: tensor<2x4x5xi8>) -> tensor<2x3x5xi32> {
  %acc = qint.matmul %a, %b : tensor<1x3x4xi8>, tensor<2x4x5xi8> -> tensor<2x3x5xi32>
  func.return %acc : tensor<2x3x5xi32>
}

// TOSA has no groups: each is a convolution of its own.
// CHECK-LABEL: func.func @groups
// CHECK: "tosa.conv2d"({{.*}}) {{.*}} : (tensor<1x2x2x3xi8>, tensor<1x1x1x3xi8>, tensor<1xi32>, tensor<1xi8>, tensor<1xi8>) -> tensor<1x2x2x1xi32>
// CHECK: "tosa.conv2d"
// CHECK: "tosa.concat"({{.*}}) <{axis = 3 : i32}> : (tensor<1x2x2x1xi32>, tensor<1x2x2x1xi32>) -> tensor<1x2x2x2xi32>
func.func @groups(%x: tensor<1x2x2x6xi8>, %w: tensor<2x1x1x3xi8>, %b: tensor<2xi32>) -> tensor<1x2x2x2xi32> {
  %acc = qint.conv2d %x, %w, %b {groups = 2 : i64} : tensor<1x2x2x6xi8>, tensor<2x1x1x3xi8>, tensor<2xi32> -> tensor<1x2x2x2xi32>
  func.return %acc : tensor<1x2x2x2xi32>
}

// Constant weights of up to 255 are i8 less a zero point.
// CHECK-LABEL: func.func @unsigned_weights
// CHECK-NOT: i16
// CHECK: "tosa.const"() <{values = dense<[{{\[-128, 0, 127\]}}]> : tensor<1x3xi8>}>
// CHECK: "tosa.const"() <{values = dense<-118> : tensor<1xi8>}>
// CHECK: "tosa.conv2d"
func.func @unsigned_weights(%x: tensor<2x3xi8>) -> tensor<2x1xi32> {
  %w = nn.constant <tensor<1x3xi16>, [-10, 118, 245]> : tensor<1x3xi16>
  %acc = qint.fully_connected %x, %w : tensor<2x3xi8>, tensor<1x3xi16> -> tensor<2x1xi32>
  func.return %acc : tensor<2x1xi32>
}

// CHECK-LABEL: func.func @pairs
// CHECK: "tosa.matmul"({{.*}}) : (tensor<2x2x2xi8>, tensor<2x2x5xi8>, tensor<1xi8>, tensor<1xi8>) -> tensor<2x2x5xi32>
// CHECK: "tosa.maximum"
// CHECK: "tosa.minimum"
// CHECK: "tosa.reduce_sum"({{.*}}) <{axis = 0 : i32}>
// CHECK: "tosa.add"(%{{.*}}, %{{.*}}) : (tensor<2x5xi32>, tensor<1x5xi32>) -> tensor<2x5xi32>
func.func @pairs(%x: tensor<2x3xi8>, %w: tensor<5x3xi8>, %b: tensor<5xi32>) -> tensor<2x5xi32> {
  %acc = qint.saturating_fully_connected %x, %w, %b {zero_point = -128 : i32} : tensor<2x3xi8>, tensor<5x3xi8>, tensor<5xi32> -> tensor<2x5xi32>
  func.return %acc : tensor<2x5xi32>
}
