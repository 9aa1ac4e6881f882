// Flags that say how to run; what says what to print is in the other files.

// RUN: qmlir-opt --version | filecheck %s --check-prefix=VERSION
// RUN: qmlir-opt -h | filecheck %s --check-prefix=HELP
// RUN: qmlir-opt --help | filecheck %s --check-prefix=HELP
// RUN: qmlir-opt --cse --verify-each=true %s | filecheck %s
// RUN: qmlir-opt --cse --verify-each=false %s | filecheck %s
// RUN: not qmlir-opt --cse --verify-each=maybe %s 2>&1 | filecheck %s --check-prefix=TRUTH
// RUN: not qmlir-opt --debug --cze %s 2>&1 | filecheck %s --check-prefix=DEBUG

// VERSION: qmlir {{[0-9.]+}} (xDSL 0.74
// HELP: usage: qmlir-opt
// HELP: --verify-each
// TRUTH: error: {{.*}}--verify-each: must be true or false, got maybe
// DEBUG: File "{{.*}}arguments.py", line
// DEBUG: error: --cze: there is no such pass or flag; did you mean --cse

// CHECK: func.func @f
// CHECK-NEXT: nn.relu
// CHECK-NEXT: nn.add %0, %0
func.func @f(%x: tensor<1x2xf32>) -> tensor<1x2xf32> {
  %0 = nn.relu %x : tensor<1x2xf32> -> tensor<1x2xf32>
  %1 = nn.relu %x : tensor<1x2xf32> -> tensor<1x2xf32>
  %2 = nn.add %0, %1 : tensor<1x2xf32>, tensor<1x2xf32> -> tensor<1x2xf32>
  func.return %2 : tensor<1x2xf32>
}
