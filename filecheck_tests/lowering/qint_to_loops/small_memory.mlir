// RUN: qmlir-opt --qint-to-loops=memory=small %s | filecheck %s
// RUN: qmlir-opt --qint-to-loops=memory=fast %s | filecheck %s --check-prefix=FAST

// Calls say how far their result must begin before an operand: an elementwise result is in place, while a wider result
// must begin before by what it has more.

func.func @main(%x: tensor<4x8xi8>) -> tensor<4x8xi16> {
  %y = qint.requantize %x {input_zero_point = 3 : i32, multiplier = array<i32: 1073741824>, shift = array<i32: 0>, contract = "single", zero_point = 0 : i32, min = -128 : i32, max = 127 : i32} : tensor<4x8xi8> -> tensor<4x8xi8>
  %z = qint.requantize %y {input_zero_point = 0 : i32, multiplier = array<i32: 1073741824>, shift = array<i32: 0>, contract = "single", zero_point = 0 : i32, min = -32768 : i32, max = 32767 : i32} : tensor<4x8xi8> -> tensor<4x8xi16>
  func.return %z : tensor<4x8xi16>
}

// CHECK: func.call @qint_requantize_0({{.*}}) {qmlir.leads = array<i64: 0, {{.*}}-1>, qmlir.stripes = array<i64: 1, 4096, 0, 4096, 1, 0, 1>}
// CHECK: func.call @qint_requantize_1({{.*}}) {qmlir.leads = array<i64: 32, {{.*}}-1>, qmlir.stripes = array<i64: 1, 8192, 0, 4096, 1, 0, 1>}
// FAST: func.call @qint_requantize_0
// FAST-NOT: qmlir.leads
