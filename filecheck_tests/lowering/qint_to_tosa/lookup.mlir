// RUN: qmlir-opt --qint-to-tosa --weights=elide %s | filecheck %s

// CHECK-LABEL: func.func @lookup
// CHECK: "tosa.table"(%x, %{{.*}}) : (tensor<4x5xi8>, tensor<256xi8>) -> tensor<4x5xi8>
func.func @lookup(%x: tensor<4x5xi8>) -> tensor<4x5xi8> {
  %y = qint.lookup %x, <tensor<256xi8>, "0x00fffefdfcfbfaf9f8f7f6f5f4f3f2f1f0efeeedecebeae9e8e7e6e5e4e3e2e1e0dfdedddcdbdad9d8d7d6d5d4d3d2d1d0cfcecdcccbcac9c8c7c6c5c4c3c2c1c0bfbebdbcbbbab9b8b7b6b5b4b3b2b1b0afaeadacabaaa9a8a7a6a5a4a3a2a1a09f9e9d9c9b9a999897969594939291908f8e8d8c8b8a898887868584838281807f7e7d7c7b7a797877767574737271706f6e6d6c6b6a696867666564636261605f5e5d5c5b5a595857565554535251504f4e4d4c4b4a494847464544434241403f3e3d3c3b3a393837363534333231302f2e2d2c2b2a292827262524232221201f1e1d1c1b1a191817161514131211100f0e0d0c0b0a090807060504030201"> : tensor<4x5xi8> -> tensor<4x5xi8>
  func.return %y : tensor<4x5xi8>
}
