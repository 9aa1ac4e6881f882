// RUN: qmlir-opt --qint-to-linalg %s | filecheck %s

// CHECK-LABEL: func.func @slice
// CHECK-NEXT: tensor.extract_slice %x[0, 1] [2, 3] [1, 2] : tensor<2x6xi8> to tensor<2x3xi8>
func.func @slice(%x: tensor<2x6xi8>) -> tensor<2x3xi8> {
  %y = nn.slice %x {offsets = array<i64: 0, 1>, sizes = array<i64: 2, 3>, strides = array<i64: 1, 2>} : tensor<2x6xi8> -> tensor<2x3xi8>
  func.return %y : tensor<2x3xi8>
}

// Element i is 5 − 2i: no operand is read at a place that decreases with a loop.
// CHECK-LABEL: func.func @backwards
// CHECK: linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>]
// CHECK-DAG: arith.constant -2 : index
// CHECK-DAG: arith.constant 5 : index
// CHECK: linalg.index 0 : index
// CHECK: tensor.extract %x[%{{.*}}] : tensor<6xi8>
func.func @backwards(%x: tensor<6xi8>) -> tensor<3xi8> {
  %y = nn.slice %x {offsets = array<i64: 5>, sizes = array<i64: 3>, strides = array<i64: -2>} : tensor<6xi8> -> tensor<3xi8>
  func.return %y : tensor<3xi8>
}

// CHECK-LABEL: func.func @nothing
// CHECK-NEXT: tensor.empty() : tensor<0xi8>
// CHECK-NEXT: return
func.func @nothing(%x: tensor<6xi8>) -> tensor<0xi8> {
  %y = nn.slice %x {offsets = array<i64: 5>, sizes = array<i64: 0>, strides = array<i64: 1>} : tensor<6xi8> -> tensor<0xi8>
  func.return %y : tensor<0xi8>
}

// A negative index counts from the end; then it is brought inside.
// CHECK-LABEL: func.func @gather
// CHECK: linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d1)>, affine_map<(d0, d1) -> (d0, d1)>]
// CHECK: arith.extsi %{{.*}} : i32 to i64
// CHECK: arith.cmpi slt
// CHECK: arith.select
// CHECK: arith.maxsi
// CHECK: arith.minsi
// CHECK: tensor.extract %x[%{{.*}}, %{{.*}}] : tensor<2x5xi8>
func.func @gather(%x: tensor<2x5xi8>, %i: tensor<3xi32>) -> tensor<2x3xi8> {
  %y = nn.gather %x, %i {axis = 1 : i64} : tensor<2x5xi8>, tensor<3xi32> -> tensor<2x3xi8>
  func.return %y : tensor<2x3xi8>
}

// CHECK-LABEL: func.func @gather_nd
// CHECK: linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, 0)>, affine_map<(d0, d1) -> (d0, 1)>, affine_map<(d0, d1) -> (d0, d1)>]
// CHECK: tensor.extract %x[%{{.*}}, %{{.*}}, %{{.*}}] : tensor<2x5x4xi8>
func.func @gather_nd(%x: tensor<2x5x4xi8>, %i: tensor<3x2xi64>) -> tensor<3x4xi8> {
  %y = nn.gather_nd %x, %i : tensor<2x5x4xi8>, tensor<3x2xi64> -> tensor<3x4xi8>
  func.return %y : tensor<3x4xi8>
}

// The greatest number of an update that names a row, then that update or the old row.
// CHECK-LABEL: func.func @scatter_nd
// CHECK: linalg.fill
// CHECK: linalg.generic {{.*}} iterator_types = ["parallel", "reduction"]} ins(%{{.*}} : tensor<3x1xi64>) outs(%{{.*}} : tensor<5xi32>)
// CHECK: arith.maxsi
// CHECK: linalg.generic {{.*}} iterator_types = ["parallel", "parallel"]} ins(%x, %{{.*}} : tensor<5x4xi8>, tensor<5xi32>)
// CHECK: tensor.extract %u
func.func @scatter_nd(%x: tensor<5x4xi8>, %u: tensor<3x4xi8>, %i: tensor<3x1xi64>) -> tensor<5x4xi8> {
  %y = nn.scatter_nd %x, %u, %i : tensor<5x4xi8>, tensor<3x4xi8>, tensor<3x1xi64> -> tensor<5x4xi8>
  func.return %y : tensor<5x4xi8>
}

// CHECK-LABEL: func.func @scatter_nothing
// CHECK-NEXT: return %x
func.func @scatter_nothing(%x: tensor<5x4xi8>, %u: tensor<0x4xi8>, %i: tensor<0x1xi64>) -> tensor<5x4xi8> {
  %y = nn.scatter_nd %x, %u, %i : tensor<5x4xi8>, tensor<0x4xi8>, tensor<0x1xi64> -> tensor<5x4xi8>
  func.return %y : tensor<5x4xi8>
}
