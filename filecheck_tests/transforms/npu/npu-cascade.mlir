// RUN: qmlir-opt --npu-cascade=stripes=false --split-input-file --elide-weights %s | filecheck %s

// What a layer leaves to the next stays inside, and so does what a later layer adds: it lies there for two layers. What
// the last layer yields goes out. Of a layer whose tensors all stay there are no tiles in that memory.
builtin.module attributes {npu.device = "nmp"} {
  func.func @main(%x: tensor<1x2x2x2xi8>) -> tensor<1x2x2x2xi8> {
    %a = npu.layer "a" (%0 = %x : tensor<1x2x2x2xi8>) -> (tensor<1x2x2x2xi8>) {
      %w = nn.constant <tensor<2x1x1x2xi8>, [1, 2, 3, 4]> : tensor<2x1x1x2xi8>
      %1 = qint.conv2d %0, %w : tensor<1x2x2x2xi8>, tensor<2x1x1x2xi8> -> tensor<1x2x2x2xi32>
      %2 = qint.requantize %1 {multiplier = array<i32: 1073741824>, shift = array<i32: -4>, contract = "shift", min = -128 : i32, max = 127 : i32} : tensor<1x2x2x2xi32> -> tensor<1x2x2x2xi8>
      npu.yield %2 : tensor<1x2x2x2xi8>
    }
    %b = npu.layer "b" (%0 = %a : tensor<1x2x2x2xi8>) -> (tensor<1x2x2x2xi8>) {
      %w = nn.constant <tensor<2x1x1x2xi8>, [2, 2, 3, 4]> : tensor<2x1x1x2xi8>
      %1 = qint.conv2d %0, %w : tensor<1x2x2x2xi8>, tensor<2x1x1x2xi8> -> tensor<1x2x2x2xi32>
      %2 = qint.requantize %1 {multiplier = array<i32: 1073741824>, shift = array<i32: -4>, contract = "shift", min = -128 : i32, max = 127 : i32} : tensor<1x2x2x2xi32> -> tensor<1x2x2x2xi8>
      npu.yield %2 : tensor<1x2x2x2xi8>
    }
    %c = npu.layer "c" (%0 = %b : tensor<1x2x2x2xi8>, %3 = %a : tensor<1x2x2x2xi8>) -> (tensor<1x2x2x2xi8>) {
      %w = nn.constant <tensor<2x1x1x2xi8>, [3, 2, 3, 4]> : tensor<2x1x1x2xi8>
      %1 = qint.conv2d %0, %w : tensor<1x2x2x2xi8>, tensor<2x1x1x2xi8> -> tensor<1x2x2x2xi32>
      %2 = qint.requantize %1 {multiplier = array<i32: 1073741824>, shift = array<i32: -4>, contract = "shift", min = -128 : i32, max = 127 : i32} : tensor<1x2x2x2xi32> -> tensor<1x2x2x2xi8>
      %4 = qint.add %2, %3 {multipliers = array<i64: 1073741824, 1073741824>, shift = 31 : i32, min = -128 : i32, max = 127 : i32} : tensor<1x2x2x2xi8>, tensor<1x2x2x2xi8> -> tensor<1x2x2x2xi8>
      npu.yield %4 : tensor<1x2x2x2xi8>
    }
    func.return %c : tensor<1x2x2x2xi8>
  }
}
// CHECK-LABEL: func.func @main
// CHECK:      npu.layer "a" {{.*}} attributes {stays = [[A:[0-9]+]] : i64, rest = {memory = "act", base = 0 : i64, bytes = 229376 : i64, roles = ["ifm"]}} {
// CHECK:      npu.layer "b" {{.*}} attributes {stays = [[B:[0-9]+]] : i64, rest = {memory = "act", base = 0 : i64, bytes = 229376 : i64, roles = []}} {
// CHECK:      npu.layer "c" {{.*}} attributes {rest = {memory = "act", base = 0 : i64, bytes = 229376 : i64, roles = ["ofm"]}} {

// -----

