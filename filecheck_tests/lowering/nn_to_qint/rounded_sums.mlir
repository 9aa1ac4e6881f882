// RUN: qmlir-opt --nn-to-qint %s | filecheck %s

// A device that rounds the operands of a sum to the result's scale: each has a requantization of its own, which knows no
// activation, and the integers are added as they are.
builtin.module attributes {npu.device = "gemmini"} {
  func.func @main(%x: tensor<4x!quant.uniform<i8:f32, 0.5>>, %y: tensor<4x!quant.uniform<i8:f32, 0.25>>, %z: tensor<4x!quant.uniform<i8:f32, 0.5>>) -> (tensor<4x!quant.uniform<i8:f32, 0.5>>, tensor<4x!quant.uniform<i8:f32, 0.3>>) {
    %a = nn.add %x, %y {min = 0.0 : f32} : tensor<4x!quant.uniform<i8:f32, 0.5>>, tensor<4x!quant.uniform<i8:f32, 0.25>> -> tensor<4x!quant.uniform<i8:f32, 0.5>>
    %b = nn.sub %x, %z : tensor<4x!quant.uniform<i8:f32, 0.5>>, tensor<4x!quant.uniform<i8:f32, 0.5>> -> tensor<4x!quant.uniform<i8:f32, 0.3>>
    func.return %a, %b : tensor<4x!quant.uniform<i8:f32, 0.5>>, tensor<4x!quant.uniform<i8:f32, 0.3>>
  }
}
// CHECK:      %[[X:.*]] = quant.scast %x
// CHECK-NEXT: %[[Y:.*]] = quant.scast %y
// CHECK-NEXT: %[[R:.*]] = qint.requantize %[[Y]] {multiplier = array<i32: 1073741824>, shift = array<i32: 0>, contract = "float_even", min = -128 : i32, max = 127 : i32}
// CHECK-NEXT: qint.add %[[X]], %[[R]] {multipliers = array<i64: 2, 2>, shift = 1 : i32, min = 0 : i32, max = 127 : i32}
// CHECK-NEXT: %[[Z:.*]] = quant.scast %z
// CHECK-NEXT: %[[A:.*]] = qint.requantize %[[X]] {multiplier = array<i32: 1789569664>, shift = array<i32: 1>, contract = "float_even"
// CHECK-NEXT: %[[B:.*]] = qint.requantize %[[Z]] {multiplier = array<i32: 1789569664>
// CHECK-NEXT: qint.add %[[A]], %[[B]] {multipliers = array<i64: 2, -2>, shift = 1 : i32, min = -128 : i32, max = 127 : i32}
