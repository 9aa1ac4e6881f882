// RUN: qmlir-opt --quantize="recipe=detector" %s | filecheck %s --check-prefix=NAMED
// RUN: qmlir-opt --quantize="recipe=detector residuals=same" %s | filecheck %s --check-prefix=GIVEN
// RUN: qmlir-opt --quantize="recipe=super-resolution" %s | filecheck %s --check-prefix=LAST
// RUN: qmlir-opt --quantize="recipe=auto" %s | filecheck %s --check-prefix=GIVEN
// RUN: qmlir-opt --quantize="recipe=none activations=static" %s | filecheck %s --check-prefix=GIVEN
// RUN: qmlir-opt --quantize="recipe=audio-front-end" %s | filecheck %s --check-prefix=GIVEN
// RUN: qmlir-opt --quantize="recipe=decoder" %s | filecheck %s --check-prefix=GIVEN
// RUN: qmlir-opt --quantize="recipe=transformer" %s | filecheck %s --check-prefix=ROWS
// RUN: qmlir-opt --quantize="recipe=language-model" %s | filecheck %s --check-prefix=ROWS
// RUN: qmlir-opt --quantize="recipe=text-encoder" %s | filecheck %s --check-prefix=ROWS
// RUN: qmlir-opt --quantize="rotate=none" %s | filecheck %s --check-prefix=GIVEN
// RUN: not qmlir-opt --quantize="rotate=residual" %s 2>&1 | filecheck %s --check-prefix=LATE
// RUN: not qmlir-opt --quantize="rotate=all" %s 2>&1 | filecheck %s --check-prefix=LATE
// RUN: not qmlir-opt --quantize="rotate=caches" %s 2>&1 | filecheck %s --check-prefix=LATE
// RUN: qmlir-opt --quantize="cache-precision=int8" %s | filecheck %s --check-prefix=GIVEN
// RUN: not qmlir-opt --quantize="cache-precision=int4" %s 2>&1 | filecheck %s --check-prefix=FOUR

// ROWS: nn.divide_rows
// FOUR: cache-precision=int4 stores quotients of rows, in states that the network only moves
// LATE: rotate={{.*}} must be done before ranges are learned

// A named recipe sets its options and rules whatever the graph is; options that are given win, and no recipe of itself widens what int8 says.
// NAMED-LABEL: func.func @block
// NAMED: nn.add {{.*}}widened with a residual stream of 1 sum
// NAMED: nn.fully_connected {{.*}} -> tensor<2x4x!quant.uniform<i8:
// GIVEN-LABEL: func.func @block
// GIVEN-NOT: i16
// LAST-LABEL: func.func @block
// LAST: nn.add {{.*}} -> tensor<2x4x!quant.uniform<i8:
// LAST: nn.fully_connected {{.*}} -> tensor<2x4x!quant.uniform<i16:
func.func @block(%x: tensor<2x4xf32>) -> tensor<2x4xf32> {
  calib.observe %x {name = "x", range = [-2.0, 2.0]} : tensor<2x4xf32>
  %w = nn.constant <tensor<4x4xf32>, [1.0, 0.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0, 1.0]> : tensor<4x4xf32>
  %0 = nn.fully_connected %x, %w {min = 0.0 : f32} : tensor<2x4xf32>, tensor<4x4xf32> -> tensor<2x4xf32>
  calib.observe %0 {name = "branch", range = [0.0, 2.0]} : tensor<2x4xf32>
  %1 = nn.add %x, %0 : tensor<2x4xf32>, tensor<2x4xf32> -> tensor<2x4xf32>
  calib.observe %1 {name = "sum", range = [-2.0, 4.0]} : tensor<2x4xf32>
  %2 = nn.sigmoid %1 : tensor<2x4xf32> -> tensor<2x4xf32>
  calib.observe %2 {name = "active", range = [0.0, 1.0]} : tensor<2x4xf32>
  %y = nn.fully_connected %2, %w : tensor<2x4xf32>, tensor<4x4xf32> -> tensor<2x4xf32>
  calib.observe %y {name = "y", range = [-3.0, 3.0]} : tensor<2x4xf32>
  func.return %y : tensor<2x4xf32>
}
