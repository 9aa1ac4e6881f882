// RUN: qmlir-opt --choose-scales %s | filecheck %s
// RUN: qmlir-opt --apply-policy="settings={schema=symmetric}" --choose-scales %s | filecheck %s --check-prefix=SYM
// RUN: qmlir-opt --apply-policy="settings={schema=symmetric_with_uint8}" --choose-scales %s | filecheck %s --check-prefix=UINT8
// RUN: qmlir-opt --apply-policy="settings={schema=symmetric_with_power2_scale}" --choose-scales %s | filecheck %s --check-prefix=POWER2

// The four schemas on a range with both signs and on one that is never negative. Observers go.
// CHECK-LABEL: func.func @schemas
// SYM-LABEL: func.func @schemas
// UINT8-LABEL: func.func @schemas
// POWER2-LABEL: func.func @schemas
// POWER2-SAME: attributes {qmlir.scales = #qmlir.power_of_two}
// CHECK-NOT: qmlir.scales
// CHECK: %[[Q:.*]] = quant.qcast %x : tensor<1x4xf32> to tensor<1x4x!quant.uniform<i8:f32, 0.011764706112444401:-43>>
// CHECK-NEXT: %[[X:.*]] = quant.dcast %[[Q]]
// CHECK-NEXT: %[[R:.*]] = nn.relu %[[X]]
// CHECK-NEXT: %[[RQ:.*]] = quant.qcast %[[R]] : {{.*}}<i8:f32, 0.0078431377187371254:-128>>
// CHECK-NEXT: %[[Y:.*]] = quant.dcast %[[RQ]]
// CHECK-NEXT: func.return %[[Y]]
// CHECK-NOT: calib.observe
// SYM: quant.qcast %x : {{.*}}<i8:f32, 0.015748031437397003>>
// SYM: quant.qcast %{{.*}} : {{.*}}<i8:f32, 0.015748031437397003>>
// UINT8: quant.qcast %x : {{.*}}<i8:f32, 0.015748031437397003>>
// UINT8: quant.qcast %{{.*}} : {{.*}}<i8:f32, 0.0078431377187371254:-128>>
// POWER2: quant.qcast %x : {{.*}}<i8:f32, 3.125000e-02>>
// POWER2: quant.qcast %{{.*}} : {{.*}}<i8:f32, 3.125000e-02>>
func.func @schemas(%x: tensor<1x4xf32>) -> tensor<1x4xf32> {
  calib.observe %x {name = "x", range = [-1.0, 2.0]} : tensor<1x4xf32>
  %0 = nn.relu %x : tensor<1x4xf32> -> tensor<1x4xf32>
  calib.observe %0 {name = "r", range = [0.0, 2.0]} : tensor<1x4xf32>
  func.return %0 : tensor<1x4xf32>
}

// Pools, data movement and concat have one type: the union of what enters.
// CHECK-LABEL: func.func @one_scale
// CHECK: quant.qcast %a : {{.*}}<i8:f32, 5.000000e-01>>
// CHECK: quant.qcast %b : {{.*}}<i8:f32, 5.000000e-01>>
// CHECK: nn.max_pool2d
// CHECK-NEXT: quant.qcast %{{.*}}<i8:f32, 5.000000e-01>>
// CHECK: nn.concat
// CHECK-NEXT: quant.qcast %{{.*}}<i8:f32, 5.000000e-01>>
// CHECK: nn.reshape
// CHECK-NEXT: quant.qcast %{{.*}}<i8:f32, 5.000000e-01>>
func.func @one_scale(%a: tensor<1x2x2x1xf32>, %b: tensor<1x1x1x1xf32>) -> tensor<2xf32> {
  calib.observe %a {name = "a", range = [-64.0, 1.0]} : tensor<1x2x2x1xf32>
  calib.observe %b {name = "b", range = [0.0, 63.5]} : tensor<1x1x1x1xf32>
  %0 = nn.max_pool2d %a {window = array<i64: 2, 2>} : tensor<1x2x2x1xf32> -> tensor<1x1x1x1xf32>
  calib.observe %0 {name = "p", range = [-3.0, 1.0]} : tensor<1x1x1x1xf32>
  %1 = nn.concat %0, %b {axis = 3 : i64} : tensor<1x1x1x1xf32>, tensor<1x1x1x1xf32> -> tensor<1x1x1x2xf32>
  %2 = nn.reshape %1 {shape = array<i64: 2>} : tensor<1x1x1x2xf32> -> tensor<2xf32>
  %3 = nn.neg %2 : tensor<2xf32> -> tensor<2xf32>
  calib.observe %3 {name = "n", range = [-63.5, 64.0]} : tensor<2xf32>
  func.return %3 : tensor<2xf32>
}

