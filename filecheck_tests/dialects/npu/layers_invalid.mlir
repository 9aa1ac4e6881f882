// RUN: qmlir-opt --split-input-file --verify-diagnostics %s

func.func @main(%x: tensor<1x4xi8>) -> tensor<1x4xi8> {
  // expected-error @+1 {{'npu.layer' "act" must have yielded values of the types tensor<1x4xi8>, got tensor<1x2xi8>}}
  %y = npu.layer "act" (%a = %x : tensor<1x4xi8>) -> (tensor<1x4xi8>) {
    %b = nn.constant <tensor<1x2xi8>, [1, 2]> : tensor<1x2xi8>
    npu.yield %b : tensor<1x2xi8>
  }
  func.return %y : tensor<1x4xi8>
}

// -----

func.func @main(%x: tensor<1x4xi8>) -> tensor<1x2xi8> {
  // expected-error @+1 {{'npu.host' "act" must have arguments of the types tensor<1x4xi8>, got tensor<1x2xi8>}}
  %y = "npu.host"(%x) <{label = "act"}> ({
  ^bb0(%a: tensor<1x2xi8>):
    npu.yield %a : tensor<1x2xi8>
  }) : (tensor<1x4xi8>) -> tensor<1x2xi8>
  func.return %y : tensor<1x2xi8>
}

// -----

func.func @main(%x: tensor<1x4xi8>) {
  // expected-error @+1 {{'(' expected}}
  npu.layer "act" %x
}
