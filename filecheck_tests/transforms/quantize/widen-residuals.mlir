// RUN: qmlir-opt --apply-policy="settings={residuals=int16}" --widen-residuals %s | filecheck %s
// RUN: qmlir-opt --apply-policy="settings={residuals=auto}" --widen-residuals %s | filecheck %s --check-prefix=AUTO
// RUN: qmlir-opt --widen-residuals %s | filecheck %s --check-prefix=SAME
// RUN: qmlir-opt --apply-policy="settings={residuals=int16 precision=int16}" --widen-residuals %s | filecheck %s --check-prefix=SAME
// RUN: qmlir-opt --apply-policy="settings={residuals=int16 schema=symmetric_with_power2_scale}" --widen-residuals %s | filecheck %s --check-prefix=POWER

// The sum, the gain and the shift behind the normalization that reads it, what the layer adds and the result that the network returns have 16 bits; the layers compute on 8.
// SAME-NOT: policy = {precision = "int16"
// SAME-NOT: qmlir.residual
// POWER: precision = "int16", schema = "symmetric_with_power2_scale"
// AUTO-LABEL: func.func @block
// AUTO-NOT: qmlir.residual
// CHECK-LABEL: func.func @block
// CHECK: nn.fully_connected %x, %w {qmlir.residual = "widened with a residual stream of 1 sum"}
// CHECK-NEXT: calib.observe %{{.*}} {qmlir.policy = {precision = "int16", schema = "symmetric"}, name = "branch"
// CHECK: nn.add %x, %{{.*}} {qmlir.policy = {precision = "int16", schema = "symmetric"}, qmlir.residual = "widened with a residual stream of 1 sum"}
// CHECK-NEXT: calib.observe %{{.*}} {name = "sum"
// CHECK: nn.mul {{.*}}precision = "int16"
// CHECK: nn.add {{.*}}precision = "int16"
// CHECK: nn.fully_connected %{{[a-z0-9]*}}, %w {qmlir.residual = "widened with a residual stream of 1 sum"}
// CHECK-NEXT: calib.observe %{{.*}} {qmlir.policy = {precision = "int16", schema = "symmetric"}, name = "y"
func.func @block(%x: tensor<2x4xf32>) -> tensor<2x4xf32> {
  calib.observe %x {name = "x", range = [-2.0, 2.0]} : tensor<2x4xf32>
  %w = nn.constant <tensor<4x4xf32>, [1.0, 0.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0, 1.0]> : tensor<4x4xf32>
  %gain = nn.constant <tensor<4xf32>, [1.0, 2.0, 1.0, 1.0]> : tensor<4xf32>
  %0 = nn.fully_connected %x, %w : tensor<2x4xf32>, tensor<4x4xf32> -> tensor<2x4xf32>
  calib.observe %0 {name = "branch", range = [-2.0, 2.0]} : tensor<2x4xf32>
  %1 = nn.add %x, %0 : tensor<2x4xf32>, tensor<2x4xf32> -> tensor<2x4xf32>
  calib.observe %1 {name = "sum", range = [-3.0, 3.0]} : tensor<2x4xf32>
  %2 = nn.layer_norm %1 {axis = 1 : i64, epsilon = 1.0E-05 : f32} : tensor<2x4xf32> -> tensor<2x4xf32>
  calib.observe %2 {name = "normalized", range = [-2.0, 2.0]} : tensor<2x4xf32>
  %3 = nn.mul %2, %gain : tensor<2x4xf32>, tensor<4xf32> -> tensor<2x4xf32>
  calib.observe %3 {name = "gained", range = [-4.0, 4.0]} : tensor<2x4xf32>
  %4 = nn.add %3, %gain : tensor<2x4xf32>, tensor<4xf32> -> tensor<2x4xf32>
  calib.observe %4 {name = "shifted", range = [-4.0, 6.0]} : tensor<2x4xf32>
  %5 = nn.fully_connected %4, %w : tensor<2x4xf32>, tensor<4x4xf32> -> tensor<2x4xf32>
  calib.observe %5 {name = "y", range = [-4.0, 6.0]} : tensor<2x4xf32>
  func.return %5 : tensor<2x4xf32>
}

