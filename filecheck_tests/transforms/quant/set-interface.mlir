// RUN: qmlir-opt --set-interface=type=int8 %s | filecheck %s --check-prefix=INT8
// RUN: qmlir-opt --set-interface=type=uint8 %s | filecheck %s --check-prefix=UINT8
// RUN: qmlir-opt --set-interface=type=int16 %s | filecheck %s --check-prefix=INT16
// RUN: qmlir-opt --set-interface=type=float %s | filecheck %s --check-prefix=FLOAT

// The casts at both ends go; integers of another type are converted, and integers of the model's own stay.

func.func @main(%x: tensor<4xf32>, %i: tensor<4xi64>) -> (tensor<4xf32>, tensor<4xi64>) {
  %0 = quant.qcast %x : tensor<4xf32> to tensor<4x!quant.uniform<i8:f32, 0.5:3>>
  %1 = nn.relu %0 : tensor<4x!quant.uniform<i8:f32, 0.5:3>> -> tensor<4x!quant.uniform<i8:f32, 0.25:-128>>
  %2 = quant.dcast %1 : tensor<4x!quant.uniform<i8:f32, 0.25:-128>> to tensor<4xf32>
  func.return %2, %i : tensor<4xf32>, tensor<4xi64>
}

// INT8: func.func @main(%x: tensor<4x!quant.uniform<i8:f32, 5.000000e-01:3>>, %i: tensor<4xi64>) -> (tensor<4x!quant.uniform<i8:f32, 2.500000e-01:-128>>, tensor<4xi64>)
// INT8-NEXT: %[[Y:.*]] = nn.relu %x
// INT8-NEXT: func.return %[[Y]], %i

// UINT8: func.func @main(%x: tensor<4x!quant.uniform<u8:f32, 5.000000e-01:131>>, %i: tensor<4xi64>) -> (tensor<4x!quant.uniform<u8:f32, 2.500000e-01>>, tensor<4xi64>)
// UINT8-NEXT: %[[X:.*]] = nn.requantize %x : {{.*}} -> tensor<4x!quant.uniform<i8:f32, 5.000000e-01:3>>
// UINT8-NEXT: %[[Y:.*]] = nn.relu %[[X]]
// UINT8-NEXT: %[[Z:.*]] = nn.requantize %[[Y]]
// UINT8-NEXT: func.return %[[Z]], %i

// INT16: func.func @main(%x: tensor<4x!quant.uniform<i16<-128:127>:f32, 5.000000e-01:3>>

// FLOAT: func.func @main(%x: tensor<4xf32>, %i: tensor<4xi64>) -> (tensor<4xf32>, tensor<4xi64>)
// FLOAT-NEXT: quant.qcast
