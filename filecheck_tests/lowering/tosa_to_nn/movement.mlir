// RUN: qmlir-opt --tosa-to-nn %s | filecheck %s

// CHECK-LABEL: func.func @movement(%x: tensor<2x3xf32> {qmlir.name = #qmlir.name<tensors ["x"]>}) -> tensor<6x4xf32>
// CHECK-NEXT:    %{{.*}} = nn.reshape %x {shape = array<i64: 3, 2>} : tensor<2x3xf32> -> tensor<3x2xf32>
// CHECK-NEXT:    %{{.*}} = nn.pad %{{.*}} {low = array<i64: 0, 2>, high = array<i64: 1, 0>, value = 5.000000e-01 : f32} : tensor<3x2xf32> -> tensor<4x4xf32>
// CHECK-NEXT:    %{{.*}} = nn.slice %{{.*}} {offsets = array<i64: 1, 0>, sizes = array<i64: 3, 4>, strides = array<i64: 1, 1>} : tensor<4x4xf32> -> tensor<3x4xf32>
// CHECK-NEXT:    %{{.*}} = nn.slice %{{.*}} {offsets = array<i64: 0, 3>, sizes = array<i64: 3, 4>, strides = array<i64: 1, -1>} : tensor<3x4xf32> -> tensor<3x4xf32>
// CHECK-NEXT:    %{{.*}} = nn.transpose %{{.*}} {permutation = array<i64: 1, 0>} : tensor<3x4xf32> -> tensor<4x3xf32>
// CHECK-NEXT:    %{{.*}} = nn.transpose %{{.*}} {permutation = array<i64: 1, 0>} : tensor<4x3xf32> -> tensor<3x4xf32>
// CHECK-NEXT:    %{{.*}} = nn.reshape %{{.*}} {shape = array<i64: 1, 3, 1, 4>} : tensor<3x4xf32> -> tensor<1x3x1x4xf32>
// CHECK-NEXT:    %{{.*}} = nn.broadcast %{{.*}} {shape = array<i64: 2, 3, 1, 4>} : tensor<1x3x1x4xf32> -> tensor<2x3x1x4xf32>
// CHECK-NEXT:    %{{.*}} = nn.reshape %{{.*}} {shape = array<i64: 6, 4>} : tensor<2x3x1x4xf32> -> tensor<6x4xf32>
// CHECK-NEXT:    func.return %{{.*}} : tensor<6x4xf32>
func.func @movement(%x: tensor<2x3xf32>) -> tensor<6x4xf32> {
  %s = tosa.const_shape {values = dense<[3, 2]> : tensor<2xindex>} : () -> !tosa.shape<2>
  %p = tosa.const_shape {values = dense<[0, 1, 2, 0]> : tensor<4xindex>} : () -> !tosa.shape<4>
  %o = tosa.const_shape {values = dense<[1, 0]> : tensor<2xindex>} : () -> !tosa.shape<2>
  %l = tosa.const_shape {values = dense<[3, 4]> : tensor<2xindex>} : () -> !tosa.shape<2>
  %t = tosa.const_shape {values = dense<[2, 1]> : tensor<2xindex>} : () -> !tosa.shape<2>
  %v = "tosa.const"() <{values = dense<0.5> : tensor<1xf32>}> : () -> tensor<1xf32>
  %0 = tosa.reshape %x, %s : (tensor<2x3xf32>, !tosa.shape<2>) -> tensor<3x2xf32>
  %1 = tosa.pad %0, %p, %v : (tensor<3x2xf32>, !tosa.shape<4>, tensor<1xf32>) -> tensor<4x4xf32>
  %2 = tosa.slice %1, %o, %l : (tensor<4x4xf32>, !tosa.shape<2>, !tosa.shape<2>) -> tensor<3x4xf32>
  %3 = tosa.reverse %2 {axis = 1 : i32} : (tensor<3x4xf32>) -> tensor<3x4xf32>
  %4 = tosa.transpose %3 {perms = array<i32: 1, 0>} : (tensor<3x4xf32>) -> tensor<4x3xf32>
  %5 = tosa.transpose %4 {perms = array<i32: 1, 0>} : (tensor<4x3xf32>) -> tensor<3x4xf32>
  %6 = tosa.identity %5 : (tensor<3x4xf32>) -> tensor<3x4xf32>
  %7 = tosa.tile %6, %t : (tensor<3x4xf32>, !tosa.shape<2>) -> tensor<6x4xf32>
  func.return %7 : tensor<6x4xf32>
}

// CHECK-LABEL: func.func @concat(%a: tensor<2x3xi8> {qmlir.name = #qmlir.name<tensors ["a"]>}, %b: tensor<1x3xi8> {qmlir.name = #qmlir.name<tensors ["b"]>}) -> tensor<3x3xi8>
// CHECK-NEXT:    %{{.*}} = nn.concat %a, %b {axis = 0 : i64} : tensor<2x3xi8>, tensor<1x3xi8> -> tensor<3x3xi8>
// CHECK-NEXT:    func.return %{{.*}} : tensor<3x3xi8>
func.func @concat(%a: tensor<2x3xi8>, %b: tensor<1x3xi8>) -> tensor<3x3xi8> {
  %0 = tosa.concat %a, %b {axis = 0 : i32} : (tensor<2x3xi8>, tensor<1x3xi8>) -> tensor<3x3xi8>
  func.return %0 : tensor<3x3xi8>
}