// Between two layers behind a stream, a GELU that layers alone read has 16 bits, with the result that it reads; a
// requantization to 8 bits follows. A linear function has not, nor a function whose result is also added, nor what a
// matmul of two activations computes.
// CHECK-LABEL: func.func @functions
// CHECK: nn.add %x, %{{.*}}precision = "int16"
// CHECK: nn.fully_connected %{{.*}}, %w {qmlir.residual = "widened with a residual stream of 1 sum"}
// CHECK-NEXT: calib.observe %{{.*}} {qmlir.policy = {precision = "int16", schema = "symmetric"}, name = "inner"
// CHECK: nn.gelu %{{.*}} {qmlir.policy = {precision = "int16", schema = "symmetric"}, qmlir.residual = "widened with a residual stream of 1 sum"}
// CHECK: nn.fully_connected %{{[a-z0-9]*}}, %w : tensor
// CHECK-NEXT: calib.observe %{{.*}} {name = "outer"
// CHECK-NEXT: nn.clamp %{{[a-z0-9]*}} {max
// CHECK: nn.fully_connected %{{[a-z0-9]*}}, %w : tensor
// CHECK-NEXT: calib.observe %{{.*}} {name = "gate"
// CHECK-NEXT: nn.tanh %{{[a-z0-9]*}} : tensor
func.func @functions(%x: tensor<2x4xf32>) -> tensor<2x4xf32> {
  calib.observe %x {name = "x", range = [-2.0, 2.0]} : tensor<2x4xf32>
  %w = nn.constant <tensor<4x4xf32>, [1.0, 0.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0, 1.0]> : tensor<4x4xf32>
  %0 = nn.fully_connected %x, %w : tensor<2x4xf32>, tensor<4x4xf32> -> tensor<2x4xf32>
  calib.observe %0 {name = "branch", range = [-2.0, 2.0]} : tensor<2x4xf32>
  %1 = nn.add %x, %0 : tensor<2x4xf32>, tensor<2x4xf32> -> tensor<2x4xf32>
  calib.observe %1 {name = "sum", range = [-3.0, 3.0]} : tensor<2x4xf32>
  %2 = nn.fully_connected %1, %w : tensor<2x4xf32>, tensor<4x4xf32> -> tensor<2x4xf32>
  calib.observe %2 {name = "inner", range = [-3.0, 3.0]} : tensor<2x4xf32>
  %3 = nn.gelu %2 : tensor<2x4xf32> -> tensor<2x4xf32>
  calib.observe %3 {name = "gelu", range = [-0.2, 3.0]} : tensor<2x4xf32>
  %4 = nn.fully_connected %3, %w : tensor<2x4xf32>, tensor<4x4xf32> -> tensor<2x4xf32>
  calib.observe %4 {name = "outer", range = [-3.0, 3.0]} : tensor<2x4xf32>
  %5 = nn.clamp %4 {max = 1.0 : f32} : tensor<2x4xf32> -> tensor<2x4xf32>
  calib.observe %5 {name = "clamped", range = [-3.0, 1.0]} : tensor<2x4xf32>
  %6 = nn.fully_connected %1, %w : tensor<2x4xf32>, tensor<4x4xf32> -> tensor<2x4xf32>
  calib.observe %6 {name = "gate", range = [-3.0, 3.0]} : tensor<2x4xf32>
  %7 = nn.tanh %6 : tensor<2x4xf32> -> tensor<2x4xf32>
  calib.observe %7 {name = "tanh", range = [-1.0, 1.0]} : tensor<2x4xf32>
  %8 = nn.mul %5, %7 : tensor<2x4xf32>, tensor<2x4xf32> -> tensor<2x4xf32>
  calib.observe %8 {name = "y", range = [-3.0, 3.0]} : tensor<2x4xf32>
  func.return %8 : tensor<2x4xf32>
}

// A sum of two tensors that are not computed from each other is no residual sum, nor is the sum of a tensor with itself.
// CHECK-LABEL: func.func @plain
// CHECK-NOT: qmlir.residual
func.func @plain(%x: tensor<4xf32>, %y: tensor<4xf32>) -> tensor<4xf32> {
  calib.observe %x {name = "x", range = [-2.0, 2.0]} : tensor<4xf32>
  calib.observe %y {name = "y", range = [-2.0, 2.0]} : tensor<4xf32>
  %0 = nn.abs %x : tensor<4xf32> -> tensor<4xf32>
  %1 = nn.add %0, %y : tensor<4xf32>, tensor<4xf32> -> tensor<4xf32>
  %2 = nn.add %1, %1 : tensor<4xf32>, tensor<4xf32> -> tensor<4xf32>
  func.return %2 : tensor<4xf32>
}

// Outliers: a step of 64 / 255 beside a mean square of 4. 8 bits leave 20 dB.
// AUTO-LABEL: func.func @outliers
// AUTO: nn.add %x, %{{.*}} {qmlir.policy = {precision = "int16", schema = "symmetric"}, qmlir.residual = "widened with a residual stream of 1 sum, of which 8 bits would leave an SQNR of {{[12][0-9]}}.{{[0-9]}} dB"}
// CHECK-LABEL: func.func @outliers
func.func @outliers(%x: tensor<4xf32>) -> tensor<4xf32> {
  calib.observe %x {name = "x", range = [-32.0, 32.0]} : tensor<4xf32>
  %0 = nn.abs %x : tensor<4xf32> -> tensor<4xf32>
  calib.observe %0 {name = "magnitude", range = [0.0, 32.0]} : tensor<4xf32>
  %1 = nn.add %x, %0 : tensor<4xf32>, tensor<4xf32> -> tensor<4xf32>
  calib.observe %1 {name = "sum", range = [-32.0, 32.0], histogram = #calib.histogram<k = 0, first = -32, counts = [1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 100, 500, 500, 100, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]>} : tensor<4xf32>
  func.return %1 : tensor<4xf32>
}

// What a policy says about an operation or about a tensor stays.
// CHECK-LABEL: func.func @said
// CHECK: nn.add %x, %{{.*}} {qmlir.policy = {precision = "int8"}}
func.func @said(%x: tensor<4xf32>) -> tensor<4xf32> {
  calib.observe %x {name = "x", range = [-2.0, 2.0]} : tensor<4xf32>
  %0 = nn.abs %x : tensor<4xf32> -> tensor<4xf32>
  %1 = nn.add %x, %0 {qmlir.policy = {precision = "int8"}} : tensor<4xf32>, tensor<4xf32> -> tensor<4xf32>
  func.return %1 : tensor<4xf32>
}
