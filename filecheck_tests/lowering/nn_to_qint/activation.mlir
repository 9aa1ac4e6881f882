// RUN: qmlir-opt --nn-to-qint --elide-weights --split-input-file %s | filecheck %s

!a = !quant.uniform<i8:f32, 0.5:3>
!b = !quant.uniform<i8:f32, 0.25:-10>

// relu, clamp and requantize are one operation: a change of scale, clamped to the stored bounds.
// CHECK-LABEL: func.func @linear
// CHECK-NEXT: %[[X:.*]] = quant.scast %x : tensor<4x!quant.uniform<i8:f32, 5.000000e-01:3>> to tensor<4xi8>
// CHECK-NEXT: %[[R:.*]] = qint.requantize %[[X]] {qmlir.name = #qmlir.name<nodes ["act"]>, input_zero_point = 3 : i32, multiplier = array<i32: 1073741824>, shift = array<i32: 2>, contract = "single", zero_point = -10 : i32, min = -10 : i32, max = 127 : i32} : tensor<4xi8> -> tensor<4xi8>
// CHECK-NEXT: %[[C:.*]] = qint.requantize %[[R]] {input_zero_point = -10 : i32, multiplier = array<i32: 1073741824>, shift = array<i32: 0>, contract = "single", zero_point = 3 : i32, min = 1 : i32, max = 15 : i32}
// CHECK-NEXT: %[[Q:.*]] = qint.requantize %[[C]] {{.*}}min = -128 : i32, max = 127 : i32}
// CHECK-NEXT: %[[Y:.*]] = quant.scast %[[Q]]
// CHECK-NEXT: func.return %[[Y]]
func.func @linear(%x: tensor<4x!a>) -> tensor<4x!b> {
  %0 = nn.relu %x {qmlir.name = #qmlir.name<nodes ["act"]>} : tensor<4x!a> -> tensor<4x!b>
  %1 = nn.clamp %0 {min = -1.0 : f32, max = 6.0 : f32} : tensor<4x!b> -> tensor<4x!a>
  %2 = nn.requantize %1 : tensor<4x!a> -> tensor<4x!b>
  func.return %2 : tensor<4x!b>
}

// -----

// A narrow range clamps; a bound outside the range clamps no further; a relu whose zero lies outside is constant.
!a = !quant.uniform<i8:f32, 0.5>
!n = !quant.uniform<i8<-100:100>:f32, 0.5>
!low = !quant.uniform<i8:f32, 0.5:200>

// CHECK-LABEL: func.func @bounds
// CHECK: qint.requantize {{.*}}min = -100 : i32, max = 100 : i32}
// CHECK: qint.requantize {{.*}}min = -100 : i32, max = 100 : i32}
// CHECK: qint.requantize {{.*}}min = 127 : i32, max = 127 : i32}
func.func @bounds(%x: tensor<4x!a>) -> tensor<4x!low> {
  %0 = nn.requantize %x : tensor<4x!a> -> tensor<4x!n>
  %1 = nn.clamp %0 {min = -1000.0 : f32, max = 1000.0 : f32} : tensor<4x!n> -> tensor<4x!n>
  %2 = nn.relu %1 : tensor<4x!n> -> tensor<4x!low>
  func.return %2 : tensor<4x!low>
}

// -----

!a = !quant.uniform<i8:f32, 0.5:3>
!s = !quant.uniform<i8:f32, 3.90625e-03:-128>
!t = !quant.uniform<i8:f32, 7.8125e-03>

// sigmoid and tanh are tables of 256 entries.
// CHECK-LABEL: func.func @tables
// CHECK-NEXT: %[[X:.*]] = quant.scast %x
// CHECK-NEXT: %[[S:.*]] = qint.lookup %[[X]], <tensor<256xi8>, elided> : tensor<4xi8> -> tensor<4xi8>
// CHECK-NEXT: %[[T:.*]] = qint.lookup %[[S]], <tensor<256xi8>, elided> : tensor<4xi8> -> tensor<4xi8>
func.func @tables(%x: tensor<4x!a>) -> tensor<4x!t> {
  %0 = nn.sigmoid %x : tensor<4x!a> -> tensor<4x!s>
  %1 = nn.tanh %0 : tensor<4x!s> -> tensor<4x!t>
  func.return %1 : tensor<4x!t>
}

// -----

// Of 16 bits a table has 513 breakpoints, or, where lines between them are more than a step off, all 65,536 results; all, too,
// where the result has 8 bits.
!x = !quant.uniform<i16:f32, 0.001>
!s = !quant.uniform<i16:f32, 3.0517578125e-05>
!a = !quant.uniform<i8:f32, 0.5:3>

// CHECK-LABEL: func.func @tables_of_16_bits
// CHECK: qint.interpolated_lookup %{{.*}}, <tensor<513xi16>, elided> : tensor<4xi16> -> tensor<4xi16>
// CHECK: qint.lookup %{{.*}}, <tensor<65536xi16>, elided> : tensor<4xi16> -> tensor<4xi16>
// CHECK: qint.lookup %{{.*}}, <tensor<65536xi8>, elided> : tensor<4xi16> -> tensor<4xi8>
func.func @tables_of_16_bits(%x: tensor<4x!x>) -> (tensor<4x!x>, tensor<4x!s>, tensor<4x!a>) {
  %0 = nn.softplus %x : tensor<4x!x> -> tensor<4x!x>
  %1 = nn.tanh %x : tensor<4x!x> -> tensor<4x!s>
  %2 = nn.exp %x : tensor<4x!x> -> tensor<4x!a>
  func.return %0, %1, %2 : tensor<4x!x>, tensor<4x!s>, tensor<4x!a>
}

// -----

// No multiplier for such scales, no table for 32 bits: a fallback.
!w = !quant.uniform<i32:f32, 0.001>
!a = !quant.uniform<i8:f32, 1.0e-10>
!b = !quant.uniform<i8:f32, 1.0e+10>

// CHECK-LABEL: func.func @fallbacks
// CHECK: nn.sigmoid %{{.*}}#qmlir.decision<float, "precision", "target cpu computes it on i8, i16, not on i32">{{.*}} : tensor<4xf32>
// CHECK: nn.relu %{{.*}}#qmlir.decision<float, "factor", "its scales are a factor of 1e+20 apart, which no 32-bit multiplier bridges">{{.*}} : tensor<4xf32>
func.func @fallbacks(%x: tensor<4x!w>, %y: tensor<4x!b>) -> (tensor<4x!w>, tensor<4x!a>) {
  %0 = nn.sigmoid %x : tensor<4x!w> -> tensor<4x!w>
  %1 = nn.relu %y : tensor<4x!b> -> tensor<4x!a>
  func.return %0, %1 : tensor<4x!w>, tensor<4x!a>
}

// -----

// LiteRT computes factors in float32 and rounds twice; a leaky relu is a table that does so, with a factor for each sign.
!a = !quant.uniform<i8:f32, 0.5:3>
!b = !quant.uniform<i8:f32, 0.3:-10>

module attributes {qmlir.numerics = "litert-reference"} {
// CHECK-LABEL: func.func @litert
// CHECK: qint.requantize {{.*}}multiplier = array<i32: 1789569664>, shift = array<i32: 1>, contract = "double"
// CHECK: qint.lookup
func.func @litert(%x: tensor<4x!a>) -> (tensor<4x!b>, tensor<4x!b>) {
  %0 = nn.relu %x : tensor<4x!a> -> tensor<4x!b>
  %1 = nn.leaky_relu %x {alpha = 0.25 : f32} : tensor<4x!a> -> tensor<4x!b>
  func.return %0, %1 : tensor<4x!b>, tensor<4x!b>
}
}

// -----

// A change of scale from and to 32 bits, but for a zero point there.
!h = !quant.uniform<i16:f32, 0.5>
!w = !quant.uniform<i32:f32, 0.125>
!z = !quant.uniform<i32:f32, 0.125:7>

// CHECK-LABEL: func.func @wide
// CHECK: qint.requantize %{{.*}} {multiplier = array<i32: 1073741824>, shift = array<i32: 3>, contract = "single", min = -2147483648 : i32, max = 2147483647 : i32} : tensor<4xi16> -> tensor<4xi32>
// CHECK: qint.requantize %{{.*}} : tensor<4xi32> -> tensor<4xi16>
// CHECK: nn.requantize %{{.*}}#qmlir.decision<float, "target", "32-bit data with a zero point have no integer form">
func.func @wide(%x: tensor<4x!h>, %y: tensor<4x!z>) -> (tensor<4x!w>, tensor<4x!h>, tensor<4x!h>) {
  %0 = nn.requantize %x : tensor<4x!h> -> tensor<4x!w>
  %1 = nn.requantize %0 : tensor<4x!w> -> tensor<4x!h>
  %2 = nn.requantize %y : tensor<4x!z> -> tensor<4x!h>
  func.return %0, %1, %2 : tensor<4x!w>, tensor<4x!h>, tensor<4x!h>
}

// -----

// LiteRT interpolates some functions of 16 bits between 513 breakpoints, wherever they lie, and has sigmoid as integers.
!h = !quant.uniform<i16:f32, 0.001>
!e = !quant.uniform<i16:f32, 0.01>
!s = !quant.uniform<i16:f32, 3.0517578125e-05>

module attributes {qmlir.numerics = "litert-reference"} {
// CHECK-LABEL: func.func @litert_16_bits
// CHECK: qint.interpolated_lookup %{{.*}}, <tensor<513xi16>, elided>
// CHECK: qint.lookup %{{.*}}, <tensor<65536xi16>, elided>
func.func @litert_16_bits(%x: tensor<4x!h>) -> (tensor<4x!e>, tensor<4x!s>) {
  %0 = nn.exp %x : tensor<4x!h> -> tensor<4x!e>
  %1 = nn.sigmoid %x : tensor<4x!h> -> tensor<4x!s>
  func.return %0, %1 : tensor<4x!e>, tensor<4x!s>
}
}

// -----

// XNNPACK changes the scale of bytes by a factor with 8 bits behind the point; other factors, changes of sign and 16
// bits go to other kernels.
!a = !quant.uniform<i8:f32, 0.3:3>
!b = !quant.uniform<i8:f32, 0.2:-4>
!c = !quant.uniform<i8:f32, 0.002:-4>
!u = !quant.uniform<u8:f32, 0.2:7>
!v = !quant.uniform<u8:f32, 0.3:7>
!h = !quant.uniform<i16:f32, 0.3>

module attributes {qmlir.numerics = "litert-xnnpack"} {
// CHECK-LABEL: func.func @xnnpack
// CHECK: qint.requantize %{{.*}} {input_zero_point = 3 : i32, multiplier = array<i32: 1610612736>, shift = array<i32: 1>, contract = "single", zero_point = -4 : i32
// CHECK: qint.requantize %{{.*}} {input_zero_point = 3 : i32, multiplier = array<i32: {{.*}}>, shift = array<i32: 8>, contract = "upup"
// CHECK: qint.requantize %{{.*}} {input_zero_point = 3 : i32, multiplier = array<i32: {{.*}}>, shift = array<i32: 1>, contract = "upup"
// CHECK: qint.requantize %{{.*}}contract = "double"
// CHECK: qint.requantize %{{.*}}contract = "single"
// CHECK: qint.requantize %{{.*}}contract = "single"
func.func @xnnpack(%x: tensor<4x!a>, %y: tensor<4x!h>, %z: tensor<4x!v>) -> (tensor<4x!b>, tensor<4x!c>, tensor<4xf32>, tensor<4x!b>, tensor<4x!v>) {
  %0 = nn.requantize %x : tensor<4x!a> -> tensor<4x!b>
  %1 = nn.requantize %x : tensor<4x!a> -> tensor<4x!c>
  %2 = nn.requantize %x : tensor<4x!a> -> tensor<4x!u>
  %3 = quant.dcast %2 : tensor<4x!u> to tensor<4xf32>
  %4 = nn.requantize %y : tensor<4x!h> -> tensor<4x!b>
  %5 = nn.requantize %z : tensor<4x!v> -> tensor<4x!u>
  %6 = nn.requantize %5 : tensor<4x!u> -> tensor<4x!v>
  func.return %0, %1, %3, %4, %6 : tensor<4x!b>, tensor<4x!c>, tensor<4xf32>, tensor<4x!b>, tensor<4x!v>
}
}
