// RUN: qmlir-opt --lower-quant-ops --split-input-file %s | filecheck %s

// Without a zero point there is nothing to subtract.
!q = !quant.uniform<i8:f32, 2.0>

// CHECK-LABEL: func.func @dcast_scalar
// CHECK-NEXT: %[[Q:.*]] = quant.scast %x : !quant.uniform<i8:f32, 2.000000e+00> to i8
// CHECK-NEXT: %[[S:.*]] = arith.constant 2.000000e+00 : f32
// CHECK-NEXT: arith.constant 0 : i8
// CHECK-NEXT: %[[F:.*]] = arith.sitofp %[[Q]] : i8 to f32
// CHECK-NEXT: %[[Y:.*]] = arith.mulf %[[F]], %[[S]] : f32
// CHECK-NEXT: func.return %[[Y]] : f32
func.func @dcast_scalar(%x: !q) -> f32 {
  %0 = quant.dcast %x : !q to f32
  func.return %0 : f32
}

// -----

// Unsigned storage with a range of its own: 200 is -56 of i8, and comparisons are unsigned.
!q = !quant.uniform<u8<2:200>:f16, 0.5:200>

// CHECK-LABEL: func.func @qcast_tensor
// CHECK-NEXT: %[[S:.*]] = arith.constant 5.000000e-01 : f16
// CHECK-NEXT: %[[Z:.*]] = arith.constant -56 : i8
// CHECK-NEXT: %[[TWO:.*]] = arith.constant 2 : index
// CHECK-NEXT: %[[D:.*]] = tensor.dim %x, %[[TWO]] : tensor<4x2x?xf16>
// CHECK-NEXT: %[[SS:.*]] = tensor.splat %[[S]][%[[D]]] : tensor<4x2x?xf16>
// CHECK-NEXT: %[[A:.*]] = arith.divf %x, %[[SS]] : tensor<4x2x?xf16>
// CHECK-NEXT: %[[ZS:.*]] = tensor.splat %[[Z]][%[[D]]] : tensor<4x2x?xi8>
// CHECK-NEXT: %[[ZF:.*]] = arith.uitofp %[[ZS]] : tensor<4x2x?xi8> to tensor<4x2x?xf16>
// CHECK-NEXT: %[[B:.*]] = arith.addf %[[A]], %[[ZF]] : tensor<4x2x?xf16>
// CHECK-NEXT: %[[C:.*]] = arith.fptoui %[[B]] : tensor<4x2x?xf16> to tensor<4x2x?xi8>
// CHECK-NEXT: %[[L:.*]] = arith.constant 2 : i8
// CHECK-NEXT: %[[H:.*]] = arith.constant -56 : i8
// CHECK-NEXT: %[[LS:.*]] = tensor.splat %[[L]][%[[D]]] : tensor<4x2x?xi8>
// CHECK-NEXT: %[[HS:.*]] = tensor.splat %[[H]][%[[D]]] : tensor<4x2x?xi8>
// CHECK-NEXT: %[[E:.*]] = arith.maxui %[[C]], %[[LS]] : tensor<4x2x?xi8>
// CHECK-NEXT: %[[F:.*]] = arith.minui %[[E]], %[[HS]] : tensor<4x2x?xi8>
// CHECK-NEXT: quant.scast %[[F]] : tensor<4x2x?xi8> to tensor<4x2x?x!quant.uniform<u8<2:200>:f16, 5.000000e-01:200>>
func.func @qcast_tensor(%x: tensor<4x2x?xf16>) -> tensor<4x2x?x!q> {
  %0 = quant.qcast %x : tensor<4x2x?xf16> to tensor<4x2x?x!q>
  func.return %0 : tensor<4x2x?x!q>
}

// -----

!q = !quant.uniform<i8:f32, 2.0:10>

// CHECK-LABEL: func.func @qcast_unranked
// CHECK-NEXT: %[[SHAPE:.*]] = shape.shape_of %x : tensor<*xf32> -> tensor<?xindex>
// CHECK-NEXT: %[[N:.*]] = shape.num_elements %[[SHAPE]] : tensor<?xindex> -> index
// CHECK-NEXT: %[[FLAT:.*]] = tensor.from_elements %[[N]] : tensor<1xindex>
// CHECK-NEXT: %[[X:.*]] = tensor.reshape %x(%[[FLAT]]) : (tensor<*xf32>, tensor<1xindex>) -> tensor<?xf32>
// CHECK: %[[Q:.*]] = arith.fptosi %{{.*}} : tensor<?xf32> to tensor<?xi8>
// CHECK-NEXT: %[[R:.*]] = tensor.reshape %[[Q]](%[[SHAPE]]) : (tensor<?xi8>, tensor<?xindex>) -> tensor<*xi8>
// CHECK-NEXT: quant.scast %[[R]] : tensor<*xi8> to tensor<*x!quant.uniform<i8:f32, 2.000000e+00:10>>
func.func @qcast_unranked(%x: tensor<*xf32>) -> tensor<*x!q> {
  %0 = quant.qcast %x : tensor<*xf32> to tensor<*x!q>
  func.return %0 : tensor<*x!q>
}

// -----

// Along an axis, the zero points are always there.
!q = !quant.uniform<u4:f32:1, {2.0, 3.0:15}>

