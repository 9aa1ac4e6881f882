// RUN: qmlir-opt --nn-to-loops=memory=small %s | filecheck %s
// RUN: qmlir-opt --nn-to-loops=memory=fast %s | filecheck %s --check-prefix=FAST

// With little memory, calls say how far their result must begin before an operand, for the planner to lay it there.

func.func @main(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %y = nn.relu %x : tensor<4x8xf32> -> tensor<4x8xf32>
  func.return %y : tensor<4x8xf32>
}

// CHECK: func.call @nn_relu{{.*}} {qmlir.leads = array<i64: 0, {{.*}}-1>, qmlir.stripes = array<i64: 1, 16384, 0, 16384, 1, 0, 1>}
// FAST: func.call @nn_relu
// FAST-NOT: qmlir.leads
