// RUN: qmlir-opt %s --quantize | filecheck %s

// What a module says about its inputs stays with the quantized network.

// CHECK: builtin.module attributes {qmlir.batch = {x = "N"}, qmlir.preprocess = "scale=0.00392157", qmlir.dtype = "uint8"} {
// CHECK: nn.relu {{.*}}!quant.uniform<i8:f32
builtin.module attributes {qmlir.batch = {x = "N"}, qmlir.preprocess = "scale=0.00392157", qmlir.dtype = "uint8"} {
  func.func @main(%x: tensor<1x4xf32>) -> tensor<1x4xf32> {
    calib.observe %x {name = "x", range = [-1.0, 1.0]} : tensor<1x4xf32>
    %y = nn.relu %x : tensor<1x4xf32> -> tensor<1x4xf32>
    calib.observe %y {name = "y", range = [0.0, 1.0]} : tensor<1x4xf32>
    func.return %y : tensor<1x4xf32>
  }
}
