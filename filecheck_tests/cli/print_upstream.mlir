// RUN: qmlir-opt --print-upstream --allow-unregistered-dialect %s | filecheck %s
// RUN: qmlir-opt --print-upstream --allow-unregistered-dialect %s | qmlir-opt --print-upstream --allow-unregistered-dialect | filecheck %s
// RUN: qmlir-opt --print-upstream --allow-unregistered-dialect --mlir-print-op-generic %s | qmlir-opt --print-upstream --allow-unregistered-dialect | filecheck %s

// The same text as mlir-opt's: aliases of affine maps, packs of results, a function's own dialect left out.

// CHECK: #map = affine_map<(d0, d1) -> (d0, 0, d1 floordiv 2)>
// CHECK-NEXT: #map1 = affine_map<(d0, d1)[s0] -> (d1 + s0)>

// CHECK: func.func private @callee(i8) -> (i8, f32)
func.func private @callee(i8) -> (i8, f32)

// CHECK-LABEL: func.func @f(
func.func @f(%x: i8) -> f32 {
  // CHECK-NEXT: %[[R:.*]]:2 = call @callee(%x) : (i8) -> (i8, f32)
  %0:2 = func.call @callee(%x) : (i8) -> (i8, f32)
  // CHECK-NEXT: "test.maps"(%[[R]]#0) {maps = [#map, #map1, #map]} : (i8) -> ()
  "test.maps"(%0#0) {maps = [affine_map<(d0, d1) -> (d0, 0, d1 floordiv 2)>, affine_map<(d0, d1)[s0] -> (d1 + s0)>, affine_map<(d0, d1) -> (d0, 0, d1 floordiv 2)>]} : (i8) -> ()
  // CHECK-NEXT: return %[[R]]#1 : f32
  func.return %0#1 : f32
}
