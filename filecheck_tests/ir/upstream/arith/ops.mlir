// RUN: qmlir-opt %s | qmlir-opt | filecheck %s

// Conversions take vectors and tensors too.
// CHECK-LABEL: func.func @conversions
func.func @conversions(%i: i8, %v: vector<4xi8>, %w: vector<4xi32>, %f: vector<4xf32>, %t: tensor<4x?xi8>) {
  // CHECK: arith.extsi %i : i8 to i32
  %0 = arith.extsi %i : i8 to i32
  // CHECK: arith.extsi %v : vector<4xi8> to vector<4xi32>
  %1 = arith.extsi %v : vector<4xi8> to vector<4xi32>
  // CHECK: arith.extui %v : vector<4xi8> to vector<4xi16>
  %2 = arith.extui %v : vector<4xi8> to vector<4xi16>
  // CHECK: arith.trunci %w : vector<4xi32> to vector<4xi8>
  %3 = arith.trunci %w : vector<4xi32> to vector<4xi8>
  // CHECK: arith.sitofp %w : vector<4xi32> to vector<4xf64>
  %4 = arith.sitofp %w : vector<4xi32> to vector<4xf64>
  // CHECK: arith.uitofp %v : vector<4xi8> to vector<4xf32>
  %5 = arith.uitofp %v : vector<4xi8> to vector<4xf32>
  // CHECK: arith.fptosi %f : vector<4xf32> to vector<4xi32>
  %6 = arith.fptosi %f : vector<4xf32> to vector<4xi32>
  // CHECK: arith.fptoui %f : vector<4xf32> to vector<4xi8>
  %7 = arith.fptoui %f : vector<4xf32> to vector<4xi8>
  // CHECK: arith.sitofp %t : tensor<4x?xi8> to tensor<4x?xf32>
  %8 = arith.sitofp %t : tensor<4x?xi8> to tensor<4x?xf32>
  func.return
}
