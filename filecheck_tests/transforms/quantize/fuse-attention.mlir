// RUN: qmlir-opt --fuse-attention %s | filecheck %s
// RUN: qmlir-opt --apply-policy="settings={attention=stored}" --fuse-attention %s | filecheck %s --check-prefix=STORED
// RUN: qmlir-opt --quantize %s | filecheck %s --check-prefix=WHOLE
// RUN: qmlir-opt --quantize="attention=auto" %s | filecheck %s --check-prefix=WHOLE
// RUN: qmlir-opt --quantize="attention=stored" %s | filecheck %s --check-prefix=STORED

// The scores get 16 bits from the product that they are. The result has no histogram, and keeps 8 bits.
// CHECK-LABEL: func.func @main
// CHECK: %s = nn.matmul %q, %k
// CHECK-NEXT: calib.observe %s {qmlir.policy = {precision = "int16", schema = "symmetric"}, name = "s", range = [-3.{{.*}}, 3.{{.*}}]}
// CHECK-NEXT: %y = nn.attend %s, %v {qmlir.name = #qmlir.name<nodes ["share", "weigh"], tensors ["y"], absorbed ["p"]>} : tensor<4x6xf32>, tensor<6x2xf32> -> tensor<4x2xf32>
// CHECK-NEXT: calib.observe %y {name = "y", range = [-1.{{.*}}, 1.{{.*}}]}
// CHECK-NEXT: func.return
// STORED: nn.softmax
// STORED: nn.matmul
// WHOLE: nn.attend {{.*}} : tensor<4x6x!quant.uniform<i16:f32, {{.*}}>>, tensor<6x2x!quant.uniform<i8:f32, {{.*}}>> -> tensor<4x2x!quant.uniform<i8:f32, {{.*}}>>
func.func @main(%q: tensor<4x3xf32>, %k: tensor<3x6xf32>, %v: tensor<6x2xf32>) -> tensor<4x2xf32> {
  calib.observe %q {name = "q", range = [-1.0, 1.0]} : tensor<4x3xf32>
  calib.observe %k {name = "k", range = [-1.0, 1.0]} : tensor<3x6xf32>
  calib.observe %v {name = "v", range = [-1.0, 1.0]} : tensor<6x2xf32>
  %s = nn.matmul %q, %k : tensor<4x3xf32>, tensor<3x6xf32> -> tensor<4x6xf32>
  calib.observe %s {name = "s", range = [-3.0, 3.0]} : tensor<4x6xf32>
  %p = nn.softmax %s {axis = 1 : i64, qmlir.name = #qmlir.name<nodes ["share"], tensors ["p"]>} : tensor<4x6xf32> -> tensor<4x6xf32>
  calib.observe %p {name = "p", range = [0.0, 1.0]} : tensor<4x6xf32>
  %y = nn.matmul %p, %v {qmlir.name = #qmlir.name<nodes ["weigh"], tensors ["y"]>} : tensor<4x6xf32>, tensor<6x2xf32> -> tensor<4x2xf32>
  calib.observe %y {name = "y", range = [-1.0, 1.0]} : tensor<4x2xf32>
  func.return %y : tensor<4x2xf32>
}