// What the host reads, what is an output, and what does not fit goes out. A tensor stays under its other names, too.
builtin.module attributes {npu.device = "nmp"} {
  func.func @out(%x: tensor<1x512x512x1xi8>, %z: tensor<1x4xi8>) -> (tensor<1x512x512x1xi8>, tensor<1x4xi8>, tensor<1x2xf32>) {
    %a = npu.layer "large" (%0 = %x : tensor<1x512x512x1xi8>) -> (tensor<1x512x512x1xi8>) {
      %1 = qint.requantize %0 {multiplier = array<i32: 1073741824>, shift = array<i32: -4>, contract = "shift", min = -128 : i32, max = 127 : i32} : tensor<1x512x512x1xi8> -> tensor<1x512x512x1xi8>
      npu.yield %1 : tensor<1x512x512x1xi8>
    }
    %b = npu.layer "reads it" (%0 = %a : tensor<1x512x512x1xi8>) -> (tensor<1x512x512x1xi8>) {
      %1 = qint.requantize %0 {multiplier = array<i32: 1073741824>, shift = array<i32: -4>, contract = "shift", min = -128 : i32, max = 127 : i32} : tensor<1x512x512x1xi8> -> tensor<1x512x512x1xi8>
      npu.yield %1 : tensor<1x512x512x1xi8>
    }
    %c = npu.layer "small" (%0 = %z : tensor<1x4xi8>) -> (tensor<1x4xi8>) {
      %1 = qint.requantize %0 {multiplier = array<i32: 1073741824>, shift = array<i32: -4>, contract = "shift", min = -128 : i32, max = 127 : i32} : tensor<1x4xi8> -> tensor<1x4xi8>
      npu.yield %1 : tensor<1x4xi8>
    }
    %d = npu.layer "named" (%0 = %c : tensor<1x4xi8>) -> (tensor<2x2xi8>) {
      %1 = nn.reshape %0 {shape = array<i64: 2, 2>} : tensor<1x4xi8> -> tensor<2x2xi8>
      npu.yield %1 : tensor<2x2xi8>
    }
    %e = npu.layer "small too" (%0 = %d : tensor<2x2xi8>) -> (tensor<2x2xi8>) {
      %1 = qint.requantize %0 {multiplier = array<i32: 1073741824>, shift = array<i32: -4>, contract = "shift", min = -128 : i32, max = 127 : i32} : tensor<2x2xi8> -> tensor<2x2xi8>
      npu.yield %1 : tensor<2x2xi8>
    }
    %f = npu.layer "output" (%0 = %e : tensor<2x2xi8>) -> (tensor<1x4xi8>) {
      %1 = nn.reshape %0 {shape = array<i64: 1, 4>} : tensor<2x2xi8> -> tensor<1x4xi8>
      npu.yield %1 : tensor<1x4xi8>
    }
    %g = npu.host "softmax" (%0 = %e : tensor<2x2xi8>) -> (tensor<1x2xf32>) because "not there" {
      %1 = nn.constant <tensor<1x2xf32>, [1.0, 2.0]> : tensor<1x2xf32>
      npu.yield %1 : tensor<1x2xf32>
    }
    func.return %b, %f, %g : tensor<1x512x512x1xi8>, tensor<1x4xi8>, tensor<1x2xf32>
  }
}
// CHECK-LABEL: func.func @out
// CHECK:      npu.layer "large" (%{{.*}} = %{{.*}} : tensor<1x512x512x1xi8>) -> (tensor<1x512x512x1xi8>) {
// CHECK:      npu.layer "reads it" {{.*}}) -> (tensor<1x512x512x1xi8>) {
// CHECK:      npu.layer "small" {{.*}} attributes {stays = {{[0-9]+}} : i64, rest
// CHECK:      npu.layer "named" {{.*}} attributes {rest
// CHECK:      npu.layer "small too" {{.*}} attributes {rest
// CHECK:      npu.layer "output" {{.*}}) -> (tensor<1x4xi8>) {

// -----

// vta has no memory for both data and results: nothing stays.
builtin.module attributes {npu.device = "vta"} {
  func.func @nowhere(%z: tensor<1x4xi8>) -> tensor<1x4xi8> {
    %c = npu.layer "c" (%0 = %z : tensor<1x4xi8>) -> (tensor<1x4xi8>) {
      %1 = qint.requantize %0 {multiplier = array<i32: 1073741824>, shift = array<i32: -4>, contract = "shift", min = -128 : i32, max = 127 : i32} : tensor<1x4xi8> -> tensor<1x4xi8>
      npu.yield %1 : tensor<1x4xi8>
    }
    %d = npu.layer "d" (%0 = %c : tensor<1x4xi8>) -> (tensor<1x4xi8>) {
      %1 = qint.requantize %0 {multiplier = array<i32: 1073741824>, shift = array<i32: -4>, contract = "shift", min = -128 : i32, max = 127 : i32} : tensor<1x4xi8> -> tensor<1x4xi8>
      npu.yield %1 : tensor<1x4xi8>
    }
    func.return %d : tensor<1x4xi8>
  }
}
// CHECK-LABEL: func.func @nowhere
// CHECK-NOT:  stays
