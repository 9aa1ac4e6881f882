// RUN: qmlir-opt --apply-policy="settings={activations=dynamic}" --narrow-attention --split-input-file %s | filecheck %s

!a = !quant.uniform<i16:f32, 1.0e-03>
!b = !quant.uniform<i16:f32, 2.0e-03>
!s = !quant.uniform<i16:f32, 5.0e-02>

// Sums of 32 products fit 32 bits if the words have 14 bits: both sides get them, through what moves them.
// CHECK-LABEL: func.func @main
// CHECK: %q = nn.add %x, %x : {{.*}} -> tensor<8x32x!quant.uniform<i16<-8191:8191>:f32, 0.0040003661997616291>>
// CHECK: %k = nn.add %y, %y : {{.*}} -> tensor<8x32x!quant.uniform<i16<-8191:8191>:f32, 0.0080007323995232582>>
// CHECK: %t = nn.transpose %k {{.*}} -> tensor<32x8x!quant.uniform<i16<-8191:8191>:f32, 0.0080007323995232582>>
// CHECK: %p = nn.matmul %q, %t : {{.*}} -> tensor<8x8x!quant.uniform<i16:f32, 5.000000e-02>>
func.func @main(%x: tensor<8x32x!a>, %y: tensor<8x32x!b>) -> tensor<8x8x!s> {
  %q = nn.add %x, %x : tensor<8x32x!a>, tensor<8x32x!a> -> tensor<8x32x!a>
  %k = nn.add %y, %y : tensor<8x32x!b>, tensor<8x32x!b> -> tensor<8x32x!b>
  %t = nn.transpose %k {permutation = array<i64: 1, 0>} : tensor<8x32x!b> -> tensor<32x8x!b>
  %p = nn.matmul %q, %t : tensor<8x32x!a>, tensor<32x8x!b> -> tensor<8x8x!s>
  func.return %p : tensor<8x8x!s>
}

// -----

!a = !quant.uniform<i16:f32, 1.0e-03>
!s = !quant.uniform<i16:f32, 5.0e-02>

// Of attention, the values: its exponentials have as many digits as these leave them.
// CHECK-LABEL: func.func @main
// CHECK: %v = nn.add %x, %x : {{.*}} -> tensor<128x32x!quant.uniform<i16<-4095:4095>:f32, 0.0080017093569040298>>
// CHECK: %y = nn.attend %w, %v
func.func @main(%w: tensor<8x128x!a>, %x: tensor<128x32x!a>) -> tensor<8x32x!a> {
  %v = nn.add %x, %x : tensor<128x32x!a>, tensor<128x32x!a> -> tensor<128x32x!a>
  %y = nn.attend %w, %v : tensor<8x128x!a>, tensor<128x32x!a> -> tensor<8x32x!a>
  func.return %y : tensor<8x32x!a>
}

// -----

!a = !quant.uniform<i16:f32, 1.0e-03>
!s = !quant.uniform<i16:f32, 5.0e-02>

// Words that something else reads keep their digits, so do those beside them, and an input's.
// CHECK-LABEL: func.func @main
// CHECK-NOT: i16<
func.func @main(%x: tensor<8x32x!a>, %y: tensor<32x8x!a>) -> (tensor<8x8x!s>, tensor<8x8x!s>, tensor<32x8x!a>) {
  %q = nn.add %x, %x : tensor<8x32x!a>, tensor<8x32x!a> -> tensor<8x32x!a>
  %k = nn.add %y, %y : tensor<32x8x!a>, tensor<32x8x!a> -> tensor<32x8x!a>
  %p = nn.matmul %q, %k : tensor<8x32x!a>, tensor<32x8x!a> -> tensor<8x8x!s>
  %r = nn.add %x, %x : tensor<8x32x!a>, tensor<8x32x!a> -> tensor<8x32x!a>
  %o = nn.matmul %r, %y : tensor<8x32x!a>, tensor<32x8x!a> -> tensor<8x8x!s>
  func.return %p, %o, %k : tensor<8x8x!s>, tensor<8x8x!s>, tensor<32x8x!a>
}

// -----

!a = !quant.uniform<i16:f32, 1.0e-03>
!b = !quant.uniform<i8:f32, 1.0e-02>
!s = !quant.uniform<i16:f32, 5.0e-02>

// Sums that fit keep all digits, such as those of words by bytes, and so do sums of more than 512 products, whose words
// would have fewer than 12 bits.
// CHECK-LABEL: func.func @main
// CHECK-NOT: i16<
func.func @main(%x: tensor<8x32x!a>, %y: tensor<32x8x!b>, %z: tensor<8x600x!a>) -> (tensor<8x8x!s>, tensor<8x8x!s>) {
  %q = nn.add %x, %x : tensor<8x32x!a>, tensor<8x32x!a> -> tensor<8x32x!a>
  %p = nn.matmul %q, %y : tensor<8x32x!a>, tensor<32x8x!b> -> tensor<8x8x!s>
  %a = nn.add %z, %z : tensor<8x600x!a>, tensor<8x600x!a> -> tensor<8x600x!a>
  %b = nn.add %z, %z : tensor<8x600x!a>, tensor<8x600x!a> -> tensor<8x600x!a>
  %t = nn.transpose %b {permutation = array<i64: 1, 0>} : tensor<8x600x!a> -> tensor<600x8x!a>
  %o = nn.matmul %a, %t : tensor<8x600x!a>, tensor<600x8x!a> -> tensor<8x8x!s>
  func.return %p, %o : tensor<8x8x!s>, tensor<8x8x!s>
}