// A function's own range wants no profile, and an observed one does not change it.
// CHECK-LABEL: func.func @own_range
// CHECK: nn.sigmoid
// CHECK-NEXT: quant.qcast %{{.*}}<i8:f32, 3.906250e-03:-128>>
// CHECK: nn.reshape
// CHECK-NEXT: quant.qcast %{{.*}}<i8:f32, 3.906250e-03:-128>>
// CHECK: nn.tanh
// CHECK-NEXT: quant.qcast %{{.*}}<i8:f32, 7.812500e-03>>
// SYM-LABEL: func.func @own_range
// SYM: nn.sigmoid
// SYM-NEXT: quant.qcast %{{.*}}<i8:f32, 7.812500e-03>>
// POWER2-LABEL: func.func @own_range
// POWER2: nn.sigmoid
// POWER2-NEXT: quant.qcast %{{.*}}<i8:f32, 7.812500e-03>>
func.func @own_range(%x: tensor<4xf32>) -> tensor<2x2xf32> {
  calib.observe %x {name = "x", range = [-64.0, 63.5]} : tensor<4xf32>
  %0 = nn.sigmoid %x : tensor<4xf32> -> tensor<4xf32>
  calib.observe %0 {name = "s", range = [0.0, 0.5]} : tensor<4xf32>
  %1 = nn.reshape %0 {shape = array<i64: 2, 2>} : tensor<4xf32> -> tensor<2x2xf32>
  %2 = nn.tanh %1 : tensor<2x2xf32> -> tensor<2x2xf32>
  func.return %2 : tensor<2x2xf32>
}

// Unless something else enters its group: here a profiled tensor, of [-1, 2].
// CHECK-LABEL: func.func @own_range_and_another
// CHECK: nn.sigmoid
// CHECK-NEXT: quant.qcast %{{.*}}<i8:f32, 0.011764706112444401:-43>>
// CHECK: nn.concat
// CHECK-NEXT: quant.qcast %{{.*}}<i8:f32, 0.011764706112444401:-43>>
func.func @own_range_and_another(%x: tensor<4xf32>) -> tensor<8xf32> {
  calib.observe %x {name = "x", range = [-1.0, 2.0]} : tensor<4xf32>
  %0 = nn.sigmoid %x : tensor<4xf32> -> tensor<4xf32>
  %1 = nn.concat %0, %x {axis = 0 : i64} : tensor<4xf32>, tensor<4xf32> -> tensor<8xf32>
  %2 = nn.neg %1 : tensor<8xf32> -> tensor<8xf32>
  calib.observe %2 {name = "n", range = [-2.0, 1.0]} : tensor<8xf32>
  func.return %2 : tensor<8xf32>
}

// What a pad adds is part of the range; an infinite one saturates.
// CHECK-LABEL: func.func @padding
// CHECK: quant.qcast %x : {{.*}}<i8:f32, 5.000000e-01>>
// CHECK: quant.qcast %y : {{.*}}<i8:f32, 2.500000e-01>>
func.func @padding(%x: tensor<4xf32>, %y: tensor<4xf32>) -> (tensor<5xf32>, tensor<5xf32>) {
  calib.observe %x {name = "x", range = [-1.0, 63.5]} : tensor<4xf32>
  calib.observe %y {name = "y", range = [-32.0, 31.75]} : tensor<4xf32>
  %r = nn.requantize %x : tensor<4xf32> -> tensor<4xf32>
  calib.observe %r {name = "r", range = [-1.0, 1.0]} : tensor<4xf32>
  %s = nn.requantize %y : tensor<4xf32> -> tensor<4xf32>
  calib.observe %s {name = "s", range = [-1.0, 1.0]} : tensor<4xf32>
  %0 = nn.pad %x {low = array<i64: 0>, high = array<i64: 1>, value = -64.0 : f32} : tensor<4xf32> -> tensor<5xf32>
  %1 = nn.pad %y {low = array<i64: 0>, high = array<i64: 1>, value = 0xFF800000 : f32} : tensor<4xf32> -> tensor<5xf32>
  func.return %0, %1 : tensor<5xf32>, tensor<5xf32>
}

