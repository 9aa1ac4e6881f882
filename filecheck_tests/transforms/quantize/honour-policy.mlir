// RUN: not qmlir-opt --apply-policy="rules={name=r precision=int16}" --choose-scales --quantize-ops --honour-policy %s 2>&1 | filecheck %s
// RUN: qmlir-opt --choose-scales --quantize-ops --honour-policy %s | filecheck %s --check-prefix=NONE

// The rule matches, and nothing that it matches became an integer operation: its input has no range.
// CHECK: error: rule "name=r precision=int16": nn.relu "r" cannot have precision int16: no range is known for %x; drop the rule, or say something else in it
// NONE-LABEL: func.func @main
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = nn.relu %x {qmlir.name = #qmlir.name<nodes ["r"]>} : tensor<4xf32> -> tensor<4xf32>
  calib.observe %0 {name = "y", range = [-1.0, 1.0]} : tensor<4xf32>
  func.return %0 : tensor<4xf32>
}
