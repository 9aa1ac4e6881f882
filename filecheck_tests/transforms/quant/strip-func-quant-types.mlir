// RUN: qmlir-opt --strip-func-quant-types --allow-unregistered-dialect %s | filecheck %s

!q = !quant.uniform<i8:f32, 0.5:3>
!c = !quant.uniform<u4:f32:0, {0.5,0.25}>

// Arguments: what used the quantized value goes on to.
// CHECK-LABEL: func.func @arguments(%x: i8, %y: tensor<2x?xi4>, %z: tensor<*xi8>, %f: f32) {
// CHECK-NEXT: %[[Z:.*]] = quant.scast %z : tensor<*xi8> to tensor<*x!quant.uniform<i8:f32, 5.000000e-01:3>>
// CHECK-NEXT: %[[Y:.*]] = quant.scast %y : tensor<2x?xi4> to tensor<2x?x!quant.uniform<u4:f32:0, {5.000000e-01,2.500000e-01}>>
// CHECK-NEXT: %[[X:.*]] = quant.scast %x : i8 to !quant.uniform<i8:f32, 5.000000e-01:3>
// CHECK-NEXT: "test.use"(%[[X]], %[[Y]], %[[Z]], %f)
func.func @arguments(%x: !q, %y: tensor<2x?x!c>, %z: tensor<*x!q>, %f: f32) {
  "test.use"(%x, %y, %z, %f) : (!q, tensor<2x?x!c>, tensor<*x!q>, f32) -> ()
  func.return
}

// Results are cast where they are defined; an argument that goes out as it came in needs no cast.
// CHECK-LABEL: func.func @results(%x: tensor<4xi8>) -> (tensor<4xi8>, tensor<4xi8>) {
// CHECK-NEXT: %[[Y:.*]] = "test.make"()
// CHECK-NEXT: %[[STORED:.*]] = quant.scast %[[Y]] : tensor<4x!quant.uniform<i8:f32, 5.000000e-01:3>> to tensor<4xi8>
// CHECK-NEXT: "test.other"()
// CHECK-NEXT: func.return %[[STORED]], %x : tensor<4xi8>, tensor<4xi8>
func.func @results(%x: tensor<4x!q>) -> (tensor<4x!q>, tensor<4x!q>) {
  %y = "test.make"() : () -> tensor<4x!q>
  "test.other"() : () -> ()
  func.return %y, %x : tensor<4x!q>, tensor<4x!q>
}

// Calls, and functions without a body.
// CHECK-LABEL: func.func private @callee(tensor<4xi8>) -> tensor<4xi8>
// CHECK-LABEL: func.func @calls(%x: tensor<4xf32>) -> tensor<4xf32> {
// CHECK-NEXT: %[[Q:.*]] = quant.qcast %x
// CHECK-NEXT: %[[A:.*]] = quant.scast %[[Q]]
// CHECK-NEXT: %[[B:.*]] = func.call @callee(%[[A]]) : (tensor<4xi8>) -> tensor<4xi8>
// CHECK-NEXT: %[[C:.*]] = func.call @callee(%[[B]]) : (tensor<4xi8>) -> tensor<4xi8>
// CHECK-NEXT: %[[R:.*]] = quant.scast %[[C]]
// CHECK-NEXT: quant.dcast %[[R]]
func.func private @callee(tensor<4x!q>) -> tensor<4x!q>
func.func @calls(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = quant.qcast %x : tensor<4xf32> to tensor<4x!q>
  %1 = func.call @callee(%0) : (tensor<4x!q>) -> tensor<4x!q>
  %2 = func.call @callee(%1) : (tensor<4x!q>) -> tensor<4x!q>
  %3 = quant.dcast %2 : tensor<4x!q> to tensor<4xf32>
  func.return %3 : tensor<4xf32>
}

// Nothing is quantized: nothing changes.
// CHECK-LABEL: func.func @float(%x: tensor<4xf32>) -> tensor<4xf32> {
// CHECK-NEXT: func.return %x : tensor<4xf32>
func.func @float(%x: tensor<4xf32>) -> tensor<4xf32> {
  func.return %x : tensor<4xf32>
}

// Types that nothing computes with are stored all the same: blocks, and integers of unknown meaning.
!s = !quant.uniform<u8:f32:{0:1, 1:2}, {{2.0:120, 3.0:127}, {4.0, 5.0}}>
!a = !quant.any<i4:f32>

// CHECK-LABEL: func.func @foreign(%x: tensor<2x4xi8>, %y: tensor<2xi4>) -> (tensor<2x4xi8>, tensor<2xi4>) {
// CHECK-NEXT: func.return %x, %y
func.func @foreign(%x: tensor<2x4x!s>, %y: tensor<2x!a>) -> (tensor<2x4x!s>, tensor<2x!a>) {
  func.return %x, %y : tensor<2x4x!s>, tensor<2x!a>
}

// The number 0 of a state is its zero point, which plain integers have to be told.
// CHECK-LABEL: func.func @state
// CHECK-SAME: (%s: tensor<4xi8> {qmlir.state = #qmlir.state<0, reset = #qmlir.weights<tensor<i8>, [3]>>}) -> tensor<4xi8>
func.func @state(%s: tensor<4x!quant.uniform<i8:f32, 0.5:3>> {qmlir.state = #qmlir.state<0>}) -> tensor<4x!quant.uniform<i8:f32, 0.5:3>> {
  func.return %s : tensor<4x!quant.uniform<i8:f32, 0.5:3>>
}
