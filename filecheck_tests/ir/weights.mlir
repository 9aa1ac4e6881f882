// Constant data in each of its types, up to the values that have no decimal form.

// RUN: qmlir-opt %s | filecheck %s
// RUN: qmlir-opt %s | qmlir-opt | filecheck %s

// CHECK-LABEL: func.func @values
func.func @values() {
  // CHECK: <tensor<7xf32>, [1.0, -0.0, 1.0e-45, 3.4028235e+38, 0x7f800000, 0xff800000, 0x7fc00000]>
  %0 = nn.constant <tensor<7xf32>, [1.0, -0.0, 1.0e-45, 3.4028235e+38, 0x7f800000, 0xff800000, 0x7fc00000]> : tensor<7xf32>
  // Types that numpy lacks are written by their bits.
  // CHECK: <tensor<2xbf16>, [0x3f80, 0x7fc0]>
  %bf16 = nn.constant <tensor<2xbf16>, [0x3f80, 0x7fc0]> : tensor<2xbf16>
  // CHECK: <tensor<3xf8E4M3FN>, [0x38, 0x7f, 0x80]>
  %f8 = nn.constant <tensor<3xf8E4M3FN>, [0x38, 0x7f, 0x80]> : tensor<3xf8E4M3FN>
  // CHECK: <tensor<2xui4>, [0x3, 0xf]>
  %ui4 = nn.constant <tensor<2xui4>, [0x3, 0xf]> : tensor<2xui4>
  // CHECK: <tensor<2x2xf16>, [0.1, -6.55e+04, 6.0e-08, 0x7e01]>
  %1 = nn.constant <tensor<2x2xf16>, [0.1, -65504.0, 5.9604645e-08, 0x7e01]> : tensor<2x2xf16>
  // CHECK: <tensor<2xf64>, [0.1, 0xfff0000000000000]>
  %2 = nn.constant <tensor<2xf64>, [0.1, 0xfff0000000000000]> : tensor<2xf64>
  // CHECK: <tensor<2xi1>, [true, false]>
  %3 = nn.constant <tensor<2xi1>, [true, false]> : tensor<2xi1>
  // CHECK: <tensor<2xi8>, [-128, 127]>
  %4 = nn.constant <tensor<2xi8>, [-0x80, 0x7f]> : tensor<2xi8>
  // CHECK: <tensor<2xui64>, [0, 18446744073709551615]>
  %5 = nn.constant <tensor<2xui64>, [0, 18446744073709551615]> : tensor<2xui64>
  // CHECK: <tensor<i64>, [-9223372036854775808]>
  %6 = nn.constant <tensor<i64>, [-9223372036854775808]> : tensor<i64>
  // CHECK: <tensor<0x3xf32>, []>
  %7 = nn.constant <tensor<0x3xf32>, []> : tensor<0x3xf32>
  // Bytes, little-endian, of any number of elements.
  // CHECK: <tensor<2xf32>, [1.0, -2.0]>
  %8 = nn.constant <tensor<2xf32>, "0x0000803f000000c0"> : tensor<2xf32>
  func.return
}
