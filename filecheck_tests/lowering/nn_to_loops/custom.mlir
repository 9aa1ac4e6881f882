// An operator of the program is a function that the back end links.

// RUN: qmlir-opt --nn-to-loops --finish-loops %s | filecheck %s
// RUN: qmlir-opt --nn-to-loops --finish-loops --share-items --hoist-scratch --plan-memory --loops-to-llvm %s | filecheck %s --check-prefix=LLVM

// CHECK: builtin.module attributes {qmlir.external_functions = {custom_call.0 = {domain = "mine", operator = "Swirl", attributes = {}, inputs = [tensor<4xf32>], outputs = [tensor<4xf32>]}}}
// CHECK: func.call @custom_call.0({{.*}}) : (memref<4xf32>, memref<4xf32>) -> ()
// CHECK: func.call @custom_call.0({{.*}}) : (memref<4xf32>, memref<4xf32>) -> ()
// CHECK: func.func private @custom_call.0(memref<4xf32>, memref<4xf32>) -> () attributes {qmlir.external}
// LLVM: llvm.call @custom_call.0
// LLVM: llvm.func @custom_call.0(!llvm.ptr, !llvm.ptr)
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = custom.call "mine" "Swirl"(%x) {attributes = {}} : (tensor<4xf32>) -> tensor<4xf32>
  %1 = custom.call "mine" "Swirl"(%0) {attributes = {}} : (tensor<4xf32>) -> tensor<4xf32>
  func.return %1 : tensor<4xf32>
}
