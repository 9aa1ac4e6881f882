// RUN: qmlir-opt --fold-constants %s | filecheck %s
// RUN: qmlir-opt --simplify %s | filecheck %s

// What computed constants take beyond their operands is limited in all: the second broadcast stays.
// CHECK-LABEL: func.func @main
// CHECK-DAG: nn.constant <tensor<8xf32>, [1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0]>
// CHECK: nn.broadcast %b
// CHECK-NOT: nn.broadcast
// CHECK: func.return
builtin.module attributes {qmlir.fold_budget = 40 : i64} {
func.func @main() -> (tensor<8xf32>, tensor<8xf32>) {
  %a = nn.constant <tensor<1xf32>, [1.0]> : tensor<1xf32>
  %b = nn.constant <tensor<1xf32>, [2.0]> : tensor<1xf32>
  %0 = nn.broadcast %a {shape = array<i64: 8>} : tensor<1xf32> -> tensor<8xf32>
  %1 = nn.broadcast %b {shape = array<i64: 8>} : tensor<1xf32> -> tensor<8xf32>
  func.return %0, %1 : tensor<8xf32>, tensor<8xf32>
}
}
