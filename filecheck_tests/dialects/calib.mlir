// The tap on an activation, before and after profiling.

// RUN: qmlir-opt %s | filecheck %s
// RUN: qmlir-opt --mlir-print-op-generic %s | filecheck %s --check-prefix=GENERIC
// RUN: qmlir-opt --mlir-print-op-generic %s | qmlir-opt | filecheck %s
// It has an effect: no pass takes it for dead code, or two of them for one.
// RUN: qmlir-opt --dce --cse --canonicalize %s | filecheck %s

// CHECK-LABEL: func.func @observe
func.func @observe(%x: tensor<2x3xf32>) {
  // CHECK: calib.observe %x {name = "x"} : tensor<2x3xf32>
  // GENERIC: "calib.observe"(%{{.*}}) <{name = "x"}> : (tensor<2x3xf32>) -> ()
  calib.observe %x {name = "x"} : tensor<2x3xf32>
  // CHECK: calib.observe %x {name = "x"} : tensor<2x3xf32>
  calib.observe %x {name = "x"} : tensor<2x3xf32>
  // CHECK: calib.observe %x {name = "a \22b\22/c:0", range = [-1.500000e+00 : f64, 6.000000e+00 : f64]} : tensor<2x3xf32>
  // GENERIC: "calib.observe"(%{{.*}}) <{name = "a \22b\22/c:0", range = [-1.500000e+00 : f64, 6.000000e+00 : f64]}>
  calib.observe %x {name = "a \"b\"/c:0", range = [-1.5, 6.0]} : tensor<2x3xf32>
  // Names in any script, beside what is escaped, and escaped as upstream's printer does.
  // CHECK: calib.observe %x {name = "größe\22\0A"} : tensor<2x3xf32>
  calib.observe %x {name = "größe\"\n"} : tensor<2x3xf32>
  // CHECK: calib.observe %x {name = "größe"} : tensor<2x3xf32>
  calib.observe %x {name = "gr\C3\B6\C3\9Fe"} : tensor<2x3xf32>
  // CHECK: calib.observe %x {name = "constant", range = [2.000000e+00 : f64, 2.000000e+00 : f64]} : tensor<2x3xf32>
  calib.observe %x {name = "constant", range = [2.0, 2.0]} : tensor<2x3xf32>
  // CHECK: calib.observe %x {name = "counted", range = [-2.500000e-01 : f64, 1.000000e+00 : f64], average = [0.000000e+00 : f64, 5.000000e-01 : f64], histogram = #calib.histogram<k = -3, first = -2, counts = [4, 0, 7]>}
  calib.observe %x {name = "counted", range = [-0.25, 1.0], average = [0.0, 0.5],
                    histogram = #calib.histogram<k = -3, first = -2, counts = [4, 0, 7]>} : tensor<2x3xf32>
  func.return
}
