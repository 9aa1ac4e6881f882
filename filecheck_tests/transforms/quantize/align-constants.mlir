// RUN: qmlir-opt --apply-policy="settings={activations=dynamic}" --align-constants --split-input-file %s | filecheck %s

!s = !quant.uniform<i32:f32, 1.0e-07>
!m = !quant.uniform<i32<0:32768>:f32, 1.0e-03>
!p = !quant.uniform<i16:f32, 1.0e-03>
!b = !quant.uniform<i16:f32, 1.0e-04>
!y = !quant.uniform<i16:f32, 2.0e-03>

// Words and the constant get the scale of their sum: 1000 steps of 0.0001 are 50 of 0.002.
// CHECK-LABEL: func.func @main
// CHECK: %p = nn.multiply_rows %x, %m : {{.*}} -> tensor<2x2x!quant.uniform<i16:f32, 2.000000e-03>>
// CHECK: %[[C:.*]] = nn.constant <tensor<2xi16>, [50, -100]> : tensor<2x!quant.uniform<i16:f32, 2.000000e-03>>
// CHECK: %y = nn.add %p, %[[C]] : tensor<2x2x!quant.uniform<i16:f32, 2.000000e-03>>, tensor<2x!quant.uniform<i16:f32, 2.000000e-03>> -> tensor<2x2x!quant.uniform<i16:f32, 2.000000e-03>>
func.func @main(%x: tensor<2x2x!s>, %m: tensor<2x1x!m>) -> tensor<2x2x!y> {
  %b = nn.constant <tensor<2xi16>, [1000, -2000]> : tensor<2x!b>
  %p = nn.multiply_rows %x, %m : tensor<2x2x!s>, tensor<2x1x!m> -> tensor<2x2x!p>
  %y = nn.add %p, %b : tensor<2x2x!p>, tensor<2x!b> -> tensor<2x2x!y>
  func.return %y : tensor<2x2x!y>
}

// -----

!p = !quant.uniform<i16:f32, 1.0e-03>
!b = !quant.uniform<i16:f32, 1.0e-04>
!c = !quant.uniform<i16:f32, 1.0>
!f = !quant.uniform<i16:f32, 5.0e-04>
!y = !quant.uniform<i16:f32, 2.0e-03>

// Words that something else reads stay, and inputs; words that are coarser than their sum; those beside a constant that
// the sum's scale does not hold, and sums of two computed tensors.
// CHECK-LABEL: func.func @main
// CHECK: %p = nn.add %x, %x : {{.*}} -> tensor<2x2x!quant.uniform<i16:f32, 1.000000e-03>>
// CHECK: %q = nn.add %x, %x : {{.*}} -> tensor<2x2x!quant.uniform<i16:f32, 1.000000e-03>>
// CHECK: %r = nn.add %x, %x : {{.*}} -> tensor<2x2x!quant.uniform<i16:f32, 1.000000e-03>>
// CHECK: nn.add %x, %b : tensor<2x2x!quant.uniform<i16:f32, 1.000000e-03>>, tensor<2x!quant.uniform<i16:f32, 1.000000e-04>>
func.func @main(%x: tensor<2x2x!p>) -> (tensor<2x2x!y>, tensor<2x2x!p>, tensor<2x2x!f>, tensor<2x2x!y>, tensor<2x2x!y>, tensor<2x2x!y>) {
  %b = nn.constant <tensor<2xi16>, [1000, -2000]> : tensor<2x!b>
  %c = nn.constant <tensor<2xi16>, [1000, -2000]> : tensor<2x!c>
  %p = nn.add %x, %x : tensor<2x2x!p>, tensor<2x2x!p> -> tensor<2x2x!p>
  %0 = nn.add %p, %b : tensor<2x2x!p>, tensor<2x!b> -> tensor<2x2x!y>
  %q = nn.add %x, %x : tensor<2x2x!p>, tensor<2x2x!p> -> tensor<2x2x!p>
  %1 = nn.add %q, %b : tensor<2x2x!p>, tensor<2x!b> -> tensor<2x2x!f>
  %r = nn.add %x, %x : tensor<2x2x!p>, tensor<2x2x!p> -> tensor<2x2x!p>
  %2 = nn.add %r, %c : tensor<2x2x!p>, tensor<2x!c> -> tensor<2x2x!y>
  %3 = nn.add %x, %b : tensor<2x2x!p>, tensor<2x!b> -> tensor<2x2x!y>
  %4 = nn.add %x, %x : tensor<2x2x!p>, tensor<2x2x!p> -> tensor<2x2x!y>
  func.return %0, %p, %1, %2, %3, %4 : tensor<2x2x!y>, tensor<2x2x!p>, tensor<2x2x!f>, tensor<2x2x!y>, tensor<2x2x!y>, tensor<2x2x!y>
}

// -----

!p = !quant.uniform<i16:f32, 1.0e-03>
!b = !quant.uniform<i8:f32, 1.0e-02>
!y = !quant.uniform<i16:f32, 2.0e-03>

// A constant in bytes stays.
// CHECK-LABEL: func.func @main
// CHECK: nn.add %p, %b : tensor<2x2x!quant.uniform<i16:f32, 1.000000e-03>>, tensor<2x!quant.uniform<i8:f32, 1.000000e-02>>
func.func @main(%x: tensor<2x2x!p>) -> tensor<2x2x!y> {
  %b = nn.constant <tensor<2xi8>, [100, -20]> : tensor<2x!b>
  %p = nn.add %x, %x : tensor<2x2x!p>, tensor<2x2x!p> -> tensor<2x2x!p>
  %y = nn.add %p, %b : tensor<2x2x!p>, tensor<2x!b> -> tensor<2x2x!y>
  func.return %y : tensor<2x2x!y>
}
