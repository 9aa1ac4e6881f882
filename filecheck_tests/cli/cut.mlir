// A part of a Caffe2 net: the operator behind it need not be known.

// RUN: qmlir-opt %S/predict.pbtxt --init-net %S/init.pbtxt --shape data=1x4 --outputs b | filecheck %s
// RUN: qmlir-opt %S/predict.pbtxt --init-net %S/init.pbtxt --shape a=1x4 --inputs a --outputs b | filecheck %s --check-prefix=PART

// CHECK: func.func @main(%data: tensor<1x4xf32>
// CHECK: nn.relu
// CHECK: nn.sigmoid
// CHECK-NOT: Unheard

// PART: func.func @main(%a: tensor<1x4xf32>
// PART-NOT: nn.relu
// PART: nn.sigmoid
