// RUN: qmlir-opt --narrow-floats %s | filecheck %s
// RUN: qmlir-opt --apply-policy="settings={precision=bfloat16}" --narrow-floats %s | filecheck %s --check-prefix=ALL

// A layer between integers: an f32 value is narrowed where it begins, its constants are rounded, its result is widened.

// CHECK-LABEL: func.func @between
// CHECK: %[[D:.*]] = quant.dcast %x
// CHECK-NEXT: %[[X:.*]] = nn.cast %[[D]] : tensor<1x2xf32> -> tensor<1x2xf16>
// CHECK-NEXT: %[[W:.*]] = nn.constant <tensor<2x2xf16>, {{.*}}> : tensor<2x2xf16>
// CHECK-NEXT: %[[F:.*]] = nn.fully_connected %[[X]], %[[W]] {qmlir.policy = {precision = "float16"}, qmlir.name = #qmlir.name<nodes ["fc"], tensors ["y"]>, qmlir.decision = #qmlir.decision<float, "half", "the policy computes it in float16, rounded once">} : tensor<1x2xf16>, tensor<2x2xf16> -> tensor<1x2xf16>
// CHECK-NEXT: %[[Y:.*]] = nn.cast %[[F]] : tensor<1x2xf16> -> tensor<1x2xf32>
// CHECK-NEXT: quant.qcast %[[Y]]
func.func @between(%x: tensor<1x2x!quant.uniform<i8:f32, 0.5>>) -> tensor<1x2x!quant.uniform<i8:f32, 0.25>> {
  %0 = quant.dcast %x : tensor<1x2x!quant.uniform<i8:f32, 0.5>> to tensor<1x2xf32>
  %w = nn.constant <tensor<2x2xf32>, [1.0, 2.0, 3.0, 4.0]> : tensor<2x2xf32>
  %1 = nn.fully_connected %0, %w {qmlir.policy = {precision = "float16"}, qmlir.name = #qmlir.name<nodes ["fc"], tensors ["y"]>} : tensor<1x2xf32>, tensor<2x2xf32> -> tensor<1x2xf32>
  %2 = quant.qcast %1 : tensor<1x2xf32> to tensor<1x2x!quant.uniform<i8:f32, 0.25>>
  func.return %2 : tensor<1x2x!quant.uniform<i8:f32, 0.25>>
}

// Data movement between two layers moves what they compute, unless it fills in a number that the type does not hold.

// CHECK-LABEL: func.func @moved
// CHECK: %[[A:.*]] = nn.relu {{.*}} -> tensor<2x3xf16>
// CHECK-NEXT: %[[T:.*]] = nn.transpose %[[A]] {{.*}} : tensor<2x3xf16> -> tensor<3x2xf16>
// CHECK-NEXT: %[[P:.*]] = nn.pad %[[T]] {{.*}} : tensor<3x2xf16> -> tensor<3x3xf16>
// CHECK-NEXT: %[[Z:.*]] = nn.cast %[[P]] : tensor<3x3xf16> -> tensor<3x3xf32>
// CHECK-NEXT: %[[Q:.*]] = nn.pad %[[Z]] {{.*}} : tensor<3x3xf32> -> tensor<3x4xf32>
// CHECK-NEXT: %[[R:.*]] = nn.cast %[[Q]] : tensor<3x4xf32> -> tensor<3x4xf16>
// CHECK-NEXT: nn.tanh %[[R]] {{.*}} -> tensor<3x4xf16>
func.func @moved(%x: tensor<2x3xf32>) -> tensor<3x4xf32> {
  %0 = nn.relu %x {qmlir.policy = {precision = "float16"}} : tensor<2x3xf32> -> tensor<2x3xf32>
  %1 = nn.transpose %0 {permutation = array<i64: 1, 0>} : tensor<2x3xf32> -> tensor<3x2xf32>
  %2 = nn.pad %1 {low = array<i64: 0, 1>, high = array<i64: 0, 0>, value = 0.5 : f32} : tensor<3x2xf32> -> tensor<3x3xf32>
  %3 = nn.pad %2 {low = array<i64: 0, 1>, high = array<i64: 0, 0>, value = 0.1 : f32} : tensor<3x3xf32> -> tensor<3x4xf32>
  %4 = nn.tanh %3 {qmlir.policy = {precision = "float16"}} : tensor<3x4xf32> -> tensor<3x4xf32>
  func.return %4 : tensor<3x4xf32>
}

// What the policy keeps in floats stays there, data movement too.

// CHECK-LABEL: func.func @kept
// CHECK: nn.transpose {{.*}} : tensor<2x3xf32> -> tensor<3x2xf32>
func.func @kept(%x: tensor<2x3xf32>) -> tensor<3x2xf32> {
  %0 = nn.relu %x {qmlir.policy = {precision = "float16"}} : tensor<2x3xf32> -> tensor<2x3xf32>
  %1 = nn.transpose %0 {permutation = array<i64: 1, 0>, qmlir.decision = #qmlir.decision<float, "policy", "the policy keeps it in floats">} : tensor<2x3xf32> -> tensor<3x2xf32>
  func.return %1 : tensor<3x2xf32>
}

// As an option, the precision holds for all that has no policy of its own. Operations that stay f32 for another reason,
// on f64, or that the policy keeps, stay.

// CHECK-LABEL: func.func @all
// CHECK-NOT: nn.cast
// ALL-LABEL: func.func @all
// ALL: nn.relu {{.*}} -> tensor<4xbf16>
// ALL: nn.tanh {{.*}} -> tensor<4xf32>
// ALL: nn.sigmoid {{.*}} -> tensor<4xf32>
// ALL: nn.exp {{.*}} -> tensor<4xf64>
func.func @all(%x: tensor<4xf32>, %z: tensor<4xf64>) -> (tensor<4xf32>, tensor<4xf64>) {
  %0 = nn.relu %x : tensor<4xf32> -> tensor<4xf32>
  %1 = nn.tanh %0 {qmlir.policy = {keep_float = true}} : tensor<4xf32> -> tensor<4xf32>
  %2 = nn.sigmoid %1 {qmlir.decision = #qmlir.decision<float, "empty", "it has a tensor without elements">} : tensor<4xf32> -> tensor<4xf32>
  %3 = nn.exp %z : tensor<4xf64> -> tensor<4xf64>
  func.return %2, %3 : tensor<4xf32>, tensor<4xf64>
}

// What comes in halves, and is narrowed at its end, has no casts left.

// CHECK-LABEL: func.func @halves
// CHECK-NEXT: %[[Y:.*]] = nn.relu %x {{.*}} : tensor<4xf16> -> tensor<4xf16>
// CHECK-NEXT: func.return %[[Y]]
func.func @halves(%x: tensor<4xf16>) -> tensor<4xf16> {
  %0 = nn.cast %x : tensor<4xf16> -> tensor<4xf32>
  %1 = nn.relu %0 {qmlir.policy = {precision = "float16"}} : tensor<4xf32> -> tensor<4xf32>
  %2 = nn.cast %1 : tensor<4xf32> -> tensor<4xf16>
  func.return %2 : tensor<4xf16>
}
