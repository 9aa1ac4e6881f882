// RUN: qmlir-opt --normalize-quant-types --strip-func-quant-types --cse --canonicalize %s | filecheck %s

// A TOSA module on quantized types as others write it: aliases of types, locations behind the module, a constant as a
// resource. The passes on quantized types and xDSL's own run on it as on any module.

!blocked = !quant.uniform<i8:f32:{0:2, 1:4}, {{0.5}}>
!per_tensor = !quant.uniform<i8:f32, 0.5>

// CHECK-LABEL: func.func @main(%a: tensor<2x4xi8>, %b: tensor<2x4xi8>) -> tensor<2x4xi8> {
// CHECK-NEXT:    %[[B:.*]] = quant.scast %b : tensor<2x4xi8> to tensor<2x4x!quant.uniform<i8:f32, 5.000000e-01>>
// CHECK-NEXT:    %[[A:.*]] = quant.scast %a : tensor<2x4xi8> to tensor<2x4x!quant.uniform<i8:f32, 5.000000e-01>>
// CHECK-NEXT:    %[[S:.*]] = "tosa.add"(%[[A]], %[[B]])
// CHECK-NEXT:    %[[W:.*]] = "tosa.const"() <{values = dense<{{.}}[1, 2, 3, 4], [5, 6, 7, 8]]> : tensor<2x4xi8>}>
// CHECK-NEXT:    %[[Q:.*]] = quant.scast %[[W]]
// CHECK-NEXT:    %[[T:.*]] = "tosa.add"(%[[S]], %[[Q]])
// CHECK-NEXT:    %[[R:.*]] = quant.scast %[[T]]
// CHECK-NEXT:    func.return %[[R]] : tensor<2x4xi8>
func.func @main(%a: tensor<2x4x!per_tensor>, %b: tensor<2x4x!blocked>) -> tensor<2x4x!per_tensor> {
  %0 = "tosa.add"(%a, %b) : (tensor<2x4x!per_tensor>, tensor<2x4x!blocked>) -> tensor<2x4x!per_tensor> loc(#loc1)
  %1 = "tosa.const"() <{values = dense_resource<w> : tensor<2x4xi8>}> : () -> tensor<2x4xi8> loc(#loc2)
  %2 = "tosa.const"() <{values = dense_resource<w> : tensor<2x4xi8>}> : () -> tensor<2x4xi8>
  %3 = quant.scast %2 : tensor<2x4xi8> to tensor<2x4x!per_tensor>
  %4 = "tosa.add"(%0, %3) : (tensor<2x4x!per_tensor>, tensor<2x4x!per_tensor>) -> tensor<2x4x!per_tensor>
  return %4 : tensor<2x4x!per_tensor>
} loc(fused[#loc1, #loc2])

#loc1 = loc("net.tflite":0:0)
#loc2 = loc("weights"(#loc1))

{-#
  dialect_resources: {
    builtin: {
      w: "0x010000000102030405060708"
    }
  }
#-}
