// RUN: qmlir-opt %s | qmlir-opt | filecheck %s

// The mode is an attribute of tosa since LLVM 22, and a string before.

// CHECK-LABEL: func.func @modes
func.func @modes(%x: tensor<1x3x4x2xf32>, %i: tensor<1x3x4x2xi8>) {
  %s = tosa.const_shape {values = dense<[4, 2, 4, 2]> : tensor<4xindex>} : () -> !tosa.shape<4>
  %o = tosa.const_shape {values = dense<-1> : tensor<2xindex>} : () -> !tosa.shape<2>
  %b = tosa.const_shape {values = dense<1> : tensor<2xindex>} : () -> !tosa.shape<2>
  // CHECK: "tosa.resize"(%x, %s, %o, %b) <{mode = #tosa.resize_mode<BILINEAR>}>
  %0 = "tosa.resize"(%x, %s, %o, %b) <{mode = #tosa.resize_mode<BILINEAR>}> : (tensor<1x3x4x2xf32>, !tosa.shape<4>, !tosa.shape<2>, !tosa.shape<2>) -> tensor<1x6x8x2xf32>
  // CHECK: "tosa.resize"(%x, %s, %o, %b) <{mode = "NEAREST_NEIGHBOR"}>
  %1 = "tosa.resize"(%x, %s, %o, %b) <{mode = "NEAREST_NEIGHBOR"}> : (tensor<1x3x4x2xf32>, !tosa.shape<4>, !tosa.shape<2>, !tosa.shape<2>) -> tensor<1x6x8x2xf32>
  // CHECK: "tosa.resize"(%i, %s, %o, %b) <{mode = #tosa.resize_mode<BILINEAR>}>
  %2 = tosa.resize %i, %s, %o, %b {mode = BILINEAR} : (tensor<1x3x4x2xi8>, !tosa.shape<4>, !tosa.shape<2>, !tosa.shape<2>) -> tensor<1x6x8x2xi32>
  // CHECK: "tosa.resize"(%i, %s, %o, %b) <{mode = #tosa.resize_mode<NEAREST_NEIGHBOR>}>
  %3 = tosa.resize %i, %s, %o, %b mode<NEAREST_NEIGHBOR> : (tensor<1x3x4x2xi8>, !tosa.shape<4>, !tosa.shape<2>, !tosa.shape<2>) -> tensor<1x6x8x2xi8>
  func.return
}
