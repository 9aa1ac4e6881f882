// Ranges and weights from which no type follows: the error names the tensor.

// RUN: not qmlir-opt --apply-policy="settings={schema=symmetric precision=uint8}" --choose-scales --split-input-file %s 2>&1 | filecheck %s
// CHECK: error: choose-scales: schema symmetric needs signed integers, got uint8; use int8, or another schema

// RUN: qmlir-opt --choose-scales --split-input-file --verify-diagnostics %s

func.func @too_large(%x: tensor<4xf32>) -> tensor<4xf32> {
  calib.observe %x {name = "image", range = [0.0, 1.0e39]} : tensor<4xf32>
  // expected-error@+1 {{tensor "image": a range must be two finite float32 numbers, got [0.0, 1e+39]}}
  %0 = nn.relu %x : tensor<4xf32> -> tensor<4xf32>
  calib.observe %0 {name = "r", range = [0.0, 1.0]} : tensor<4xf32>
  func.return %0 : tensor<4xf32>
}

// -----

func.func @infinite_weights(%x: tensor<1x1xf32>) -> tensor<1x1xf32> {
  calib.observe %x {name = "image", range = [0.0, 1.0]} : tensor<1x1xf32>
  %w = nn.constant <tensor<1x1xf32>, [0x7f800000]> : tensor<1x1xf32>
  // expected-error@+1 {{weights %w: weights must be finite numbers, got 1 NaN or infinite values}}
  %0 = nn.fully_connected %x, %w : tensor<1x1xf32>, tensor<1x1xf32> -> tensor<1x1xf32>
  calib.observe %0 {name = "r", range = [0.0, 1.0]} : tensor<1x1xf32>
  func.return %0 : tensor<1x1xf32>
}
