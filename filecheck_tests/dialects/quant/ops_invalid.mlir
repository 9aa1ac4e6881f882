// (Q1) to (Q4) of the casts; the same sentences as upstream's, and the facts behind them.

// RUN: qmlir-opt --split-input-file --verify-diagnostics %s

func.func @q1_dcast_operand(%x: f32) {
  // expected-error@+1 {{'quant.dcast' operand #0 must be scalar or tensor of quantized type, got f32}}
  %0 = quant.dcast %x : f32 to f32
  func.return
}

// -----

!q = !quant.uniform<i8:f32, 1.0>
func.func @q1_dcast_result(%x: !q) {
  // expected-error@+1 {{'quant.dcast' result #0 must be scalar or tensor of floating-point}}
  %0 = quant.dcast %x : !q to !q
  func.return
}

// -----

!q = !quant.uniform<i8:f32, 1.0>
func.func @q1_qcast_operand(%x: tensor<2x!q>) {
  // expected-error@+1 {{'quant.qcast' operand #0 must be scalar or tensor of floating-point}}
  %0 = quant.qcast %x : tensor<2x!q> to tensor<2x!q>
  func.return
}

// -----

func.func @q1_qcast_result(%x: f32) {
  // expected-error@+1 {{'quant.qcast' result #0 must be scalar or tensor of quantized type}}
  %0 = quant.qcast %x : f32 to f32
  func.return
}

// -----

func.func @q1_scast(%x: tensor<2xi8>) {
  // expected-error@+1 {{'quant.scast' input must be integer and result must be quantized, or vice versa}}
  %0 = quant.scast %x : tensor<2xi8> to tensor<2xi8>
  func.return
}

// -----

!q = !quant.uniform<i8:f32, 1.0>
func.func @q2_scalar_and_tensor(%x: f32) {
  // expected-error@+1 {{input and result are both scalars or both tensors with matching shape}}
  %0 = quant.qcast %x : f32 to tensor<!q>
  func.return
}

// -----

!q = !quant.uniform<i8:f32, 1.0>
func.func @q2_ranked_and_unranked(%x: tensor<!q>) {
  // expected-error@+1 {{input and result are both scalars or both tensors with matching shape}}
  %0 = quant.dcast %x : tensor<!q> to tensor<*xf32>
  func.return
}

// -----

!q = !quant.uniform<i8:f32, 1.0>
func.func @q2_static_and_dynamic(%x: tensor<2x3xi8>) {
  // expected-error@+1 {{input and result are both scalars or both tensors with matching shape}}
  %0 = quant.scast %x : tensor<2x3xi8> to tensor<?x3x!q>
  func.return
}

// -----

!channels = !quant.uniform<i8:f32:2, {1.0, 2.0}>
func.func @q3_scalar(%x: f32) {
  // expected-error@+1 {{scalar types may not use per-axis quantization}}
  %0 = quant.qcast %x : f32 to !channels
  func.return
}

// -----

!channels = !quant.uniform<i8:f32:2, {1.0, 2.0}>
func.func @q3_rank(%x: tensor<2x3x!channels>) {
  // expected-error@+1 {{quantized dimension must be less than tensor rank: got dimension 2 of rank 2}}
  %0 = quant.dcast %x : tensor<2x3x!channels> to tensor<2x3xf32>
  func.return
}

// -----

!channels = !quant.uniform<i8:f32:1, {1.0, 2.0}>
func.func @q3_size(%x: tensor<2x3xf32>) {
  // expected-error@+1 {{quantized dimension size does not match number of scales: dimension 1 has size 3, and there are 2 scales}}
  %0 = quant.qcast %x : tensor<2x3xf32> to tensor<2x3x!channels>
  func.return
}

// -----

!q = !quant.uniform<i8:f32, 1.0>
func.func @q4_expressed(%x: f64) {
  // expected-error@+1 {{expressed type in quantized type expected to match float type: got f32 and f64}}
  %0 = quant.qcast %x : f64 to !q
  func.return
}

// -----

!q = !quant.uniform<i8:f32, 1.0>
func.func @q4_storage(%x: tensor<2x!q>) {
  // expected-error@+1 {{storage type in quantized type expected to match integer type: got i8 and i16}}
  %0 = quant.scast %x : tensor<2x!q> to tensor<2xi16>
  func.return
}

// -----

!q = !quant.uniform<i8:f32, 1.0>
func.func @q6(%x: f32) {
  // expected-error@+1 {{'quant.qcast' qmlir.quantization must be one of exact, float32, float32_away, float32_reciprocal, exact_away, got float16}}
  %0 = quant.qcast %x {qmlir.quantization = "float16"} : f32 to !q
  func.return
}

// -----

!q = !quant.uniform<i8:f32, 1.0>
func.func @q6_dequantized(%x: !q) {
  // expected-error@+1 {{'quant.dcast' qmlir.rest must be one of exact, float32_apart, got float32}}
  %0 = quant.dcast %x {qmlir.quantization = "float32_apart", qmlir.rest = "float32"} : !q to f32
  func.return
}

// -----

!q = !quant.uniform<i8:f32:0, {1.0, 2.0}>
func.func @q6_axis(%x: tensor<2xf32>) {
  // expected-error@+1 {{'quant.qcast' qmlir.rest needs one scale for all elements, got !quant.uniform<i8:f32:0, {}}
  %0 = quant.qcast %x {qmlir.rest = "exact_away"} : tensor<2xf32> to tensor<2x!q>
  func.return
}
