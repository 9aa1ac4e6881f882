// A rule that some of what it matches cannot honour holds for the rest, and a warning names those that cannot.

// RUN: qmlir-opt --apply-policy="rules={glob=* precision=int16}" %s 2>&1 | filecheck %s
// CHECK: warning: rule "glob=* precision=int16": 1 of the 5 that it matches cannot have precision int16: nn.cumulative_product "unit": {{.*}}no single scale holds
// CHECK: nn.fully_connected {{.*}}qmlir.policy = {precision = "int16"}
// CHECK: nn.relu {{.*}}qmlir.policy = {precision = "int16"}
// CHECK: nn.cumulative_product %{{.*}} {qmlir.name = #qmlir.name<tensors ["unit"]>, axis

// What quantization finds out of its own: an operation without a range.
// RUN: qmlir-opt --quantize="rules={kind=relu precision=int16}" %s 2>&1 | filecheck %s --check-prefix=LATE
// LATE: warning: rule "kind=relu precision=int16": 1 of the 2 that it matches cannot have precision int16: nn.relu "late": no range is known for

// Nothing to warn of: one operation has no weights, and a later rule keeps another in floats.
// RUN: qmlir-opt --quantize="rules={regex=dense|r per-channel=false; name=late keep-float=true}" %s 2>&1 | filecheck %s --check-prefix=SILENT
// SILENT-NOT: warning
// SILENT: nn.fully_connected {{.*}}i8 weights per tensor

func.func @main(%x: tensor<1x2xf32> {qmlir.name = #qmlir.name<tensors ["x"]>}) -> (tensor<1x2xf32>, tensor<1x2xf32>) {
  calib.observe %x {name = "x", range = [-1.0, 1.0]} : tensor<1x2xf32>
  %w = nn.constant <tensor<2x2xf32>, [1.0, 0.5, 0.25, -0.75]> : tensor<2x2xf32>
  %0 = nn.fully_connected %x, %w {qmlir.name = #qmlir.name<nodes ["dense"], tensors ["h"]>} : tensor<1x2xf32>, tensor<2x2xf32> -> tensor<1x2xf32>
  calib.observe %0 {name = "h", range = [-1.5, 1.5]} : tensor<1x2xf32>
  %1 = nn.relu %0 {qmlir.name = #qmlir.name<tensors ["r"]>} : tensor<1x2xf32> -> tensor<1x2xf32>
  calib.observe %1 {name = "r", range = [0.0, 1.5]} : tensor<1x2xf32>
  %2 = nn.cumulative_product %1 {axis = 1 : i64, qmlir.name = #qmlir.name<tensors ["unit"]>} : tensor<1x2xf32> -> tensor<1x2xf32>
  %3 = nn.relu %2 {qmlir.name = #qmlir.name<tensors ["late"]>} : tensor<1x2xf32> -> tensor<1x2xf32>
  func.return %1, %3 : tensor<1x2xf32>, tensor<1x2xf32>
}
