// RUN: qmlir-opt --npu-fit --split-input-file --elide-weights %s | filecheck %s
// RUN: qmlir-opt --npu-fit --npu-tile --npu-place --split-input-file --elide-weights %s | filecheck %s --check-prefix=PLACED

// 2 MiB of the memory hold tensors and what is brought from flash; between two layers alone lie 2 MiB. In stripes less
// does, as little as it takes for all to fit, and the fewest rows are computed twice.
builtin.module attributes {npu.device = "ethos-u55-like"} {
  func.func @main(%x: tensor<1x256x512x1xi8>) -> tensor<1x256x512x1xi8> {
    %a = npu.layer "wide" (%0 = %x : tensor<1x256x512x1xi8>) -> (tensor<1x256x512x16xi8>) {
      %w = nn.constant <tensor<16x1x1x1xi8>, [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16]> : tensor<16x1x1x1xi8>
      %1 = qint.conv2d %0, %w : tensor<1x256x512x1xi8>, tensor<16x1x1x1xi8> -> tensor<1x256x512x16xi32>
      %2 = qint.requantize %1 {multiplier = array<i32: 1073741824>, shift = array<i32: -4>, contract = "single", min = -128 : i32, max = 127 : i32} : tensor<1x256x512x16xi32> -> tensor<1x256x512x16xi8>
      npu.yield %2 : tensor<1x256x512x16xi8>
    }
    %b = npu.layer "narrow" (%0 = %a : tensor<1x256x512x16xi8>) -> (tensor<1x256x512x1xi8>) {
      %w = nn.constant <tensor<1x3x1x16xi8>, [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16]> : tensor<1x3x1x16xi8>
      %1 = qint.conv2d %0, %w {padding = array<i64: 1, 1, 0, 0>} : tensor<1x256x512x16xi8>, tensor<1x3x1x16xi8> -> tensor<1x256x512x1xi32>
      %2 = qint.requantize %1 {multiplier = array<i32: 1073741824>, shift = array<i32: -4>, contract = "single", min = -128 : i32, max = 127 : i32} : tensor<1x256x512x1xi32> -> tensor<1x256x512x1xi8>
      npu.yield %2 : tensor<1x256x512x1xi8>
    }
    func.return %b : tensor<1x256x512x1xi8>
  }
}
// CHECK-LABEL: func.func @main
// CHECK-NEXT:   npu.layer "wide" (%{{.*}} = %x : {{.*}}) -> (tensor<1x129x512x1xi8>) {
// CHECK-NEXT:     nn.slice
// CHECK:        npu.layer "wide" {{.*}} -> (tensor<1x129x512x16xi8>) {
// CHECK:        npu.layer "narrow" {{.*}} -> (tensor<1x128x512x1xi8>) {
// CHECK:          qint.conv2d {{.*}} {padding = array<i64: 1, 0, 0, 0>
// CHECK:        npu.layer "wide"
// CHECK-NEXT:     nn.slice %{{.*}} {offsets = array<i64: 0, 127, 0, 0>
// CHECK:        npu.layer "wide" {{.*}} -> (tensor<1x129x512x16xi8>) {
// CHECK:        npu.layer "narrow" {{.*}} -> (tensor<1x128x512x1xi8>) {
// CHECK:          qint.conv2d {{.*}} {padding = array<i64: 0, 1, 0, 0>
// CHECK:        %b = npu.layer "narrow" {{.*}} -> (tensor<1x256x512x1xi8>) {
// CHECK-NEXT:     nn.concat
// PLACED: npu.filled = {{.*}}sram = {tensors = 1318912 : i64, bound = 1318912 : i64

// -----

// What fits is left as it is.
builtin.module attributes {npu.device = "ethos-u55-like"} {
  func.func @fits(%x: tensor<1x8x8x1xi8>) -> tensor<1x8x8x1xi8> {
    %a = npu.layer "a" (%0 = %x : tensor<1x8x8x1xi8>) -> (tensor<1x8x8x1xi8>) {
      %1 = qint.requantize %0 {multiplier = array<i32: 1073741824>, shift = array<i32: -4>, contract = "single", min = -128 : i32, max = 127 : i32} : tensor<1x8x8x1xi8> -> tensor<1x8x8x1xi8>
      npu.yield %1 : tensor<1x8x8x1xi8>
    }
    %b = npu.layer "b" (%0 = %a : tensor<1x8x8x1xi8>) -> (tensor<1x8x8x1xi8>) {
      %1 = qint.requantize %0 {multiplier = array<i32: 1073741824>, shift = array<i32: -4>, contract = "single", min = -128 : i32, max = 127 : i32} : tensor<1x8x8x1xi8> -> tensor<1x8x8x1xi8>
      npu.yield %1 : tensor<1x8x8x1xi8>
    }
    func.return %b : tensor<1x8x8x1xi8>
  }
}
// CHECK-LABEL: func.func @fits
// CHECK-NOT:  nn.slice
