// RUN: qmlir-opt %s | filecheck %s
// RUN: qmlir-opt --mlir-print-op-generic %s | qmlir-opt | filecheck %s
// RUN: qmlir-opt --mlir-print-op-generic %s | filecheck %s --check-prefix=GENERIC

// Parts of a network hold the operations they stand for; the host's say why, and what they cost.
func.func @main(%x: tensor<1x4xi8>, %z: tensor<1x4xi8>) -> (tensor<1x4xi8>, tensor<1x4xi8>) {
  %y = npu.layer "act" (%a = %x : tensor<1x4xi8>) -> (tensor<1x4xi8>) {
    %b = qint.requantize %a {multiplier = array<i32: 1073741824>, shift = array<i32: -4>, contract = "shift", min = -128 : i32, max = 127 : i32} : tensor<1x4xi8> -> tensor<1x4xi8>
    npu.yield %b : tensor<1x4xi8>
  }
  %u, %v = npu.host "swap" (%c = %x : tensor<1x4xi8>, %d = %y : tensor<1x4xi8>) -> (tensor<1x4xi8>, tensor<1x4xi8>) costs 512 because "it has no key" attributes {note = 1 : i64} {
    npu.yield %d, %c : tensor<1x4xi8>, tensor<1x4xi8>
  }
  func.return %u, %v : tensor<1x4xi8>, tensor<1x4xi8>
}
// CHECK:      %y = npu.layer "act" (%a = %x : tensor<1x4xi8>) -> (tensor<1x4xi8>) {
// CHECK-NEXT:   %b = qint.requantize %a
// CHECK-NEXT:   npu.yield %b : tensor<1x4xi8>
// CHECK-NEXT: }
// CHECK-NEXT: %u, %v = npu.host "swap" (%c = %x : tensor<1x4xi8>, %d = %y : tensor<1x4xi8>) -> (tensor<1x4xi8>, tensor<1x4xi8>) costs 512 because "it has no key" attributes {note = 1 : i64} {
// CHECK-NEXT:   npu.yield %d, %c : tensor<1x4xi8>, tensor<1x4xi8>
// CHECK-NEXT: }

// GENERIC: "npu.layer"(%{{.*}}) <{label = "act"}> ({
// GENERIC: "npu.yield"(%{{.*}}) : (tensor<1x4xi8>) -> ()
// GENERIC: "npu.host"(%{{.*}}, %{{.*}}) <{label = "swap", cycles = 512 : i64, reasons = "it has no key"}> ({
