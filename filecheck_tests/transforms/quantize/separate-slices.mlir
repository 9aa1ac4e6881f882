// RUN: qmlir-opt --separate-slices %s | filecheck %s
// RUN: qmlir-opt --apply-policy="settings={precision=int16}" --separate-slices %s | filecheck %s --check-prefix=INT16
// RUN: qmlir-opt --apply-policy="settings={schema=symmetric}" --separate-slices %s | filecheck %s

// The slice near 0 has a function of its own, the other keeps the one that both had. In 16 bits neither needs one.
// CHECK-LABEL: func.func @gates
// CHECK-NEXT: %[[G:.*]] = nn.sigmoid %x {qmlir.name = #qmlir.name<nodes ["lstm"], tensors ["gates"]>}
// CHECK-NEXT: calib.observe %[[G]] {name = "gates"
// CHECK-NEXT: %[[A:.*]] = nn.slice %[[G]] {offsets = array<i64: 0, 0>
// CHECK-NEXT: %[[X:.*]] = nn.slice %x {offsets = array<i64: 0, 4>
// CHECK-NEXT: %[[B:.*]] = nn.sigmoid %[[X]] {qmlir.name = #qmlir.name<nodes ["lstm"], tensors ["small"]>}
// CHECK-NEXT: calib.observe %[[B]] {name = "small"
// CHECK-NEXT: func.return %[[A]], %[[B]]
// INT16-LABEL: func.func @gates
// INT16: %[[G:.*]] = nn.sigmoid %x
// INT16-NOT: calib.observe {{.*}} "small"
// INT16: nn.slice %[[G]] {{.*}}offsets = array<i64: 0, 4>
// INT16-NEXT: func.return
func.func @gates(%x: tensor<1x8xf32>) -> (tensor<1x4xf32>, tensor<1x4xf32>) {
  %0 = nn.sigmoid %x {qmlir.name = #qmlir.name<nodes ["lstm"], tensors ["gates"]>} : tensor<1x8xf32> -> tensor<1x8xf32>
  calib.observe %0 {name = "gates", range = [0.0, 0.9]} : tensor<1x8xf32>
  %1 = nn.slice %0 {offsets = array<i64: 0, 0>, sizes = array<i64: 1, 4>, strides = array<i64: 1, 1>} : tensor<1x8xf32> -> tensor<1x4xf32>
  calib.observe %1 {name = "large", range = [0.1, 0.9]} : tensor<1x4xf32>
  %2 = nn.slice %0 {offsets = array<i64: 0, 4>, sizes = array<i64: 1, 4>, strides = array<i64: 1, 1>, qmlir.name = #qmlir.name<tensors ["small"]>} : tensor<1x8xf32> -> tensor<1x4xf32>
  calib.observe %2 {name = "small", range = [0.0, 0.01]} : tensor<1x4xf32>
  func.return %1, %2 : tensor<1x4xf32>, tensor<1x4xf32>
}

// A movement between the function and the slice moves too; what nothing reads any more goes.
// CHECK-LABEL: func.func @through_a_reshape
// CHECK-NEXT: %[[R:.*]] = nn.reshape %x
// CHECK-NEXT: %[[X:.*]] = nn.slice %[[R]]
// CHECK-NEXT: %[[Y:.*]] = nn.tanh %[[X]] {qmlir.name = #qmlir.name<absorbed ["whole"]>}
// CHECK-NEXT: calib.observe %[[Y]] {name = "part"
// CHECK-NEXT: func.return %[[Y]]
func.func @through_a_reshape(%x: tensor<8xf32>) -> tensor<1x4xf32> {
  %0 = nn.tanh %x {qmlir.name = #qmlir.name<tensors ["whole"]>} : tensor<8xf32> -> tensor<8xf32>
  calib.observe %0 {name = "whole", range = [-0.9, 0.9]} : tensor<8xf32>
  %1 = nn.reshape %0 {shape = array<i64: 2, 4>} : tensor<8xf32> -> tensor<2x4xf32>
  %2 = nn.slice %1 {offsets = array<i64: 1, 0>, sizes = array<i64: 1, 4>, strides = array<i64: 1, 1>} : tensor<2x4xf32> -> tensor<1x4xf32>
  calib.observe %2 {name = "part", range = [-0.001, 0.001]} : tensor<1x4xf32>
  func.return %2 : tensor<1x4xf32>
}

// The slice of a slice is judged by its own range: the outer one stays.
// CHECK-LABEL: func.func @nested
// CHECK: %[[S:.*]] = nn.sigmoid %x
// CHECK: %[[OUTER:.*]] = nn.slice %[[S]] {offsets = array<i64: 4>
// CHECK-NEXT: nn.slice %x {offsets = array<i64: 4>
// CHECK-NEXT: %[[X:.*]] = nn.slice
// CHECK-NEXT: %[[INNER:.*]] = nn.sigmoid %[[X]]
// CHECK-NEXT: calib.observe %[[INNER]] {name = "inner"
// CHECK-NEXT: func.return %[[OUTER]], %[[INNER]]
func.func @nested(%x: tensor<8xf32>) -> (tensor<4xf32>, tensor<2xf32>) {
  %0 = nn.sigmoid %x : tensor<8xf32> -> tensor<8xf32>
  calib.observe %0 {name = "whole", range = [0.0, 0.9]} : tensor<8xf32>
  %1 = nn.slice %0 {offsets = array<i64: 4>, sizes = array<i64: 4>, strides = array<i64: 1>} : tensor<8xf32> -> tensor<4xf32>
  calib.observe %1 {name = "outer", range = [0.0, 0.5]} : tensor<4xf32>
  %2 = nn.slice %1 {offsets = array<i64: 2>, sizes = array<i64: 2>, strides = array<i64: 1>} : tensor<4xf32> -> tensor<2xf32>
  calib.observe %2 {name = "inner", range = [0.0, 0.001]} : tensor<2xf32>
  func.return %1, %2 : tensor<4xf32>, tensor<2xf32>
}

// A softmax is no function of one element, and a relu has no fixed scale.
// CHECK-LABEL: func.func @others
// CHECK-NEXT: %[[S:.*]] = nn.softmax %x
// CHECK: nn.slice %[[S]]
// CHECK: %[[R:.*]] = nn.relu %x
// CHECK: nn.slice %[[R]]
func.func @others(%x: tensor<8xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %0 = nn.softmax %x {axis = 0 : i64} : tensor<8xf32> -> tensor<8xf32>
  calib.observe %0 {name = "softmax", range = [0.0, 0.9]} : tensor<8xf32>
  %1 = nn.slice %0 {offsets = array<i64: 4>, sizes = array<i64: 4>, strides = array<i64: 1>} : tensor<8xf32> -> tensor<4xf32>
  calib.observe %1 {name = "s", range = [0.0, 0.001]} : tensor<4xf32>
  %2 = nn.relu %x : tensor<8xf32> -> tensor<8xf32>
  calib.observe %2 {name = "relu", range = [0.0, 0.9]} : tensor<8xf32>
  %3 = nn.slice %2 {offsets = array<i64: 4>, sizes = array<i64: 4>, strides = array<i64: 1>} : tensor<8xf32> -> tensor<4xf32>
  calib.observe %3 {name = "r", range = [0.0, 0.001]} : tensor<4xf32>
  func.return %1, %3 : tensor<4xf32>, tensor<4xf32>
}
