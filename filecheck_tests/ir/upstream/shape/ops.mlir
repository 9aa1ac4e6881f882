// RUN: qmlir-opt %s | qmlir-opt | filecheck %s
// RUN: qmlir-opt --mlir-print-op-generic %s | qmlir-opt | filecheck %s

// CHECK-LABEL: func.func @shapes
func.func @shapes(%x: tensor<*xf32>, %y: tensor<2x?xi8>, %i: index) {
  // CHECK-NEXT: %0 = shape.shape_of %x : tensor<*xf32> -> tensor<?xindex>
  %0 = shape.shape_of %x : tensor<*xf32> -> tensor<?xindex>
  // CHECK-NEXT: %1 = shape.shape_of %y : tensor<2x?xi8> -> tensor<2xindex>
  %1 = shape.shape_of %y : tensor<2x?xi8> -> tensor<2xindex>
  // CHECK-NEXT: %2 = shape.num_elements %0 : tensor<?xindex> -> index
  %2 = shape.num_elements %0 : tensor<?xindex> -> index
  // CHECK-NEXT: %3, %4 = "shape.split_at"(%0, %i) : (tensor<?xindex>, index) -> (tensor<?xindex>, tensor<?xindex>)
  %3, %4 = "shape.split_at"(%0, %i) : (tensor<?xindex>, index) -> (tensor<?xindex>, tensor<?xindex>)
  func.return
}
