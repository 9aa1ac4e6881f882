// What can be computed neither in integers nor in f32.

// RUN: qmlir-opt --nn-to-qint --split-input-file --verify-diagnostics %s

!x = !quant.uniform<i8:f32, 0.5>
!w = !quant.uniform<i8:f32, 0.5>
!y = !quant.uniform<i8:f32, 1.0e-6>

// Scales too far apart for sums of 64 bits beside a bias of plain integers that is computed.
func.func @wide_bias(%x: tensor<1x2x!x>, %b: tensor<2xi64>) -> tensor<1x2x!y> {
  %w = nn.constant <tensor<2x2xi8>, [1, 2, 3, 4]> : tensor<2x2x!w>
  // expected-error@+1 {{nn.fully_connected "fc": cannot be computed in f32 instead of integers, got an operand of i64; quantize the model again from its f32 form}}
  %0 = nn.fully_connected %x, %w, %b {qmlir.name = #qmlir.name<nodes ["fc"]>} : tensor<1x2x!x>, tensor<2x2x!w>, tensor<2xi64> -> tensor<1x2x!y>
  func.return %0 : tensor<1x2x!y>
}

// -----

!h = !quant.uniform<u8:f16, 0.5>

func.func @half(%x: tensor<4x!h>) -> tensor<4x!h> {
  // expected-error@+1 {{cannot be computed in f32 instead of integers, got an operand of !quant.uniform<u8:f16, 5.000000e-01>}}
  %0 = nn.relu %x : tensor<4x!h> -> tensor<4x!h>
  func.return %0 : tensor<4x!h>
}
