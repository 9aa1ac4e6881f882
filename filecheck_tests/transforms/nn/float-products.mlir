// RUN: qmlir-opt --float-products %s | filecheck %s
// RUN: qmlir-opt --float-products=matrices=false %s | filecheck %s --check-prefix=WINDOWS

// Runtimes with matrix products of plain integers need no others.
// WINDOWS-LABEL: func.func @bytes
// WINDOWS:       nn.conv2d {{.*}} -> tensor<1x2x2x1xf32>
// WINDOWS-LABEL: func.func @digits
// WINDOWS:       nn.fully_connected {{.*}} -> tensor<1x1xi32>

// CHECK-LABEL: func.func @bytes
func.func @bytes(%x: tensor<1x3x3x1xui8>, %z: tensor<ui8>) -> tensor<1x2x2x1xi32> {
  %0 = nn.cast %x : tensor<1x3x3x1xui8> -> tensor<1x3x3x1xi32>
  %1 = nn.cast %z : tensor<ui8> -> tensor<i32>
  %2 = nn.sub %0, %1 : tensor<1x3x3x1xi32>, tensor<i32> -> tensor<1x3x3x1xi32>
  %w = nn.constant <tensor<1x2x2x1xi32>, [1, -2, 3, 127]> : tensor<1x2x2x1xi32>
  %b = nn.constant <tensor<1xi32>, [5]> : tensor<1xi32>
  // CHECK:      %[[X:.*]] = nn.cast %{{.*}} : tensor<1x3x3x1xi32> -> tensor<1x3x3x1xf32>
  // CHECK-NEXT: %[[W:.*]] = nn.constant <tensor<1x2x2x1xf32>, [1.0, -2.0, 3.0, 127.0]> : tensor<1x2x2x1xf32>
  // CHECK-NEXT: %[[SUMS:.*]] = nn.conv2d %[[X]], %[[W]] : tensor<1x3x3x1xf32>, tensor<1x2x2x1xf32> -> tensor<1x2x2x1xf32>
  // CHECK-NEXT: %[[INTEGERS:.*]] = nn.cast %[[SUMS]] : tensor<1x2x2x1xf32> -> tensor<1x2x2x1xi32>
  // CHECK-NEXT: nn.add %[[INTEGERS]], %b {qmlir.name = #qmlir.name<nodes ["conv"], tensors ["y"]>}
  %y = nn.conv2d %2, %w, %b {qmlir.name = #qmlir.name<nodes ["conv"], tensors ["y"]>} : tensor<1x3x3x1xi32>, tensor<1x2x2x1xi32>, tensor<1xi32> -> tensor<1x2x2x1xi32>
  func.return %y : tensor<1x2x2x1xi32>
}

// The magnitudes add up to more than 2^24: two digits of 5 bits.
// CHECK-LABEL: func.func @digits
func.func @digits(%x: tensor<1x2xui16>) -> tensor<1x1xi32> {
  %0 = nn.cast %x : tensor<1x2xui16> -> tensor<1x2xi32>
  %w = nn.constant <tensor<1x2xi32>, [-300, 100]> : tensor<1x2xi32>
  // CHECK-DAG:  nn.constant <tensor<1x2xf32>, [20.0, 4.0]>
  // CHECK-DAG:  nn.constant <tensor<1x2xf32>, [-10.0, 3.0]>
  // CHECK-COUNT-2: nn.fully_connected {{.*}}xf32>
  // CHECK:      nn.constant <tensor<i32>, [32]>
  // CHECK-NEXT: nn.mul
  // CHECK-NEXT: nn.add
  %y = nn.fully_connected %0, %w : tensor<1x2xi32>, tensor<1x2xi32> -> tensor<1x1xi32>
  func.return %y : tensor<1x1xi32>
}

// CHECK-LABEL: func.func @sums
func.func @sums(%x: tensor<1x2x!quant.uniform<i8:f32, 0.5:3>>) -> tensor<1x1x!quant.uniform<i32:f32, 0.125>> {
  %w = nn.constant <tensor<1x2xi8>, [-3, 5]> : tensor<1x2x!quant.uniform<i8:f32, 0.25>>
  // CHECK:      quant.dcast %{{.*}} : tensor<1x2x!quant.uniform<i8:f32, 1.000000e+00:3>> to tensor<1x2xf32>
  // CHECK:      nn.fully_connected {{.*}} -> tensor<1x1xf32>
  // CHECK-NEXT: nn.cast {{.*}} -> tensor<1x1xi32>
  // CHECK-NEXT: quant.scast {{.*}} : tensor<1x1xi32> to tensor<1x1x!quant.uniform<i32:f32, 1.250000e-01>>
  %y = nn.fully_connected %x, %w : tensor<1x2x!quant.uniform<i8:f32, 0.5:3>>, tensor<1x2x!quant.uniform<i8:f32, 0.25>> -> tensor<1x1x!quant.uniform<i32:f32, 0.125>>
  func.return %y : tensor<1x1x!quant.uniform<i32:f32, 0.125>>
}

// Floats and quantized results stay as they are.
// CHECK-LABEL: func.func @floats
// CHECK-NOT: nn.cast
func.func @floats(%x: tensor<1x2xf32>) -> tensor<1x1xf32> {
  %w = nn.constant <tensor<1x2xf32>, [1.0, 2.0]> : tensor<1x2xf32>
  %y = nn.fully_connected %x, %w : tensor<1x2xf32>, tensor<1x2xf32> -> tensor<1x1xf32>
  func.return %y : tensor<1x1xf32>
}