// CHECK-LABEL: func.func @dcast_axis
// CHECK-NEXT: %[[X:.*]] = quant.scast %x
// CHECK-NEXT: %[[S:.*]] = arith.constant dense<[2.000000e+00, 3.000000e+00]> : tensor<2xf32>
// CHECK-NEXT: %[[Z:.*]] = arith.constant dense<[0, -1]> : tensor<2xi4>
// CHECK-NEXT: %[[INIT:.*]] = tensor.empty() : tensor<5x2xf32>
// CHECK-NEXT: %[[Y:.*]] = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d1)>, affine_map<(d0, d1) -> (d1)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} ins(%[[X]], %[[S]], %[[Z]] : tensor<5x2xi4>, tensor<2xf32>, tensor<2xi4>) outs(%[[INIT]] : tensor<5x2xf32>) {
// CHECK-NEXT: ^bb0(%[[Q:.*]]: i4, %[[SCALE:.*]]: f32, %[[POINT:.*]]: i4, %{{.*}}: f32):
// CHECK-NEXT:   %[[A:.*]] = arith.uitofp %[[Q]] : i4 to f32
// CHECK-NEXT:   %[[B:.*]] = arith.uitofp %[[POINT]] : i4 to f32
// CHECK-NEXT:   %[[C:.*]] = arith.subf %[[A]], %[[B]] : f32
// CHECK-NEXT:   %[[D:.*]] = arith.mulf %[[C]], %[[SCALE]] : f32
// CHECK-NEXT:   linalg.yield %[[D]] : f32
// CHECK-NEXT: } -> tensor<5x2xf32>
// CHECK-NEXT: func.return %[[Y]] : tensor<5x2xf32>
func.func @dcast_axis(%x: tensor<5x2x!q>) -> tensor<5x2xf32> {
  %0 = quant.dcast %x : tensor<5x2x!q> to tensor<5x2xf32>
  func.return %0 : tensor<5x2xf32>
}

// -----

// Unknown rank, with an axis: three dimensions.
!q = !quant.uniform<i8:f32:1, {2.0, 3.0}>

// CHECK-LABEL: func.func @dcast_axis_unranked
// CHECK-NEXT: %[[X:.*]] = quant.scast %x
// CHECK-NEXT: %[[SHAPE:.*]] = shape.shape_of %[[X]] : tensor<*xi8> -> tensor<?xindex>
// CHECK-NEXT: %[[HERE:.*]] = arith.constant 1 : index
// CHECK-NEXT: %[[AFTER:.*]] = arith.constant 2 : index
// CHECK-NEXT: %[[HEAD:.*]], %{{.*}} = "shape.split_at"(%[[SHAPE]], %[[HERE]])
// CHECK-NEXT: %[[LEFT:.*]] = shape.num_elements %[[HEAD]]
// CHECK-NEXT: %{{.*}}, %[[TAIL:.*]] = "shape.split_at"(%[[SHAPE]], %[[AFTER]])
// CHECK-NEXT: %[[RIGHT:.*]] = shape.num_elements %[[TAIL]]
// CHECK-NEXT: %[[COUNT:.*]] = arith.constant 2 : index
// CHECK-NEXT: %[[THREE:.*]] = tensor.from_elements %[[LEFT]], %[[COUNT]], %[[RIGHT]] : tensor<3xindex>
// CHECK-NEXT: tensor.reshape %[[X]](%[[THREE]]) : (tensor<*xi8>, tensor<3xindex>) -> tensor<?x2x?xi8>
// CHECK: linalg.generic {indexing_maps = [affine_map<(d0, d1, d2) -> (d0, d1, d2)>, affine_map<(d0, d1, d2) -> (d1)>
// CHECK: tensor.reshape %{{.*}}(%[[SHAPE]]) : (tensor<?x2x?xf32>, tensor<?xindex>) -> tensor<*xf32>
func.func @dcast_axis_unranked(%x: tensor<*x!q>) -> tensor<*xf32> {
  %0 = quant.dcast %x : tensor<*x!q> to tensor<*xf32>
  func.return %0 : tensor<*xf32>
}

// -----

// Blocks: an index divided by the block's length; a dimension without blocks has one.
!q = !quant.uniform<i8:f32:{0:1, 2:2}, {{{2.0, 3.0}}, {{4.0, 5.0:7}}}>

// CHECK-LABEL: func.func @qcast_blocks
// CHECK: arith.constant dense<{{.*}}2.000000e+00, 3.000000e+00{{.*}}4.000000e+00, 5.000000e+00{{.*}}> : tensor<2x1x2xf32>
// CHECK: arith.constant dense<{{.*}}0, 0{{.*}}0, 7{{.*}}> : tensor<2x1x2xi8>
// CHECK: affine_map<(d0, d1, d2) -> (d0, 0, (d2 floordiv 2))>
func.func @qcast_blocks(%x: tensor<2x?x4xf32>) -> tensor<2x?x4x!q> {
  %0 = quant.qcast %x : tensor<2x?x4xf32> to tensor<2x?x4x!q>
  func.return %0 : tensor<2x?x4x!q>
}

// Storage casts are left alone.
// CHECK-LABEL: func.func @scast
// CHECK-NEXT: quant.scast
func.func @scast(%x: tensor<4xi8>) -> tensor<4x!quant.uniform<i8:f32, 2.0>> {
  %0 = quant.scast %x : tensor<4xi8> to tensor<4x!quant.uniform<i8:f32, 2.0>>
  func.return %0 : tensor<4x!quant.uniform<i8:f32, 2.0>>
}
