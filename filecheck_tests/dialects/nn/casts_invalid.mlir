// What casts refuse: (C1).

// RUN: qmlir-opt --split-input-file --verify-diagnostics %s

func.func @c1(%x: tensor<3x!quant.uniform<i8:f32, 0.5>>) {
  // expected-error@+1 {{'nn.cast' needs types that numpy has a form of, got !quant.uniform<i8:f32, 5.000000e-01>; use quant.qcast and quant.dcast}}
  %0 = nn.cast %x : tensor<3x!quant.uniform<i8:f32, 0.5>> -> tensor<3xf32>
  func.return
}

// -----

func.func @c1_width(%x: tensor<3xf32>) {
  // expected-error@+1 {{'nn.cast' needs types that numpy has a form of, got i7}}
  %0 = nn.cast %x : tensor<3xf32> -> tensor<3xi7>
  func.return
}

// -----

func.func @c1_bits(%x: tensor<3xf32>) {
  // expected-error@+1 {{'nn.bitcast' needs types of as many bits, got f32 and i64}}
  %0 = nn.bitcast %x : tensor<3xf32> -> tensor<3xi64>
  func.return
}