// The lists of a batch become one list.
// CHECK-LABEL: func.func @gather(%x: tensor<2x4x3xf32> {qmlir.name = #qmlir.name<tensors ["x"]>}, %i: tensor<2x5xi32> {qmlir.name = #qmlir.name<tensors ["i"]>}) -> tensor<2x5x3xf32>
// CHECK-NEXT:    %{{.*}} = nn.constant <tensor<2x1xi32>, [0, 4]> : tensor<2x1xi32>
// CHECK-NEXT:    %{{.*}} = nn.add %i, %{{.*}} : tensor<2x5xi32>, tensor<2x1xi32> -> tensor<2x5xi32>
// CHECK-NEXT:    %{{.*}} = nn.reshape %{{.*}} {shape = array<i64: 10>} : tensor<2x5xi32> -> tensor<10xi32>
// CHECK-NEXT:    %{{.*}} = nn.reshape %x {shape = array<i64: 8, 3>} : tensor<2x4x3xf32> -> tensor<8x3xf32>
// CHECK-NEXT:    %{{.*}} = nn.gather %{{.*}}, %{{.*}} {axis = 0 : i64} : tensor<8x3xf32>, tensor<10xi32> -> tensor<10x3xf32>
// CHECK-NEXT:    %{{.*}} = nn.reshape %{{.*}} {shape = array<i64: 2, 5, 3>} : tensor<10x3xf32> -> tensor<2x5x3xf32>
// CHECK-NEXT:    func.return %{{.*}} : tensor<2x5x3xf32>
func.func @gather(%x: tensor<2x4x3xf32>, %i: tensor<2x5xi32>) -> tensor<2x5x3xf32> {
  %0 = tosa.gather %x, %i : (tensor<2x4x3xf32>, tensor<2x5xi32>) -> tensor<2x5x3xf32>
  func.return %0 : tensor<2x5x3xf32>
}

// CHECK-LABEL: func.func @scatter(%x: tensor<1x4x3xf32> {qmlir.name = #qmlir.name<tensors ["x"]>}, %i: tensor<1x2xi32> {qmlir.name = #qmlir.name<tensors ["i"]>}, %u: tensor<1x2x3xf32> {qmlir.name = #qmlir.name<tensors ["u"]>}) -> tensor<1x4x3xf32>
// CHECK-NEXT:    %{{.*}} = nn.reshape %i {shape = array<i64: 2>} : tensor<1x2xi32> -> tensor<2xi32>
// CHECK-NEXT:    %{{.*}} = nn.reshape %{{.*}} {shape = array<i64: 2, 1>} : tensor<2xi32> -> tensor<2x1xi32>
// CHECK-NEXT:    %{{.*}} = nn.reshape %x {shape = array<i64: 4, 3>} : tensor<1x4x3xf32> -> tensor<4x3xf32>
// CHECK-NEXT:    %{{.*}} = nn.reshape %u {shape = array<i64: 2, 3>} : tensor<1x2x3xf32> -> tensor<2x3xf32>
// CHECK-NEXT:    %{{.*}} = nn.scatter_nd %{{.*}}, %{{.*}}, %{{.*}} : tensor<4x3xf32>, tensor<2x3xf32>, tensor<2x1xi32> -> tensor<4x3xf32>
// CHECK-NEXT:    %{{.*}} = nn.reshape %{{.*}} {shape = array<i64: 1, 4, 3>} : tensor<4x3xf32> -> tensor<1x4x3xf32>
// CHECK-NEXT:    func.return %{{.*}} : tensor<1x4x3xf32>
func.func @scatter(%x: tensor<1x4x3xf32>, %i: tensor<1x2xi32>, %u: tensor<1x2x3xf32>) -> tensor<1x4x3xf32> {
  %0 = tosa.scatter %x, %i, %u : (tensor<1x4x3xf32>, tensor<1x2xi32>, tensor<1x2x3xf32>) -> tensor<1x4x3xf32>
  func.return %0 : tensor<1x4x3xf32>
}

// A dynamic result of a static operand is static.
// CHECK-LABEL: func.func @dynamic(%x: tensor<2x3xf32> {qmlir.name = #qmlir.name<tensors ["x"]>}) -> tensor<3x2xf32>
// CHECK-NEXT:    %{{.*}} = nn.reshape %x {shape = array<i64: 3, 2>} : tensor<2x3xf32> -> tensor<3x2xf32>
// CHECK-NEXT:    func.return %{{.*}} : tensor<3x2xf32>
func.func @dynamic(%x: tensor<2x3xf32>) -> tensor<?x?xf32> {
  %s = tosa.const_shape {values = dense<[3, -1]> : tensor<2xindex>} : () -> !tosa.shape<2>
  %0 = tosa.reshape %x, %s : (tensor<2x3xf32>, !tosa.shape<2>) -> tensor<?x?xf32>
  func.return %0 : tensor<?x?xf32>
}
