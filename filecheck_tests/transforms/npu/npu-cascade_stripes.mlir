// RUN: qmlir-opt --npu-cascade --split-input-file --elide-weights %s | filecheck %s

// 256 KiB lie between two layers, which is all that the memory for data has. In two stripes half of that stays inside, and
// a window of two rows has the first layer compute the row before the middle twice. Rows are names for what is there
// already; padding is where the whole had it.
builtin.module attributes {npu.device = "nmp"} {
  func.func @main(%x: tensor<1x512x512x1xi8>) -> tensor<1x512x512x1xi8> {
    %a = npu.layer "scale" (%0 = %x : tensor<1x512x512x1xi8>) -> (tensor<1x512x512x1xi8>) {
      %1 = qint.requantize %0 {multiplier = array<i32: 1073741824>, shift = array<i32: -4>, contract = "shift", min = -128 : i32, max = 127 : i32} : tensor<1x512x512x1xi8> -> tensor<1x512x512x1xi8>
      npu.yield %1 : tensor<1x512x512x1xi8>
    }
    %b = npu.layer "pool" (%0 = %a : tensor<1x512x512x1xi8>) -> (tensor<1x512x512x1xi8>) {
      %1 = qint.max_pool2d %0 {window = array<i64: 2, 1>, padding = array<i64: 1, 0, 0, 0>} : tensor<1x512x512x1xi8> -> tensor<1x512x512x1xi8>
      npu.yield %1 : tensor<1x512x512x1xi8>
    }
    func.return %b : tensor<1x512x512x1xi8>
  }
}
// CHECK-LABEL: func.func @main
// CHECK-NEXT:   %[[ROWS:.*]] = npu.layer "scale" (%{{.*}} = %x : {{.*}}) -> (tensor<1x[[N:[0-9]+]]x512x1xi8>) {
// CHECK-NEXT:     nn.slice %{{.*}} {offsets = array<i64: 0, 0, 0, 0>, sizes = array<i64: 1, [[N]], 512, 1>
// CHECK:        %[[A:.*]] = npu.layer "scale" (%{{.*}} = %[[ROWS]] : {{.*}}) -> (tensor<1x[[N]]x512x1xi8>) attributes {stays = {{[0-9]+}} : i64, rest =
// CHECK-NEXT:     qint.requantize
// CHECK:        %[[B:.*]] = npu.layer "pool" (%{{.*}} = %[[A]] : {{.*}}) -> (tensor<1x[[ONE:[0-9]+]]x512x1xi8>) attributes {rest =
// CHECK-NEXT:     qint.max_pool2d %{{.*}} {{.*}}padding = array<i64: 1, 0, 0, 0>
// CHECK:        npu.layer "scale"
// CHECK-NEXT:     nn.slice
// CHECK:        %[[C:.*]] = npu.layer "scale" {{.*}} attributes {stays =
// CHECK:        %[[D:.*]] = npu.layer "pool" (%{{.*}} = %[[C]] :
// CHECK-NEXT:     qint.max_pool2d %{{.*}} {window = array<i64: 2, 1>} :
// CHECK:        %b = npu.layer "pool" (%{{.*}} = %[[B]] : {{.*}}, %{{.*}} = %[[D]] : {{.*}}) -> (tensor<1x512x512x1xi8>) {
// CHECK-NEXT:     nn.concat {{.*}} {axis = 1 : i64}
// CHECK:        func.return %b

// -----

// Not in stripes: what two layers read, and what has several images.
builtin.module attributes {npu.device = "nmp"} {
  func.func @whole(%x: tensor<1x512x512x1xi8>, %z: tensor<2x256x512x1xi8>) -> (tensor<1x512x512x1xi8>, tensor<2x256x512x1xi8>, tensor<1x512x512x1xi8>) {
    %a = npu.layer "twice read" (%0 = %x : tensor<1x512x512x1xi8>) -> (tensor<1x512x512x1xi8>) {
      %1 = qint.requantize %0 {multiplier = array<i32: 1073741824>, shift = array<i32: -4>, contract = "shift", min = -128 : i32, max = 127 : i32} : tensor<1x512x512x1xi8> -> tensor<1x512x512x1xi8>
      npu.yield %1 : tensor<1x512x512x1xi8>
    }
    %b = npu.layer "one" (%0 = %a : tensor<1x512x512x1xi8>) -> (tensor<1x512x512x1xi8>) {
      %1 = qint.requantize %0 {multiplier = array<i32: 1073741824>, shift = array<i32: -4>, contract = "shift", min = -128 : i32, max = 127 : i32} : tensor<1x512x512x1xi8> -> tensor<1x512x512x1xi8>
      npu.yield %1 : tensor<1x512x512x1xi8>
    }
    %c = npu.layer "images" (%0 = %z : tensor<2x256x512x1xi8>) -> (tensor<2x256x512x1xi8>) {
      %1 = qint.requantize %0 {multiplier = array<i32: 1073741824>, shift = array<i32: -4>, contract = "shift", min = -128 : i32, max = 127 : i32} : tensor<2x256x512x1xi8> -> tensor<2x256x512x1xi8>
      npu.yield %1 : tensor<2x256x512x1xi8>
    }
    %d = npu.layer "other images" (%0 = %c : tensor<2x256x512x1xi8>) -> (tensor<2x256x512x1xi8>) {
      %1 = qint.requantize %0 {multiplier = array<i32: 1073741824>, shift = array<i32: -4>, contract = "shift", min = -128 : i32, max = 127 : i32} : tensor<2x256x512x1xi8> -> tensor<2x256x512x1xi8>
      npu.yield %1 : tensor<2x256x512x1xi8>
    }
    %e = npu.layer "two" (%0 = %a : tensor<1x512x512x1xi8>) -> (tensor<1x512x512x1xi8>) {
      %1 = qint.requantize %0 {multiplier = array<i32: 1073741824>, shift = array<i32: -4>, contract = "shift", min = -128 : i32, max = 127 : i32} : tensor<1x512x512x1xi8> -> tensor<1x512x512x1xi8>
      npu.yield %1 : tensor<1x512x512x1xi8>
    }
    func.return %b, %d, %e : tensor<1x512x512x1xi8>, tensor<2x256x512x1xi8>, tensor<1x512x512x1xi8>
  }
}
// CHECK-LABEL: func.func @whole
// CHECK-NOT:  nn.slice
// CHECK-NOT:  nn.concat
