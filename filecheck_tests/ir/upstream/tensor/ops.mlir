// RUN: qmlir-opt %s | qmlir-opt | filecheck %s

// Ranks and sizes may be unknown.
// CHECK-LABEL: func.func @reshape
func.func @reshape(%x: tensor<*xf32>, %y: tensor<2x3xf32>, %one: tensor<1xindex>, %any: tensor<?xi32>) {
  // CHECK-NEXT: tensor.reshape %x(%one) : (tensor<*xf32>, tensor<1xindex>) -> tensor<?xf32>
  %0 = tensor.reshape %x(%one) : (tensor<*xf32>, tensor<1xindex>) -> tensor<?xf32>
  // CHECK-NEXT: tensor.reshape %0(%any) : (tensor<?xf32>, tensor<?xi32>) -> tensor<*xf32>
  %1 = tensor.reshape %0(%any) : (tensor<?xf32>, tensor<?xi32>) -> tensor<*xf32>
  // CHECK-NEXT: tensor.reshape %y(%one) : (tensor<2x3xf32>, tensor<1xindex>) -> tensor<6xf32>
  %2 = tensor.reshape %y(%one) : (tensor<2x3xf32>, tensor<1xindex>) -> tensor<6xf32>
  func.return
}
