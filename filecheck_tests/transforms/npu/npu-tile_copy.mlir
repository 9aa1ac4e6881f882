// RUN: qmlir-opt --npu-tile %s | filecheck %s

// What is returned twice, and what is an input, too, has a buffer of its own for each result; each copy is a layer.
builtin.module attributes {npu.device = "nmp"} {
  func.func @main(%x: tensor<1x4xi8>) -> (tensor<1x4xi8>, tensor<1x4xi8>, tensor<1x4xi8>) {
    %y = "npu.layer"(%x) <{label = "half"}> ({
    ^bb0(%a: tensor<1x4xi8>):
      %r = qint.requantize %a {multiplier = array<i32: 1073741824>, shift = array<i32: 0>, contract = "shift", min = -128 : i32, max = 127 : i32} : tensor<1x4xi8> -> tensor<1x4xi8>
      npu.yield %r : tensor<1x4xi8>
    }) : (tensor<1x4xi8>) -> tensor<1x4xi8>
    func.return %y, %y, %x : tensor<1x4xi8>, tensor<1x4xi8>, tensor<1x4xi8>
  }
}

// CHECK:      npu.layers = ["half", "copy of output1", "copy of output2"]
// CHECK:      %[[X:.*]] = npu.buffer "dram" 4 : i64 {role = "ifm", tensor = "input0"
// CHECK:      %[[Y:.*]] = npu.buffer "dram" 4 : i64 {role = "ofm", tensor = "half", port = #npu.port<"output", 0 : i64, "output0"
// CHECK:      %[[Z:.*]] = npu.buffer "dram" 4 : i64 {role = "ofm", tensor = "output1", port = #npu.port<"output", 1
// CHECK:      npu.issue "load" "move" source = %[[Y]][0]
// CHECK-NEXT: npu.issue "store" "move" source = %{{.*}}[0] target = %[[Z]][0]
// CHECK:      %[[W:.*]] = npu.buffer "dram" 4 : i64 {role = "ofm", tensor = "output2", port = #npu.port<"output", 2
// CHECK:      npu.issue "load" "move" source = %[[X]][0]
// CHECK-NEXT: npu.issue "store" "move" source = %{{.*}}[0] target = %[[W]][0]
