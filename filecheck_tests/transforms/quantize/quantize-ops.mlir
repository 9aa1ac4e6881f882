// RUN: qmlir-opt --quantize-ops --split-input-file %s | filecheck %s

!a = !quant.uniform<i8:f32, 0.5>
!s = !quant.uniform<i8:f32, 3.90625e-03:-128>

// Casts fold into the operation, which keeps its names.
// CHECK-LABEL: func.func @unary
// CHECK-NEXT: %[[S:.*]] = nn.sigmoid %x {qmlir.name = #qmlir.name<nodes ["squash"], tensors ["s"]>, qmlir.decision = #qmlir.decision<quantized, "integer", "i8 activations">} : tensor<4x!quant.uniform<i8:f32, 5.000000e-01>> -> tensor<4x!quant.uniform<i8:f32, 3.906250e-03:-128>>
// CHECK-NEXT: func.return %[[S]]
func.func @unary(%x: tensor<4x!a>) -> tensor<4x!s> {
  %0 = quant.dcast %x : tensor<4x!a> to tensor<4xf32>
  %1 = nn.sigmoid %0 {qmlir.name = #qmlir.name<nodes ["squash"], tensors ["s"]>} : tensor<4xf32> -> tensor<4xf32>
  %2 = quant.qcast %1 : tensor<4xf32> to tensor<4x!s>
  func.return %2 : tensor<4x!s>
}

// -----

!a = !quant.uniform<i8:f32, 0.5>
!s = !quant.uniform<i8:f32, 3.90625e-03:-128>

// A result that is read as floats too stays float: its reader would get rounded values. Of data movement both are the
// same values.
// CHECK-LABEL: func.func @shared
// CHECK: nn.sigmoid {{.*}}#qmlir.decision<float, "shared", "its result is also read as floats, which quantizing it would change">{{.*}} : tensor<4xf32> -> tensor<4xf32>
// CHECK: nn.reshape %x {{.*}}#qmlir.decision<quantized, "moved"
func.func @shared(%x: tensor<4x!a>) -> (tensor<4x!s>, tensor<4xf32>, tensor<2x2xf32>) {
  %0 = quant.dcast %x : tensor<4x!a> to tensor<4xf32>
  %1 = nn.sigmoid %0 : tensor<4xf32> -> tensor<4xf32>
  %2 = quant.qcast %1 : tensor<4xf32> to tensor<4x!s>
  %3 = nn.reshape %0 {shape = array<i64: 2, 2>} : tensor<4xf32> -> tensor<2x2xf32>
  func.return %2, %1, %3 : tensor<4x!s>, tensor<4xf32>, tensor<2x2xf32>
}

// -----

!a = !quant.uniform<i8:f32, 0.5>
!w = !quant.uniform<i8<-127:127>:f32:0, {0.5,0.25}>
!y = !quant.uniform<i8:f32, 1.0>

// Weights become stored integers under their own name; the bias waits for quantize-bias.
// CHECK-LABEL: func.func @weights
// CHECK: %[[W:.*]] = nn.constant <tensor<2x2xi8>, [2, 4, 12, 16]> {qmlir.name = #qmlir.name<tensors ["kernel"]>}
// CHECK-NOT: quant.qcast
// CHECK: nn.fully_connected %x, %[[W]], %{{.*}} {qmlir.decision = #qmlir.decision<quantized, "integer", "i8 activations, i8 weights per channel">} : {{.*}}, tensor<2xf32> ->
func.func @weights(%x: tensor<1x2x!a>) -> tensor<1x2x!y> {
  %0 = quant.dcast %x : tensor<1x2x!a> to tensor<1x2xf32>
  %w = nn.constant <tensor<2x2xf32>, [1.0, 2.0, 3.0, 4.0]> {qmlir.name = #qmlir.name<tensors ["kernel"]>} : tensor<2x2xf32>
  %b = nn.constant <tensor<2xf32>, [1.0, 2.0]> : tensor<2xf32>
  %wq = quant.qcast %w : tensor<2x2xf32> to tensor<2x2x!w>
  %wd = quant.dcast %wq : tensor<2x2x!w> to tensor<2x2xf32>
  %1 = nn.fully_connected %0, %wd, %b : tensor<1x2xf32>, tensor<2x2xf32>, tensor<2xf32> -> tensor<1x2xf32>
  %2 = quant.qcast %1 : tensor<1x2xf32> to tensor<1x2x!y>
  func.return %2 : tensor<1x2x!y>
}

// -----

!a = !quant.uniform<i8:f32, 0.5>
!b = !quant.uniform<i8:f32, 0.25>

// Graphs that come with casts: a pool keeps its operand's scale and a requantization follows; a concat's operands
// are brought to its scale first. A second type for one value is one more requantization.
// CHECK-LABEL: func.func @change_of_scale
// CHECK: %[[P:.*]] = nn.max_pool2d %x {{.*}} -> tensor<1x1x1x1x!quant.uniform<i8:f32, 5.000000e-01>>
// CHECK-NEXT: %[[Q:.*]] = nn.requantize %[[P]] {qmlir.decision = #qmlir.decision<quantized, "integer", "i8 activations">} : {{.*}} -> tensor<1x1x1x1x!quant.uniform<i8:f32, 2.500000e-01>>
// CHECK-NEXT: %[[R:.*]] = nn.requantize %[[P]] {{.*}}#qmlir.decision<quantized, "integer", "i8 activations">
// CHECK-NEXT: %[[C:.*]] = nn.concat %[[R]], %[[Q]] {{.*}}#qmlir.decision<quantized, "moved", "moves i8 values">
// CHECK-NEXT: func.return %[[C]], %[[Q]]
func.func @change_of_scale(%x: tensor<1x2x2x1x!a>) -> (tensor<2x1x1x1x!b>, tensor<1x1x1x1x!b>) {
  %0 = quant.dcast %x : tensor<1x2x2x1x!a> to tensor<1x2x2x1xf32>
  %1 = nn.max_pool2d %0 {window = array<i64: 2, 2>} : tensor<1x2x2x1xf32> -> tensor<1x1x1x1xf32>
  %2 = quant.qcast %1 : tensor<1x1x1x1xf32> to tensor<1x1x1x1x!a>
  %3 = quant.qcast %1 : tensor<1x1x1x1xf32> to tensor<1x1x1x1x!b>
  %4 = quant.dcast %2 : tensor<1x1x1x1x!a> to tensor<1x1x1x1xf32>
  %5 = quant.dcast %3 : tensor<1x1x1x1x!b> to tensor<1x1x1x1xf32>
  %6 = nn.concat %4, %5 {axis = 0 : i64} : tensor<1x1x1x1xf32>, tensor<1x1x1x1xf32> -> tensor<2x1x1x1xf32>
  %7 = quant.qcast %6 : tensor<2x1x1x1xf32> to tensor<2x1x1x1x!b>
  func.return %7, %3 : tensor<2x1x1x1x!b>, tensor<1x1x1x1x!b>
}

// -----

!a = !quant.uniform<i8:f32, 0.5>

// Nobody asks for a type of what is only moved: it has its operand's.
// CHECK-LABEL: func.func @follows
// CHECK-NEXT: %[[R:.*]] = nn.reshape %x
// CHECK-NEXT: %[[F:.*]] = quant.dcast %[[R]] : tensor<2x2x!quant.uniform<i8:f32, 5.000000e-01>> to tensor<2x2xf32>
// CHECK-NEXT: func.return %[[F]]
func.func @follows(%x: tensor<4x!a>) -> tensor<2x2xf32> {
  %0 = quant.dcast %x : tensor<4x!a> to tensor<4xf32>
  %1 = nn.reshape %0 {shape = array<i64: 2, 2>} : tensor<4xf32> -> tensor<2x2xf32>
  func.return %1 : tensor<2x2xf32>
}

// -----

!a = !quant.uniform<i8:f32, 0.5>

// No cast on one side or the other: float, and the tensor is named. An earlier, better reason stays.
// CHECK-LABEL: func.func @no_casts
// CHECK: nn.relu %x {{.*}}#qmlir.decision<float, "no-range", "no range is known for %x, {{.*}}r{{.*}}">
// CHECK: nn.relu %{{.*}}#qmlir.decision<float, "no-range", "no range is known for the result of nn.relu">
// CHECK: nn.relu %{{.*}}#qmlir.decision<float, "no-range", "somebody knew better">
func.func @no_casts(%x: tensor<4xf32>, %q: tensor<4x!a>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) {
  %0 = nn.relu %x {qmlir.name = #qmlir.name<tensors ["r"]>} : tensor<4xf32> -> tensor<4xf32>
  %1 = quant.dcast %q : tensor<4x!a> to tensor<4xf32>
  %2 = nn.relu %1 : tensor<4xf32> -> tensor<4xf32>
  %3 = nn.relu %1 {qmlir.decision = #qmlir.decision<float, "no-range", "somebody knew better">} : tensor<4xf32> -> tensor<4xf32>
  func.return %0, %2, %3 : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
}

// -----

!a = !quant.uniform<i8:f32, 0.5>
!u = !quant.uniform<i32:f32, 0.5>
!s = !quant.uniform<i8:f32, 3.90625e-03:-128>

// What the target lacks stays between its casts: an operation, a storage type.
// CHECK-LABEL: func.func @target_lacks
// CHECK: nn.cumulative_product %{{.*}}#qmlir.decision<float, "target", "each of its products has more digits than the one before, which no single scale holds">{{.*}} : tensor<1x4xf32>
// CHECK-NEXT: quant.qcast
// CHECK: nn.relu %{{.*}}#qmlir.decision<float, "precision", "target cpu computes it on i8, i16, not on i32">{{.*}} : tensor<1x4xf32>
// CHECK-NEXT: quant.qcast
func.func @target_lacks(%x: tensor<1x4x!a>, %y: tensor<1x4x!u>) -> (tensor<1x4x!s>, tensor<1x4x!u>) {
  %0 = quant.dcast %x : tensor<1x4x!a> to tensor<1x4xf32>
  %1 = nn.cumulative_product %0 {axis = 1 : i64} : tensor<1x4xf32> -> tensor<1x4xf32>
  %2 = quant.qcast %1 : tensor<1x4xf32> to tensor<1x4x!s>
  %3 = quant.dcast %y : tensor<1x4x!u> to tensor<1x4xf32>
  %4 = nn.relu %3 : tensor<1x4xf32> -> tensor<1x4xf32>
  %5 = quant.qcast %4 : tensor<1x4xf32> to tensor<1x4x!u>
  func.return %2, %5 : tensor<1x4x!s>, tensor<1x4x!u>
}

// -----

!a = !quant.uniform<i8:f32, 1.0e-20>
!b = !quant.uniform<i8:f32, 1.0e+20>

// Scales that no multiplier bridges: float, and the constant it reads is not rounded.
// CHECK-LABEL: func.func @too_far_apart
// CHECK: %[[C:.*]] = nn.constant <tensor<1xf32>, [1.5]>
// CHECK: nn.add %{{.*}}, %[[C]] {qmlir.decision = #qmlir.decision<float, "factor", "its scales are a factor of 1e+40 apart, which no 32-bit multiplier bridges">}
// CHECK-NEXT: quant.qcast
func.func @too_far_apart(%x: tensor<4x!b>) -> tensor<4x!a> {
  %c = nn.constant <tensor<1xf32>, [1.5]> : tensor<1xf32>
  %cq = quant.qcast %c : tensor<1xf32> to tensor<1x!b>
  %cd = quant.dcast %cq : tensor<1x!b> to tensor<1xf32>
  %0 = quant.dcast %x : tensor<4x!b> to tensor<4xf32>
  %1 = nn.add %0, %cd : tensor<4xf32>, tensor<1xf32> -> tensor<4xf32>
  %2 = quant.qcast %1 : tensor<4xf32> to tensor<4x!a>
  func.return %2 : tensor<4x!a>
}

// -----

!a = !quant.uniform<i8:f32, 0.5>

// Quantized already: recorded, not changed. Integers and what is not ours: left alone.
// CHECK-LABEL: func.func @already
// CHECK: nn.relu %x {qmlir.decision = #qmlir.decision<quantized, "integer", "i8 activations">}
// CHECK: nn.lp_normalization %{{.*}}#qmlir.decision<float, "target",
// CHECK: nn.reshape %i {shape = array<i64: 2, 2>}
// CHECK: qmlir.opaque "onnx.Erf"(%f) {{.*}}#qmlir.decision<float, "unknown", "onnx.Erf is not known to qmlir: no such operator">
func.func @already(%x: tensor<4x!a>, %i: tensor<4xi32>, %f: tensor<4xf32>) -> (tensor<4x!a>, tensor<2x2xi32>, tensor<4xf32>) {
  %0 = nn.relu %x : tensor<4x!a> -> tensor<4x!a>
  %1 = nn.lp_normalization %0 {axis = 0 : i64, p = 1 : i64} : tensor<4x!a> -> tensor<4x!a>
  %2 = nn.reshape %i {shape = array<i64: 2, 2>} : tensor<4xi32> -> tensor<2x2xi32>
  %3 = qmlir.opaque "onnx.Erf" (%f) {reason = "no such operator", source = {}} : (tensor<4xf32>) -> tensor<4xf32>
  func.return %1, %2, %3 : tensor<4x!a>, tensor<2x2xi32>, tensor<4xf32>
}

// -----

!x = !quant.uniform<i16:f32, 1.0>
!w = !quant.uniform<i16:f32:0, {1.0, 1.0e-12}>
!y = !quant.uniform<i16:f32, 1.0>

// LiteRT has no multiplier for the factor either: its bits are followed, and the ledger says so.
// CHECK-LABEL: func.func @followed
// CHECK: nn.fully_connected {{.*}}#qmlir.decision<quantized, "integer", "i16 activations, i16 weights per channel; its sums in channel 1 reach {{6.*}}, and their factor 1e-12 has no multiplier in litert-reference, where they become 0">
builtin.module attributes {qmlir.numerics = "litert-reference"} {
func.func @followed(%x: tensor<1x2x!x>) -> tensor<1x2x!y> {
  %w = nn.constant <tensor<2x2xi16>, [1, 2, 0, 0]> : tensor<2x2x!w>
  %b = nn.constant <tensor<2xf32>, [0.0, 0.6]> : tensor<2xf32>
  %0 = quant.dcast %x : tensor<1x2x!x> to tensor<1x2xf32>
  %1 = quant.dcast %w : tensor<2x2x!w> to tensor<2x2xf32>
  %2 = nn.fully_connected %0, %1, %b : tensor<1x2xf32>, tensor<2x2xf32>, tensor<2xf32> -> tensor<1x2xf32>
  %3 = quant.qcast %2 : tensor<1x2xf32> to tensor<1x2x!y>
  func.return %3 : tensor<1x2x!y>
}
}

// -----

!x = !quant.uniform<i16:f32, 1.0:1>
!w = !quant.uniform<i16:f32:0, {1.0, 1.0e-12}>
!y = !quant.uniform<i16:f32, 1.0>

// For data with a zero point LiteRT has no kernel: rounded as by default, where no sums may be lost.
// CHECK-LABEL: func.func @not_followed
// CHECK: nn.fully_connected {{.*}}#qmlir.decision<float, "factor", "its sums in channel 1 reach {{6.*}}, and their factor 1e-12 has no multiplier">
builtin.module attributes {qmlir.numerics = "litert-reference"} {
func.func @not_followed(%x: tensor<1x2x!x>) -> tensor<1x2x!y> {
  %w = nn.constant <tensor<2x2xi16>, [1, 2, 0, 0]> : tensor<2x2x!w>
  %b = nn.constant <tensor<2xf32>, [0.0, 0.6]> : tensor<2xf32>
  %0 = quant.dcast %x : tensor<1x2x!x> to tensor<1x2xf32>
  %1 = quant.dcast %w : tensor<2x2x!w> to tensor<2x2xf32>
  %2 = nn.fully_connected %0, %1, %b : tensor<1x2xf32>, tensor<2x2xf32>, tensor<2xf32> -> tensor<1x2xf32>
  %3 = quant.qcast %2 : tensor<1x2xf32> to tensor<1x2x!y>
  func.return %3 : tensor<1x2x!y>
}
}

// -----

// A clamp of stored integers to a function's domain is part of the function.
// CHECK-LABEL: func.func @domain
// CHECK-NEXT: %[[A:.*]] = nn.asin %x {{.*}}#qmlir.decision<quantized, "integer", "i8 activations">{{.*}} : tensor<4x!quant.uniform<i8:f32, 1.562500e-02>> ->
// CHECK-NEXT: func.return %[[A]]
!x = !quant.uniform<i8:f32, 1.562500e-02>
!y = !quant.uniform<i8:f32, 1.250000e-02>
func.func @domain(%x: tensor<4x!x>) -> tensor<4x!y> {
  %0 = quant.dcast %x : tensor<4x!x> to tensor<4xf32>
  %1 = nn.clamp %0 {min = -1.0 : f32, max = 1.0 : f32} : tensor<4xf32> -> tensor<4xf32>
  %2 = nn.asin %1 : tensor<4xf32> -> tensor<4xf32>
  %3 = quant.qcast %2 : tensor<4xf32> to tensor<4x!y>
  func.return %3 : tensor<4x!y>
}

// -----

// Another clamp is not.
// CHECK-LABEL: func.func @inside
// CHECK: nn.clamp
// CHECK: nn.asin {{.*}} : tensor<4xf32> -> tensor<4xf32>
!x = !quant.uniform<i8:f32, 1.562500e-02>
!y = !quant.uniform<i8:f32, 1.250000e-02>
func.func @inside(%x: tensor<4x!x>) -> tensor<4x!y> {
  %0 = quant.dcast %x : tensor<4x!x> to tensor<4xf32>
  %1 = nn.clamp %0 {min = -0.5 : f32, max = 1.0 : f32} : tensor<4xf32> -> tensor<4xf32>
  %2 = nn.asin %1 : tensor<4xf32> -> tensor<4xf32>
  %3 = quant.qcast %2 : tensor<4xf32> to tensor<4x!y>
  func.return %3 : tensor<4x!y>
}

// -----

// A stored constant on another scale is rounded once, half to even, as the same casts of floats are.
// CHECK-LABEL: func.func @constant
// CHECK-NEXT: %[[C:.*]] = nn.constant <tensor<4xi8>, [0, 2, 2, -2]> : tensor<4x!quant.uniform<i8:f32, 1.000000e+00>>
// CHECK-NEXT: func.return %[[C]]
!x = !quant.uniform<u8:f32, 0.5:3>
!y = !quant.uniform<i8:f32, 1.0>
func.func @constant() -> tensor<4x!y> {
  %c = nn.constant <tensor<4xui8>, [4, 6, 8, 0]> : tensor<4x!x>
  %0 = quant.dcast %c : tensor<4x!x> to tensor<4xf32>
  %1 = quant.qcast %0 : tensor<4xf32> to tensor<4x!y>
  func.return %1 : tensor<4x!y>
}
