// RUN: qmlir-opt --tosa-to-nn %s | filecheck %s

// Names of operations are those of their locations, names of tensors those of values; constants have them, too.
// CHECK-LABEL: func.func @names(%image: tensor<1x4x4x2xf32> {qmlir.name = #qmlir.name<tensors ["image"]>}) -> tensor<1x4x4x2xf32>
// CHECK-NEXT:    %model_abs = nn.abs %image {qmlir.name = #qmlir.name<nodes ["model/abs"], tensors ["model/abs"]>} : tensor<1x4x4x2xf32> -> tensor<1x4x4x2xf32>
// CHECK-NEXT:    %features = nn.exp %model_abs {qmlir.name = #qmlir.name<nodes ["exp1"], tensors ["features"]>} : tensor<1x4x4x2xf32> -> tensor<1x4x4x2xf32>
// CHECK-NEXT:    %scale = nn.constant <tensor<1x1x1x1xf32>, [2.0]> {qmlir.name = #qmlir.name<tensors ["scale"]>} : tensor<1x1x1x1xf32>
// CHECK-NEXT:    %{{.*}} = nn.add %features, %scale : tensor<1x4x4x2xf32>, tensor<1x1x1x1xf32> -> tensor<1x4x4x2xf32>
// CHECK-NEXT:    func.return %{{.*}} : tensor<1x4x4x2xf32>
func.func @names(%image: tensor<1x4x4x2xf32>) -> tensor<1x4x4x2xf32> {
  %0 = tosa.abs %image : (tensor<1x4x4x2xf32>) -> tensor<1x4x4x2xf32> loc("model/abs")
  %features = tosa.exp %0 : (tensor<1x4x4x2xf32>) -> tensor<1x4x4x2xf32> loc(fused["exp1", "net.tflite":0:0])
  %scale = "tosa.const"() <{values = dense<2.0> : tensor<1x1x1x1xf32>}> : () -> tensor<1x1x1x1xf32>
  %1 = tosa.add %features, %scale : (tensor<1x4x4x2xf32>, tensor<1x1x1x1xf32>) -> tensor<1x4x4x2xf32>
  func.return %1 : tensor<1x4x4x2xf32>
}

// TFLite's importer lists the names of arguments and results.
// CHECK-LABEL: func.func @tflite(%left: tensor<4xf32> {qmlir.name = #qmlir.name<tensors ["left"]>}, %right: tensor<4xf32> {qmlir.name = #qmlir.name<tensors ["right"]>}) -> (tensor<4xf32> {qmlir.name = #qmlir.name<tensors ["sum"]>})
// CHECK-NEXT:    %{{.*}} = nn.add %left, %right : tensor<4xf32>, tensor<4xf32> -> tensor<4xf32>
// CHECK-NEXT:    func.return %{{.*}} : tensor<4xf32>
func.func @tflite(%arg0: tensor<4xf32>, %arg1: tensor<4xf32>) -> tensor<4xf32> attributes {tf.entry_function = {control_outputs = "", inputs = "left,right", outputs = "sum"}} {
  %0 = tosa.add %arg0, %arg1 : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  func.return %0 : tensor<4xf32>
}

// CHECK-LABEL: func.func @attributes(%image: tensor<4xf32> {qmlir.name = #qmlir.name<tensors ["image"]>}) -> (tensor<4xf32> {qmlir.name = #qmlir.name<tensors ["scores"]>})
// CHECK-NEXT:    %{{.*}} = nn.abs %image : tensor<4xf32> -> tensor<4xf32>
// CHECK-NEXT:    func.return %{{.*}} : tensor<4xf32>
func.func @attributes(%arg0: tensor<4xf32> {tf_saved_model.index_path = ["image"]}) -> (tensor<4xf32> {ml_program.identifier = "scores"}) {
  %0 = tosa.abs %arg0 : (tensor<4xf32>) -> tensor<4xf32>
  func.return %0 : tensor<4xf32>
}

// A call stays, and its function is read as well.
// CHECK-LABEL: func.func @calls(%x: tensor<4xf32> {qmlir.name = #qmlir.name<tensors ["x"]>}) -> tensor<4xf32>
// CHECK-NEXT:    %{{.*}} = nn.abs %x : tensor<4xf32> -> tensor<4xf32>
// CHECK-NEXT:    %y = func.call @attributes(%{{.*}}) {qmlir.name = #qmlir.name<tensors ["y"]>} : (tensor<4xf32>) -> tensor<4xf32>
// CHECK-NEXT:    func.return %y : tensor<4xf32>
func.func @calls(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = tosa.abs %x : (tensor<4xf32>) -> tensor<4xf32>
  %y = func.call @attributes(%0) : (tensor<4xf32>) -> tensor<4xf32>
  func.return %y : tensor<4xf32>
}

// A state stays a state.
// CHECK-LABEL: func.func @state
// CHECK-SAME: qmlir.state = #qmlir.state<0>}
func.func @state(%s: tensor<4xf32> {qmlir.state = #qmlir.state<0>}) -> tensor<4xf32> {
  %0 = tosa.abs %s : (tensor<4xf32>) -> tensor<4xf32>
  func.return %0 : tensor<4xf32>
}