// So is what a dilation puts between elements, and its result has the type of its operand.
// CHECK-LABEL: func.func @dilate
// CHECK: quant.qcast %x : {{.*}}<i8:f32, 5.000000e-01>>
// CHECK: nn.dilate
// CHECK-NEXT: quant.qcast %{{.*}} : tensor<7xf32> to tensor<7x!quant.uniform<i8:f32, 5.000000e-01>>
func.func @dilate(%x: tensor<4xf32>) -> tensor<7xf32> {
  calib.observe %x {name = "x", range = [-1.0, 63.5]} : tensor<4xf32>
  %r = nn.requantize %x : tensor<4xf32> -> tensor<4xf32>
  calib.observe %r {name = "r", range = [-1.0, 1.0]} : tensor<4xf32>
  %0 = nn.dilate %x {dilations = array<i64: 2>, value = -64.0 : f32} : tensor<4xf32> -> tensor<7xf32>
  func.return %0 : tensor<7xf32>
}

// Weights: symmetric in the narrow range, one scale for each output channel; a channel of zeros takes the largest.
// A constant operand has a range of its own.
// CHECK-LABEL: func.func @constants
// CHECK: quant.qcast %{{.*}} : tensor<3xf32> to tensor<3x!quant.uniform<i8:f32, 5.000000e-01:-128>>
// CHECK: quant.qcast %{{.*}} : tensor<3x2xf32> to tensor<3x2x!quant.uniform<i8<-127:127>:f32:0, {1.000000e+00,2.000000e+00,2.000000e+00}>>
// POWER2-LABEL: func.func @constants
// POWER2: quant.qcast %{{.*}} : tensor<3x2xf32> to tensor<3x2x!quant.uniform<i8<-127:127>:f32:0, {1.000000e+00,2.000000e+00,2.000000e+00}>>
func.func @constants(%x: tensor<1x2xf32>) -> tensor<1x3xf32> {
  calib.observe %x {name = "x", range = [-64.0, 63.5]} : tensor<1x2xf32>
  %w = nn.constant <tensor<3x2xf32>, [127.0, 1.0, -254.0, 1.0, 0.0, 0.0]> : tensor<3x2xf32>
  %c = nn.constant <tensor<3xf32>, [1.0, 127.5, 0.0]> : tensor<3xf32>
  %0 = nn.fully_connected %x, %w : tensor<1x2xf32>, tensor<3x2xf32> -> tensor<1x3xf32>
  calib.observe %0 {name = "y", range = [-64.0, 63.5]} : tensor<1x3xf32>
  %1 = nn.add %0, %c : tensor<1x3xf32>, tensor<3xf32> -> tensor<1x3xf32>
  calib.observe %1 {name = "z", range = [-64.0, 63.5]} : tensor<1x3xf32>
  func.return %1 : tensor<1x3xf32>
}

// A bias of 2^40 steps would not fit 32 bits: the channel's weight scale grows until it has 2^30.
// CHECK-LABEL: func.func @large_bias
// CHECK: quant.qcast %{{.*}} : tensor<2x1xf32> to tensor<2x1x!quant.uniform<i8<-127:127>:f32:0, {1.000000e+00,1024.0009765625}>>
// POWER2-LABEL: func.func @large_bias
// POWER2: {1.000000e+00,2.048000e+03}
func.func @large_bias(%x: tensor<1x1xf32>) -> tensor<1x2xf32> {
  calib.observe %x {name = "x", range = [-128.0, 127.0]} : tensor<1x1xf32>
  %w = nn.constant <tensor<2x1xf32>, [127.0, 127.0]> : tensor<2x1xf32>
  %b = nn.constant <tensor<2xf32>, [1.0, 1.099511627776e+12]> : tensor<2xf32>
  %0 = nn.fully_connected %x, %w, %b : tensor<1x1xf32>, tensor<2x1xf32>, tensor<2xf32> -> tensor<1x2xf32>
  calib.observe %0 {name = "y", range = [-64.0, 63.5]} : tensor<1x2xf32>
  func.return %0 : tensor<1x2xf32>
}

