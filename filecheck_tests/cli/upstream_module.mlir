// A module as another tool wrote it goes through our passes: aliases of types and maps, short names, locations, constants
// as digits and as resources.

// RUN: qmlir-opt --lower-quant-ops %s | filecheck %s
// RUN: qmlir-opt --strip-func-quant-types --cse --canonicalize %s | filecheck %s --check-prefix=STRIPPED
// RUN: qmlir-opt --print-upstream --weights=resource %s | qmlir-opt --lower-quant-ops | filecheck %s

!q = !quant.uniform<i8:f32, 5.0e-1:3>
#map = affine_map<(d0) -> (d0)>
#loc1 = loc("model.py":3:1)
module attributes {tool.version = "2.1"} {
  // CHECK-LABEL: func.func @dense
  // STRIPPED-LABEL: func.func @dense(%{{.*}}: tensor<70xi8>) -> tensor<70xf32>
  func.func @dense(%arg0: tensor<70x!q> loc("model.py":2:1)) -> tensor<70xf32> {
    // CHECK: arith.constant dense<[0.000000e+00, 1.000000e+00{{.*}}6.900000e+01]> : tensor<70xf32>
    // STRIPPED-COUNT-1: arith.constant
    %cst = arith.constant dense_resource<bias> : tensor<70xf32> loc(#loc3)
    %cst_0 = arith.constant dense<"0x000000000000803F0000004000004040000080400000A0400000C0400000E0400000004100001041000020410000304100004041000050410000604100007041000080410000884100009041000098410000A0410000A8410000B0410000B8410000C0410000C8410000D0410000D8410000E0410000E8410000F0410000F84100000042000004420000084200000C4200001042000014420000184200001C4200002042000024420000284200002C4200003042000034420000384200003C4200004042000044420000484200004C4200005042000054420000584200005C4200006042000064420000684200006C4200007042000074420000784200007C42000080420000824200008442000086420000884200008A42"> : tensor<70xf32> loc(#loc3)
    // CHECK-NOT: quant.dcast
    // STRIPPED: quant.dcast
    %0 = quant.dcast %arg0 : tensor<70x!q> to tensor<70xf32> loc(#loc4)
    %1 = tensor.empty() : tensor<70xf32> loc(#loc4)
    %2 = linalg.generic {indexing_maps = [#map, #map, #map], iterator_types = ["parallel"]} ins(%0, %cst : tensor<70xf32>, tensor<70xf32>) outs(%1 : tensor<70xf32>) {
    ^bb0(%in: f32 loc("model.py":2:1), %in_1: f32 loc(unknown), %out: f32 loc(#loc1)):
      %3 = arith.addf %in, %in_1 : f32 loc(#loc3)
      linalg.yield %3 : f32 loc(#loc3)
    } -> tensor<70xf32> loc(#loc3)
    %4 = arith.addf %2, %cst_0 : tensor<70xf32> loc(#loc3)
    return %4 : tensor<70xf32> loc(#loc3)
  } loc(#loc1)
} loc(#loc)
#loc = loc("model.py":0:0)
#loc2 = loc("model.py":9:5)
#loc3 = loc("add"(#loc2))
#loc4 = loc(callsite(#loc3 at #loc2))

{-#
  dialect_resources: {
    builtin: {
      bias: "0x04000000000000000000803F0000004000004040000080400000A0400000C0400000E0400000004100001041000020410000304100004041000050410000604100007041000080410000884100009041000098410000A0410000A8410000B0410000B8410000C0410000C8410000D0410000D8410000E0410000E8410000F0410000F84100000042000004420000084200000C4200001042000014420000184200001C4200002042000024420000284200002C4200003042000034420000384200003C4200004042000044420000484200004C4200005042000054420000584200005C4200006042000064420000684200006C4200007042000074420000784200007C42000080420000824200008442000086420000884200008A42"
    }
  }
#-}
