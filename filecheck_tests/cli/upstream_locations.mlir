// What mlir-opt --mlir-print-debuginfo prints: locations of every kind, under aliases that are defined behind the module.

// RUN: qmlir-opt --mlir-print-debuginfo %s | filecheck %s
// RUN: qmlir-opt --mlir-print-debuginfo %s | qmlir-opt --mlir-print-debuginfo | filecheck %s

!q = !quant.uniform<i8:f32, 5.0e-1:3>
!matrix = tensor<2x4x!q>
#map = affine_map<(d0) -> (d0)>
#first = loc("net.py":1:2)

// A string with "#loc3 = loc(unknown)" in it, and a comment, define nothing: #loc3 = loc("comment":1:1)
// CHECK: func.func @f(%x: tensor<4xf32> loc("net.py":1:2)) -> tensor<4xf32> attributes {note = "
func.func @f(%x: tensor<4xf32> loc(#first)) -> tensor<4xf32> attributes {note = "\n#loc3 = loc(unknown)"} {
  // CHECK: arith.addf {{.*}} loc("net.py":3:4)
  %0 = arith.addf %x, %x : tensor<4xf32> loc(#loc3)
  // CHECK: arith.subf {{.*}} loc("layer"("net.py":3:4))
  %1 = arith.subf %0, %x : tensor<4xf32> loc(#named)
  // CHECK: arith.mulf {{.*}} loc(callsite("net.py":3:4 at "net.py":9:1))
  %2 = arith.mulf %1, %x : tensor<4xf32> loc(callsite(#loc3 at "net.py":9:1))
  // CHECK: arith.divf {{.*}} loc(fused["net.py":3:4, "net.py":1:2])
  %3 = arith.divf %2, %x : tensor<4xf32> loc(fused<"cse">[#loc3, #first])
  // CHECK: arith.maximumf {{.*}} loc("net.py":7:1)
  %4 = arith.maximumf %3, %x : tensor<4xf32> loc("net.py":7:1 to 9:20)
  // CHECK: arith.minimumf {{.*}} loc("net.py":7:1)
  %5 = arith.minimumf %4, %x : tensor<4xf32> loc("net.py":7:1 to :20)
  // CHECK: func.return {{.*}} loc("{{.*}}upstream_locations.mlir":{{[0-9]+}}:
  return %5 : tensor<4xf32> loc(unknown)
} loc(#outer)

// CHECK: func.func private @g(tensor<2x4x!quant.uniform<i8:f32, 5.000000e-01:3>>)
func.func private @g(!matrix) attributes {map = #map}

#outer = loc("net.py":0:0)
#named = loc("layer"(#loc3))
#loc3 = loc("net.py":3:4)
