// RUN: qmlir-opt --qint-to-npu=device=nmp %s | filecheck %s
// RUN: qmlir-opt --convert-qint-to-npu=device=nmp %s | filecheck %s

// A contraction runs with the change of scale that ends its sums, casts of the caller's floats on the host; constants
// stand where they are read.
func.func @main(%x: tensor<1x4xf32>) -> tensor<1x2xf32> {
  %w = nn.constant <tensor<2x4xi8>, [1, 2, 3, 4, 5, 6, 7, 8]> : tensor<2x4xi8>
  %0 = quant.qcast %x : tensor<1x4xf32> to tensor<1x4x!quant.uniform<i8:f32, 0.5>>
  %1 = quant.scast %0 : tensor<1x4x!quant.uniform<i8:f32, 0.5>> to tensor<1x4xi8>
  %acc = qint.fully_connected %1, %w : tensor<1x4xi8>, tensor<2x4xi8> -> tensor<1x2xi32>
  %y = qint.requantize %acc {qmlir.name = #qmlir.name<nodes ["fc"]>, qmlir.decision = #qmlir.decision<quantized, "integer", "i8 activations">, multiplier = array<i32: 1073741824>, shift = array<i32: -4>, contract = "shift", min = -128 : i32, max = 127 : i32} : tensor<1x2xi32> -> tensor<1x2xi8>
  %2 = quant.scast %y : tensor<1x2xi8> to tensor<1x2x!quant.uniform<i8:f32, 0.5>>
  %3 = quant.dcast %2 : tensor<1x2x!quant.uniform<i8:f32, 0.5>> to tensor<1x2xf32>
  func.return %3 : tensor<1x2xf32>
}
// CHECK:      builtin.module attributes {npu.device = "nmp"} {
// CHECK-NEXT: func.func @main(%x: tensor<1x4xf32>) -> tensor<1x2xf32> {
// CHECK-NEXT: %0 = npu.host "quant.qcast" (%{{.*}} = %x : tensor<1x4xf32>) -> (tensor<1x4xi8>) costs 505 because "quant.qcast: what comes from the caller or goes there is cast by the host; quant.scast: it gives another type to what the host computes or reads" {
// CHECK-NEXT: quant.qcast
// CHECK-NEXT: quant.scast
// CHECK-NEXT: npu.yield %{{.*}} : tensor<1x4xi8>
// CHECK-NEXT: }
// CHECK-NEXT: %y = npu.layer "fc" (%{{.*}} = %0 : tensor<1x4xi8>) -> (tensor<1x2xi8>) {
// CHECK-NEXT: nn.constant <tensor<2x4xi8>, [1, 2, 3, 4, 5, 6, 7, 8]>
// CHECK-NEXT: qint.fully_connected
// CHECK-NEXT: qint.requantize {{.*}} "device", "i8 activations; nmp computes it"
// CHECK-NEXT: npu.yield %{{.*}} : tensor<1x2xi8>
// CHECK-NEXT: }
// CHECK-NEXT: %{{.*}} = npu.host "quant.scast" (%{{.*}} = %y : tensor<1x2xi8>) -> (tensor<1x2xf32>)

// What the device refuses runs on the host, sums and their change of scale together; movement between operations of
// the host stays there, movement beside the device does not. Calls are one where no layer lies between.
func.func @refused(%x: tensor<1x4xi8>) -> tensor<1x2xi8> {
  %w = nn.constant <tensor<2x4xi8>, [1, 2, 3, 4, 5, 6, 7, 8]> : tensor<2x4xi8>
  %acc = qint.fully_connected %x, %w : tensor<1x4xi8>, tensor<2x4xi8> -> tensor<1x2xi32>
  %y = qint.requantize %acc {qmlir.name = #qmlir.name<nodes ["odd"]>, qmlir.decision = #qmlir.decision<quantized, "integer", "i8 activations">, multiplier = array<i32: 1073741824>, shift = array<i32: -4>, contract = "single", min = -128 : i32, max = 127 : i32} : tensor<1x2xi32> -> tensor<1x2xi8>
  %turned = nn.reshape %y {shape = array<i64: 2, 1>} : tensor<1x2xi8> -> tensor<2x1xi8>
  %back = nn.reshape %turned {shape = array<i64: 1, 2>} : tensor<2x1xi8> -> tensor<1x2xi8>
  %z = qint.requantize %back {multiplier = array<i32: 1073741824>, shift = array<i32: -4>, contract = "single", min = -128 : i32, max = 127 : i32} : tensor<1x2xi8> -> tensor<1x2xi8>
  %flat = nn.reshape %z {shape = array<i64: 2>} : tensor<1x2xi8> -> tensor<2xi8>
  %v = qint.requantize %flat {multiplier = array<i32: 1073741824>, shift = array<i32: -4>, contract = "shift", min = -128 : i32, max = 127 : i32} : tensor<2xi8> -> tensor<2xi8>
  %u = nn.reshape %v {shape = array<i64: 1, 2>} : tensor<2xi8> -> tensor<1x2xi8>
  func.return %u : tensor<1x2xi8>
}
// CHECK-LABEL: func.func @refused
// CHECK-NEXT: %z = npu.host "qint.fully_connected" (%{{.*}} = %x : tensor<1x4xi8>) -> (tensor<1x2xi8>) costs {{[0-9]+}} because "qint.fully_connected: qint.requantize, with which it runs, stays on the host: scales change by the contract shift, got single (quant.round); odd: scales change by the contract shift, got single (quant.round); nn.reshape: it moves data that no operation of the device reads or writes; nn.reshape: it moves
// CHECK-NEXT: nn.constant
// CHECK-NEXT: qint.fully_connected
// CHECK-NEXT: qint.requantize {{.*}} "host", "i8 activations; the host computes it: scales change by the contract shift, got single (quant.round)"
// CHECK-NEXT: nn.reshape
// CHECK-NEXT: nn.reshape
// CHECK-NEXT: qint.requantize
// CHECK-NEXT: npu.yield
// CHECK-NEXT: }
// CHECK-NEXT: %flat = npu.layer "nn.reshape"
// CHECK:      %v = npu.layer "qint.requantize"
// CHECK:      %u = npu.layer "nn.reshape.1"

// Two calls where a layer lies between, one in which nothing is computed: the caller gets what it gave.
func.func @two_calls(%x: tensor<1x4xi8>) -> (tensor<1x4xi8>, tensor<1x4xi8>) {
  %a = qint.requantize %x {multiplier = array<i32: 1073741824>, shift = array<i32: -4>, contract = "single", min = -128 : i32, max = 127 : i32} : tensor<1x4xi8> -> tensor<1x4xi8>
  %b = qint.requantize %a {multiplier = array<i32: 1073741824>, shift = array<i32: -4>, contract = "shift", min = -128 : i32, max = 127 : i32} : tensor<1x4xi8> -> tensor<1x4xi8>
  %c = qint.add %a, %b {multipliers = array<i64: 1073741824, 1073741824>, shift = 31 : i32, lhs_zero_point = 1 : i32, min = -128 : i32, max = 127 : i32} : tensor<1x4xi8>, tensor<1x4xi8> -> tensor<1x4xi8>
  func.return %c, %x : tensor<1x4xi8>, tensor<1x4xi8>
}
// CHECK-LABEL: func.func @two_calls
// CHECK-NEXT: %a = npu.host "qint.requantize"
// CHECK:      %b = npu.layer "qint.requantize.1"
// CHECK:      %c = npu.host "qint.add" (%{{.*}} = %a : tensor<1x4xi8>, %{{.*}} = %b : tensor<1x4xi8>) -> (tensor<1x4xi8>) costs {{[0-9]+}} because "qint.add: zero points are 0, got 0 or 1 (quant.zero_point.activations)"
// CHECK:      [[X:%.*]] = npu.host "returned" (%{{.*}} = %x : tensor<1x4xi8>) -> (tensor<1x4xi8>) costs 502 {
// CHECK-NEXT: npu.yield
// CHECK-NEXT: }
// CHECK-NEXT: func.return %c, [[X]]

// Weights that are computed, data of 32 bits, tensors without elements, sums that two operations read: what the
// commands of no device take. The reshape is no success by itself, the last layer is one.
func.func @no_device(%x: tensor<1x4xi8>, %w: tensor<2x4xi8>, %n: tensor<1x4xi32>, %e: tensor<0x4xi8>) -> (tensor<1x2xi8>, tensor<4x1xi32>, tensor<0x4xi8>, tensor<1x4xi8>, tensor<1x4xi8>, tensor<1x4xi8>, tensor<1x4xi8>) {
  %acc = qint.fully_connected %x, %w : tensor<1x4xi8>, tensor<2x4xi8> -> tensor<1x2xi32>
  %y = qint.requantize %acc {multiplier = array<i32: 1073741824>, shift = array<i32: -4>, contract = "shift", min = -128 : i32, max = 127 : i32} : tensor<1x2xi32> -> tensor<1x2xi8>
  %m = nn.transpose %n {permutation = array<i64: 1, 0>} : tensor<1x4xi32> -> tensor<4x1xi32>
  %f = qint.requantize %e {multiplier = array<i32: 1073741824>, shift = array<i32: -4>, contract = "shift", min = -128 : i32, max = 127 : i32} : tensor<0x4xi8> -> tensor<0x4xi8>
  %i = nn.constant <tensor<4x4xi8>, [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16]> : tensor<4x4xi8>
  %p = qint.fully_connected %x, %i : tensor<1x4xi8>, tensor<4x4xi8> -> tensor<1x4xi32>
  %q = qint.requantize %p {multiplier = array<i32: 1073741824>, shift = array<i32: -4>, contract = "shift", min = -128 : i32, max = 127 : i32} : tensor<1x4xi32> -> tensor<1x4xi8>
  %r = qint.requantize %p {multiplier = array<i32: 1073741824>, shift = array<i32: -4>, contract = "shift", min = -128 : i32, max = 127 : i32} : tensor<1x4xi32> -> tensor<1x4xi8>
  %o = qint.requantize %n {multiplier = array<i32: 1073741824>, shift = array<i32: -4>, contract = "shift", min = -128 : i32, max = 127 : i32} : tensor<1x4xi32> -> tensor<1x4xi8>
  %s = qint.requantize %x {multiplier = array<i32: 1073741824>, shift = array<i32: -4>, contract = "shift", min = -128 : i32, max = 127 : i32} : tensor<1x4xi8> -> tensor<1x4xi8>
  func.return %y, %m, %f, %q, %r, %o, %s : tensor<1x2xi8>, tensor<4x1xi32>, tensor<0x4xi8>, tensor<1x4xi8>, tensor<1x4xi8>, tensor<1x4xi8>, tensor<1x4xi8>
}
// CHECK-LABEL: func.func @no_device
// CHECK-NEXT: npu.host {{.*}} because "qint.fully_connected: weights and bias are constants; qint.requantize: qint.fully_connected, with which it runs, stays on the host: weights and bias are constants"
// CHECK:      npu.host {{.*}} because "nn.transpose: data of other layers has 8 or 16 bits"
// CHECK:      npu.host {{.*}} because "qint.requantize: tensors have elements"
// CHECK:      npu.host {{.*}} because "qint.fully_connected: sums end in one change of scale to 8 or 16 bits; qint.requantize: data of other layers has 8 or 16 bits; qint.requantize: data
// CHECK:      npu.host {{.*}} because "qint.requantize: data of other layers has 8 or 16 bits"
// CHECK:      %s = npu.layer

// A change of type alone is another name for the same bytes: nothing crosses for it.
func.func @named(%x: tensor<1x4x!quant.uniform<u8:f32, 0.5:128>>) -> tensor<1x4x!quant.uniform<u8:f32, 0.25:128>> {
  %0 = quant.scast %x : tensor<1x4x!quant.uniform<u8:f32, 0.5:128>> to tensor<1x4xi8>
  %1 = qint.requantize %0 {multiplier = array<i32: 1073741824>, shift = array<i32: 1>, contract = "shift", min = -128 : i32, max = 127 : i32} : tensor<1x4xi8> -> tensor<1x4xi8>
  %2 = quant.scast %1 : tensor<1x4xi8> to tensor<1x4x!quant.uniform<u8:f32, 0.25:128>>
  func.return %2 : tensor<1x4x!quant.uniform<u8:f32, 0.25:128>>
}
// CHECK-LABEL: func.func @named
// CHECK-NEXT: npu.layer "quant.scast"
// CHECK:      npu.layer "qint.requantize"
// CHECK:      npu.layer "quant.scast.1"
// CHECK-NOT:  npu.host

// Between two calls of the host a region of the device costs a call, and its bytes out and in: more than it saves where
// it computes little. Of what moves there too, each operation says so; the last region stays.
func.func @fallback(%x: tensor<1x4xi8>) -> tensor<1x2xi8> {
  %a = qint.requantize %x {multiplier = array<i32: 1073741824>, shift = array<i32: -4>, contract = "single", min = -128 : i32, max = 127 : i32} : tensor<1x4xi8> -> tensor<1x4xi8>
  %b = qint.requantize %a {qmlir.decision = #qmlir.decision<quantized, "integer", "i8 activations">, multiplier = array<i32: 1073741824>, shift = array<i32: -4>, contract = "shift", min = -128 : i32, max = 127 : i32} : tensor<1x4xi8> -> tensor<1x4xi8>
  %c = qint.requantize %b {multiplier = array<i32: 1073741824>, shift = array<i32: -4>, contract = "single", min = -128 : i32, max = 127 : i32} : tensor<1x4xi8> -> tensor<1x4xi8>
  %w = nn.constant <tensor<2x4xi8>, [1, 2, 3, 4, 5, 6, 7, 8]> : tensor<2x4xi8>
  %acc = qint.fully_connected %c, %w : tensor<1x4xi8>, tensor<2x4xi8> -> tensor<1x2xi32>
  %d = qint.requantize %acc {multiplier = array<i32: 1073741824>, shift = array<i32: -4>, contract = "shift", min = -128 : i32, max = 127 : i32} : tensor<1x2xi32> -> tensor<1x2xi8>
  %e = qint.requantize %d {multiplier = array<i32: 1073741824>, shift = array<i32: -4>, contract = "single", min = -128 : i32, max = 127 : i32} : tensor<1x2xi8> -> tensor<1x2xi8>
  func.return %e : tensor<1x2xi8>
}
// With it two calls of 4 bytes in and out are one: 502 cycles less. No call computes longer than it moves its bytes.
// CHECK-LABEL: func.func @fallback
// CHECK-NEXT: %c = npu.host "qint.requantize" (%{{.*}} = %x : tensor<1x4xi8>) -> (tensor<1x4xi8>) costs 502 because "qint.requantize: scales change by the contract shift, got single (quant.round); qint.requantize: its boundary transfers would cost 502 cycles beside the 1 that nmp takes at least; the host takes 0 (fallback); qint.requantize: scales change
// CHECK-NEXT: qint.requantize
// CHECK-NEXT: qint.requantize {{.*}} "host", "i8 activations; the host computes it: its boundary transfers would cost 502 cycles beside the 1 that nmp takes at least; the host takes 0 (fallback)"
// CHECK-NEXT: qint.requantize
// CHECK-NEXT: npu.yield
// CHECK-NEXT: }
// CHECK-NEXT: %d = npu.layer "qint.requantize.1"
// CHECK:      %e = npu.host "qint.requantize.2" {{.*}} costs 501

// With as much to compute that the host would take longer, it stays on the device.
func.func @worth_it(%x: tensor<1x64x64x1xi8>) -> tensor<1x60x60x2xi8> {
  %a = qint.requantize %x {multiplier = array<i32: 1073741824>, shift = array<i32: -4>, contract = "single", min = -128 : i32, max = 127 : i32} : tensor<1x64x64x1xi8> -> tensor<1x64x64x1xi8>
  %w = nn.constant <tensor<2x5x5x1xi8>, [-3, -2, -1, 0, 1, 2, 3, -3, -2, -1, 0, 1, 2, 3, -3, -2, -1, 0, 1, 2, 3, -3, -2, -1, 0, 1, 2, 3, -3, -2, -1, 0, 1, 2, 3, -3, -2, -1, 0, 1, 2, 3, -3, -2, -1, 0, 1, 2, 3, -3]> : tensor<2x5x5x1xi8>
  %acc = qint.conv2d %a, %w : tensor<1x64x64x1xi8>, tensor<2x5x5x1xi8> -> tensor<1x60x60x2xi32>
  %b = qint.requantize %acc {multiplier = array<i32: 1073741824>, shift = array<i32: -4>, contract = "shift", min = -128 : i32, max = 127 : i32} : tensor<1x60x60x2xi32> -> tensor<1x60x60x2xi8>
  %c = qint.requantize %b {multiplier = array<i32: 1073741824>, shift = array<i32: -4>, contract = "single", min = -128 : i32, max = 127 : i32} : tensor<1x60x60x2xi8> -> tensor<1x60x60x2xi8>
  %d = qint.requantize %c {multiplier = array<i32: 1073741824>, shift = array<i32: -4>, contract = "shift", min = -128 : i32, max = 127 : i32} : tensor<1x60x60x2xi8> -> tensor<1x60x60x2xi8>
  func.return %d : tensor<1x60x60x2xi8>
}
// CHECK-LABEL: func.func @worth_it
// CHECK-NEXT: npu.host {{.*}} costs 2548 because
// CHECK:      %b = npu.layer
// CHECK:      npu.host {{.*}} costs 4100 because "qint.requantize: scales change by the contract shift, got single (quant.round); qint.requantize:
// What follows it costs the last call nothing: computing takes no longer than its bytes.
// CHECK-SAME: its boundary transfers would cost 0 cycles beside the 900 that nmp takes at least; the host takes 0 (fallback)
// CHECK-NOT:  npu.layer

// Movement of what a call of the host writes or reads anyway joins that call, with what gives it another shape on the
// way, where the device takes longer for it: nmp loads single bytes in bursts of 64, and writes them one by one.
func.func @beside(%x: tensor<1x3x16x16xf32>) -> tensor<1x768xf32> {
  %0 = quant.qcast %x : tensor<1x3x16x16xf32> to tensor<1x3x16x16x!quant.uniform<i8:f32, 0.5>>
  %1 = quant.scast %0 : tensor<1x3x16x16x!quant.uniform<i8:f32, 0.5>> to tensor<1x3x16x16xi8>
  %2 = nn.transpose %1 {qmlir.decision = #qmlir.decision<quantized, "integer", "i8 activations">, permutation = array<i64: 0, 2, 3, 1>} : tensor<1x3x16x16xi8> -> tensor<1x16x16x3xi8>
  %3 = qint.requantize %2 {multiplier = array<i32: 1073741824>, shift = array<i32: -4>, contract = "shift", min = -128 : i32, max = 127 : i32} : tensor<1x16x16x3xi8> -> tensor<1x16x16x3xi8>
  %4 = nn.transpose %3 {permutation = array<i64: 0, 3, 1, 2>} : tensor<1x16x16x3xi8> -> tensor<1x3x16x16xi8>
  %5 = nn.reshape %4 {shape = array<i64: 1, 768>} : tensor<1x3x16x16xi8> -> tensor<1x768xi8>
  %6 = quant.scast %5 : tensor<1x768xi8> to tensor<1x768x!quant.uniform<i8:f32, 0.5>>
  %7 = quant.dcast %6 : tensor<1x768x!quant.uniform<i8:f32, 0.5>> to tensor<1x768xf32>
  func.return %7 : tensor<1x768xf32>
}
// CHECK-LABEL: func.func @beside
// CHECK-NEXT: npu.host "quant.qcast" {{.*}} -> (tensor<1x16x16x3xi8>) costs 1460 because "{{.*}}; nn.transpose: the calls of the host take 2920 cycles with it and 2920 without; nmp takes 3072 at least to move it (fallback)"
// CHECK-NEXT: quant.qcast
// CHECK-NEXT: quant.scast
// CHECK-NEXT: nn.transpose {{.*}} "host", "i8 activations; the host computes it: the calls of the host take 2920 cycles with it and 2920 without; nmp takes 3072 at least to move it (fallback)"
// CHECK-NEXT: npu.yield
// CHECK-NEXT: }
// CHECK-NEXT: npu.layer "qint.requantize"
// CHECK:      npu.host "nn.transpose" {{.*}} costs 1460 because "nn.transpose: the calls of the host take 2920 cycles with it and 2920 without; nmp takes 48 at least to move it (fallback); nn.reshape: the calls
// CHECK-NEXT: nn.transpose
// CHECK-NEXT: nn.reshape
// CHECK-NEXT: quant.scast
// CHECK-NEXT: quant.dcast

// It stays on the device where the host would write much more for it.
func.func @growing(%x: tensor<1x1x1x64xi8>) -> tensor<1x8x8x64xi8> {
  %a = qint.requantize %x {multiplier = array<i32: 1073741824>, shift = array<i32: -4>, contract = "single", min = -128 : i32, max = 127 : i32} : tensor<1x1x1x64xi8> -> tensor<1x1x1x64xi8>
  %b = nn.broadcast %a {shape = array<i64: 1, 8, 8, 64>} : tensor<1x1x1x64xi8> -> tensor<1x8x8x64xi8>
  %c = qint.requantize %b {multiplier = array<i32: 1073741824>, shift = array<i32: -4>, contract = "shift", min = -128 : i32, max = 127 : i32} : tensor<1x8x8x64xi8> -> tensor<1x8x8x64xi8>
  func.return %c : tensor<1x8x8x64xi8>
}
// CHECK-LABEL: func.func @growing
// CHECK-NEXT: npu.host "qint.requantize"
// CHECK:      npu.layer "nn.broadcast"

// No call is made for it: what the caller gives in integers, or takes, or an operation of the device reads, moves on
// the device.
func.func @no_call(%x: tensor<1x64x64xi8>) -> (tensor<1x64x64xi8>, tensor<1x64x64xi8>) {
  %a = nn.transpose %x {permutation = array<i64: 0, 2, 1>} : tensor<1x64x64xi8> -> tensor<1x64x64xi8>
  %b = qint.requantize %a {multiplier = array<i32: 1073741824>, shift = array<i32: -4>, contract = "shift", min = -128 : i32, max = 127 : i32} : tensor<1x64x64xi8> -> tensor<1x64x64xi8>
  %c = nn.transpose %b {permutation = array<i64: 0, 2, 1>} : tensor<1x64x64xi8> -> tensor<1x64x64xi8>
  %d = qint.requantize %c {multiplier = array<i32: 1073741824>, shift = array<i32: -4>, contract = "single", min = -128 : i32, max = 127 : i32} : tensor<1x64x64xi8> -> tensor<1x64x64xi8>
  func.return %c, %d : tensor<1x64x64xi8>, tensor<1x64x64xi8>
}
// CHECK-LABEL: func.func @no_call
// CHECK-NEXT: npu.layer "nn.transpose"
// CHECK:      npu.layer "qint.requantize"
// CHECK:      npu.layer "nn.transpose.1"
// CHECK:      npu.host "qint.requantize.1"

// A product of two computed matrices, and one whose second matrix has a zero point, which this device's array does not
// take off.
func.func @products(%x: tensor<4x8xi8>, %y: tensor<8x4xi8>) -> (tensor<4x4xi8>, tensor<4x4xi8>) {
  %acc = qint.matmul %x, %y : tensor<4x8xi8>, tensor<8x4xi8> -> tensor<4x4xi32>
  %p = qint.requantize %acc {multiplier = array<i32: 1073741824>, shift = array<i32: -4>, contract = "shift", min = -128 : i32, max = 127 : i32} : tensor<4x4xi32> -> tensor<4x4xi8>
  %sums = qint.matmul %x, %y {rhs_zero_point = 3 : i32} : tensor<4x8xi8>, tensor<8x4xi8> -> tensor<4x4xi32>
  %q = qint.requantize %sums {multiplier = array<i32: 1073741824>, shift = array<i32: -4>, contract = "shift", min = -128 : i32, max = 127 : i32} : tensor<4x4xi32> -> tensor<4x4xi8>
  func.return %p, %q : tensor<4x4xi8>, tensor<4x4xi8>
}
// CHECK-LABEL: func.func @products
// CHECK-NEXT: %p = npu.layer "qint.requantize" (%{{.*}} = %x : tensor<4x8xi8>, %{{.*}} = %y : tensor<8x4xi8>)
// CHECK:      %q = npu.host "qint.matmul" {{.*}} because "qint.matmul: the second matrix has the zero point 0, got 3 (quant.zero_point.weights); qint.matmul: zero points are 0, got 0 or 3 (quant.zero_point.activations)
