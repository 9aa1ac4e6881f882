// Names, decisions, opaque operations and constants in memory.

// RUN: qmlir-opt %s | filecheck %s
// RUN: qmlir-opt --mlir-print-op-generic %s | filecheck %s --check-prefix=GENERIC
// RUN: qmlir-opt --mlir-print-op-generic %s | qmlir-opt | filecheck %s

// CHECK-LABEL: func.func @main
// CHECK-SAME: (%x: tensor<2xf32> {qmlir.name = #qmlir.name<tensors ["x"]>})
func.func @main(%x: tensor<2xf32> {qmlir.name = #qmlir.name<tensors ["x"]>}) {
  // CHECK: nn.relu %x {qmlir.name = #qmlir.name<nodes ["conv1", "relu1"], tensors ["y"], absorbed ["conv1_out"]>} :
  // GENERIC: "nn.relu"(%{{.*}}) {qmlir.name = #qmlir.name<nodes ["conv1", "relu1"], tensors ["y"], absorbed ["conv1_out"]>} :
  %0 = nn.relu %x {qmlir.name = #qmlir.name<nodes ["conv1", "relu1"], tensors ["y"], absorbed ["conv1_out"]>} : tensor<2xf32> -> tensor<2xf32>
  // Fields in any order; those without names are not printed, and a name without any still reads back.
  // CHECK: nn.relu %x {qmlir.name = #qmlir.name<nodes ["n"], tensors ["a:0"]>} :
  %1 = nn.relu %x {qmlir.name = #qmlir.name<tensors ["a:0"], absorbed [], nodes ["n"]>} : tensor<2xf32> -> tensor<2xf32>
  // CHECK: nn.relu %x {qmlir.name = #qmlir.name<tensors []>} :
  %2 = nn.relu %x {qmlir.name = #qmlir.name<nodes []>} : tensor<2xf32> -> tensor<2xf32>
  // CHECK: nn.relu %x {qmlir.decision = #qmlir.decision<float, "no-range", "tensor \22x\22 has no range; profile it">} :
  %3 = nn.relu %x {qmlir.decision = #qmlir.decision<float, "no-range", "tensor \"x\" has no range; profile it">} : tensor<2xf32> -> tensor<2xf32>
  // CHECK: nn.relu %x {qmlir.decision = #qmlir.decision<quantized, "integer", "">} :
  %4 = nn.relu %x {qmlir.decision = #qmlir.decision<quantized, "integer", "">} : tensor<2xf32> -> tensor<2xf32>
  // CHECK: qmlir.opaque "com.example.Fancy"(%x, %0) {reason = "unknown operation", source = {alpha = 5.000000e-01 : f32, mode = "wild"}} : (tensor<2xf32>, tensor<2xf32>) -> (tensor<?xf32>, tensor<*xf32>)
  // GENERIC: "qmlir.opaque"(%{{.*}}, %{{.*}}) <{kind = "com.example.Fancy", reason = "unknown operation", source = {alpha = 5.000000e-01 : f32, mode = "wild"}}>
  %5, %6 = qmlir.opaque "com.example.Fancy" (%x, %0) {reason = "unknown operation", source = {alpha = 0.5 : f32, mode = "wild"}} : (tensor<2xf32>, tensor<2xf32>) -> (tensor<?xf32>, tensor<*xf32>)
  // CHECK: qmlir.constant_buffer <tensor<2x1xi8>, [1, -2]> : memref<2x1xi8>
  // GENERIC: "qmlir.constant_buffer"() <{value = #qmlir.weights<tensor<2x1xi8>, [1, -2]>}> : () -> memref<2x1xi8>
  %7 = qmlir.constant_buffer <tensor<2x1xi8>, [1, -2]> : memref<2x1xi8>
  // CHECK: nn.constant <tensor<1x3xi8>, [6, -4, 5]> {qmlir.levels = #qmlir.levels<groups, bits = 4, size = 2, multipliers = #qmlir.weights<tensor<1x2xi8>, [2, 5]>>} :
  // GENERIC: {qmlir.levels = #qmlir.levels<groups, bits = 4, size = 2, multipliers = #qmlir.weights<tensor<1x2xi8>, [2, 5]>>} :
  %9 = nn.constant <tensor<1x3xi8>, [6, -4, 5]> {qmlir.levels = #qmlir.levels<groups, bits = 4, size = 2, multipliers = #qmlir.weights<tensor<1x2xi8>, [2, 5]>>} : tensor<1x3xi8>
  // CHECK: nn.constant <tensor<1x3xi8>, [9, -4, 1]> {qmlir.levels = #qmlir.levels<codebook, bits = 2, table = #qmlir.weights<tensor<4xi8>, [-4, 1, 1, 9]>>} :
  // GENERIC: {qmlir.levels = #qmlir.levels<codebook, bits = 2, table = #qmlir.weights<tensor<4xi8>, [-4, 1, 1, 9]>>} :
  %10 = nn.constant <tensor<1x3xi8>, [9, -4, 1]> {qmlir.levels = #qmlir.levels<codebook, bits = 2, table = #qmlir.weights<tensor<4xi8>, [-4, 1, 1, 9]>>} : tensor<1x3xi8>
  // CHECK: qmlir.clock "steady"
  // GENERIC: "qmlir.clock"() <{counter = "steady"}> : () -> i64
  %8 = qmlir.clock "steady"
  func.return
}