// Left alone, with the reason: the name of what has no range (not of what has one), what the target lacks, computed
// weights and biases, data movement among them. They read floats where floats are.
// CHECK-LABEL: func.func @stays_float
// CHECK: %[[A:.*]] = quant.dcast
// CHECK: nn.relu %[[A]] : tensor<1x4xf32>
// CHECK: nn.concat %{{.*}}, %b {{.*}}#qmlir.decision<float, "no-range", "no range is known for {{.*}}gap{{.*}}">
// CHECK: nn.cumulative_product %a {{.*}}#qmlir.decision<float, "target", "each of its products has more digits than the one before, which no single scale holds">
// CHECK: nn.transpose %{{.*}}#qmlir.decision<float, "neighbours", "no integer operation makes what it reads, or reads what it makes">
// CHECK: nn.fully_connected %{{.*}}#qmlir.decision<float, "computed-weights", "its weights are computed at run time; only constant weights can be quantized">
// CHECK: nn.fully_connected %{{.*}}#qmlir.decision<float, "bias", "its bias is computed at run time; only a constant bias can be quantized">
// CHECK-NOT: quant.qcast
// CHECK: func.return
func.func @stays_float(%a: tensor<1x4xf32>, %b: tensor<1x4xf32> {qmlir.name = #qmlir.name<tensors ["gap"]>}, %w: tensor<4x4xf32>, %v: tensor<4xf32>) -> (tensor<1x4xf32>, tensor<2x4xf32>, tensor<4x1xf32>, tensor<1x4xf32>, tensor<1x4xf32>) {
  calib.observe %a {name = "a", range = [-64.0, 63.5]} : tensor<1x4xf32>
  %c = nn.constant <tensor<4x4xf32>, [1.0, 2.0, 3.0, 4.0, 1.0, 2.0, 3.0, 4.0, 1.0, 2.0, 3.0, 4.0, 1.0, 2.0, 3.0, 4.0]> : tensor<4x4xf32>
  %r = nn.relu %a : tensor<1x4xf32> -> tensor<1x4xf32>
  calib.observe %r {name = "r", range = [0.0, 63.5]} : tensor<1x4xf32>
  %0 = nn.concat %r, %b {axis = 0 : i64} : tensor<1x4xf32>, tensor<1x4xf32> -> tensor<2x4xf32>
  %1 = nn.cumulative_product %a {axis = 1 : i64} : tensor<1x4xf32> -> tensor<1x4xf32>
  calib.observe %1 {name = "n", range = [-1.0, 1.0]} : tensor<1x4xf32>
  %2 = nn.transpose %1 {permutation = array<i64: 1, 0>} : tensor<1x4xf32> -> tensor<4x1xf32>
  %3 = nn.fully_connected %a, %w : tensor<1x4xf32>, tensor<4x4xf32> -> tensor<1x4xf32>
  calib.observe %3 {name = "f", range = [-64.0, 63.5]} : tensor<1x4xf32>
  %4 = nn.fully_connected %a, %c, %v : tensor<1x4xf32>, tensor<4x4xf32>, tensor<4xf32> -> tensor<1x4xf32>
  calib.observe %4 {name = "g", range = [-64.0, 63.5]} : tensor<1x4xf32>
  func.return %r, %0, %2, %3, %4 : tensor<1x4xf32>, tensor<2x4xf32>, tensor<4x1xf32>, tensor<1x4xf32>, tensor<1x4xf32>
}

// One constant as weights, as a bias and as an operand: each reader its own type, the returned one unrounded.
// CHECK-LABEL: func.func @one_constant
// CHECK: %[[C:.*]] = nn.constant
// CHECK: func.return %{{.*}}, %{{.*}}, %[[C]], %x
func.func @one_constant(%x: tensor<1x1xf32>) -> (tensor<1x1xf32>, tensor<1x1xf32>, tensor<1x1xf32>, tensor<1x1xf32>) {
  calib.observe %x {name = "x", range = [-64.0, 63.5]} : tensor<1x1xf32>
  %c = nn.constant <tensor<1x1xf32>, [0.3]> : tensor<1x1xf32>
  %0 = nn.fully_connected %x, %c : tensor<1x1xf32>, tensor<1x1xf32> -> tensor<1x1xf32>
  calib.observe %0 {name = "y", range = [-64.0, 63.5]} : tensor<1x1xf32>
  %1 = nn.add %0, %c : tensor<1x1xf32>, tensor<1x1xf32> -> tensor<1x1xf32>
  calib.observe %1 {name = "z", range = [-64.0, 63.5]} : tensor<1x1xf32>
  func.return %0, %1, %c, %x : tensor<1x1xf32>, tensor<1x1xf32>, tensor<1x1xf32>, tensor<1x1xf32>
}

// Parts that are quantized already give their types to what touches them.
!q = !quant.uniform<i8:f32, 0.125:5>

// CHECK-LABEL: func.func @quantized_neighbour
// CHECK: %[[A:.*]] = quant.dcast %x
// CHECK-NEXT: %[[B:.*]] = nn.max_pool2d %[[A]]
// CHECK-NEXT: quant.qcast %[[B]] : {{.*}}<i8:f32, 1.250000e-01:5>>
func.func @quantized_neighbour(%x: tensor<1x2x2x1x!q>) -> tensor<1x1x1x1xf32> {
  %0 = quant.dcast %x : tensor<1x2x2x1x!q> to tensor<1x2x2x1xf32>
  %1 = nn.max_pool2d %0 {window = array<i64: 2, 2>} : tensor<1x2x2x1xf32> -> tensor<1x1x1x1xf32>
  calib.observe %1 {name = "p", range = [0.0, 1.0]} : tensor<1x1x1x1xf32>
  func.return %1 : tensor<1x1x1x1xf32>
}

// A quotient by a constant has integers; a computed divisor may be as small as a step.
// CHECK-LABEL: func.func @quotients
// CHECK: nn.div %{{.*}}, %x {{.*}}#qmlir.decision<float, "target", "its divisor is computed at run time, and may come near 0, where integers would lose its digits">
// CHECK: %[[Y:.*]] = nn.div
// CHECK-NEXT: quant.qcast %[[Y]]
func.func @quotients(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  calib.observe %x {name = "x", range = [1.0, 2.0]} : tensor<4xf32>
  %c = nn.constant <tensor<1xf32>, [6.0]> : tensor<1xf32>
  %0 = nn.div %x, %x : tensor<4xf32>, tensor<4xf32> -> tensor<4xf32>
  calib.observe %0 {name = "y", range = [0.0, 1.0]} : tensor<4xf32>
  %1 = nn.div %x, %c : tensor<4xf32>, tensor<1xf32> -> tensor<4xf32>
  calib.observe %1 {name = "z", range = [0.0, 1.0]} : tensor<4xf32>
  func.return %0, %1 : tensor<4xf32>, tensor<4xf32>
}

// A cast that the graph came with stays where it is, right behind what makes its operand, and all readers see it.

// CHECK-LABEL: func.func @own_cast
// CHECK: %[[R:.*]] = nn.relu
// CHECK-NEXT: %[[Q:.*]] = quant.qcast %[[R]] : tensor<4xf32> to tensor<4x!quant.uniform<i8:f32, 1.250000e-01:5>>
// CHECK-NEXT: %[[D:.*]] = quant.dcast %[[Q]]
// CHECK-NEXT: nn.abs %[[D]]
// CHECK: func.return %[[Q]]
func.func @own_cast(%x: tensor<4xf32>) -> (tensor<4x!q>, tensor<4xf32>) {
  calib.observe %x {name = "x", range = [-1.0, 2.0]} : tensor<4xf32>
  %0 = nn.relu %x : tensor<4xf32> -> tensor<4xf32>
  %1 = quant.qcast %0 : tensor<4xf32> to tensor<4x!q>
  %2 = nn.abs %0 : tensor<4xf32> -> tensor<4xf32>
  calib.observe %2 {name = "a", range = [0.0, 2.0]} : tensor<4xf32>
  func.return %1, %2 : tensor<4x!q>, tensor<4xf32>
}

// A concatenation's type would cost a narrow operand that something else reads all but 3 bits: the sum reads it through
// a type of its own, the concatenation through its result's, rounded once. An operand that nothing else reads is tied,
// however narrow, and so is one that loses no more than a bit.
// CHECK-LABEL: func.func @narrow_operand
// CHECK: quant.qcast %x : tensor<1x2xf32> to tensor<1x2x!quant.uniform<i8:f32, 0.062745101749897003>>
// CHECK-NEXT: %[[OWN:.*]] = quant.dcast
// CHECK-NEXT: quant.qcast %x : tensor<1x2xf32> to tensor<1x2x!quant.uniform<i8:f32, 2.000000e+00:-1>>
// CHECK-NEXT: %[[VIEW:.*]] = quant.dcast
// CHECK: nn.add %[[OWN]], %[[OWN]]
// CHECK: %[[N:.*]] = nn.abs %[[OWN]]
// CHECK: quant.qcast %[[N]] : tensor<1x2xf32> to tensor<1x2x!quant.uniform<i8:f32, 2.000000e+00:-1>>
// CHECK: nn.concat %[[VIEW]], %
// CHECK-NEXT: quant.qcast %{{.*}} : tensor<1x8xf32> to tensor<1x8x!quant.uniform<i8:f32, 2.000000e+00:-1>>
func.func @narrow_operand(%x: tensor<1x2xf32>, %w: tensor<1x2xf32>, %h: tensor<1x2xf32>) -> (tensor<1x2xf32>, tensor<1x8xf32>, tensor<1x2xf32>) {
  calib.observe %x {name = "x", range = [-8.0, 8.0]} : tensor<1x2xf32>
  calib.observe %w {name = "w", range = [-254.0, 256.0]} : tensor<1x2xf32>
  calib.observe %h {name = "h", range = [-130.0, 130.0]} : tensor<1x2xf32>
  %0 = nn.add %x, %x : tensor<1x2xf32>, tensor<1x2xf32> -> tensor<1x2xf32>
  calib.observe %0 {name = "s", range = [-16.0, 16.0]} : tensor<1x2xf32>
  %1 = nn.abs %x : tensor<1x2xf32> -> tensor<1x2xf32>
  calib.observe %1 {name = "n", range = [0.0, 8.0]} : tensor<1x2xf32>
  %2 = nn.concat %x, %w, %h, %1 {axis = 1 : i64} : tensor<1x2xf32>, tensor<1x2xf32>, tensor<1x2xf32>, tensor<1x2xf32> -> tensor<1x8xf32>
  calib.observe %2 {name = "c", range = [-254.0, 256.0]} : tensor<1x8xf32>
  %3 = nn.neg %h : tensor<1x2xf32> -> tensor<1x2xf32>
  calib.observe %3 {name = "m", range = [-130.0, 130.0]} : tensor<1x2xf32>
  %4 = nn.neg %2 : tensor<1x8xf32> -> tensor<1x8xf32>
  calib.observe %4 {name = "d", range = [-256.0, 254.0]} : tensor<1x8xf32>
  func.return %0, %4, %3 : tensor<1x2xf32>, tensor<1x8xf32>, tensor<1x2xf32>
}

// Results of different ranges that the network joins at its end are dequantized by scales of their own.
// CHECK-LABEL: func.func @delivered
// CHECK: quant.qcast %{{.*}}<i8:f32, 3.906250e-03:-128>>
// CHECK-NEXT: %[[SCORES:.*]] = quant.dcast
// CHECK: quant.qcast %{{.*}}<i8:f32, 5.000000e-01>>
// CHECK-NEXT: %[[BOXES:.*]] = quant.dcast
// CHECK-NEXT: nn.concat %[[BOXES]], %[[SCORES]] {qmlir.decision = #qmlir.decision<quantized, "delivered"
// CHECK-NEXT: nn.reshape %{{.*}} {qmlir.decision = #qmlir.decision<quantized, "delivered"
// CHECK-NEXT: func.return
func.func @delivered(%x: tensor<4xf32>) -> tensor<2x4xf32> {
  calib.observe %x {name = "x", range = [-1.0, 2.0]} : tensor<4xf32>
  %0 = nn.sigmoid %x : tensor<4xf32> -> tensor<4xf32>
  %1 = nn.exp %x : tensor<4xf32> -> tensor<4xf32>
  calib.observe %1 {name = "e", range = [-64.0, 63.5]} : tensor<4xf32>
  %2 = nn.concat %1, %0 {axis = 0 : i64} : tensor<4xf32>, tensor<4xf32> -> tensor<8xf32>
  %3 = nn.reshape %2 {shape = array<i64: 2, 4>} : tensor<8xf32> -> tensor<2x4xf32>
  func.return %3 : tensor<2x4xf32>
}
