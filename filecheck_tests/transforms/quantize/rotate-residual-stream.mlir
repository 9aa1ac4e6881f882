// Layers write and read a rotated stream, and the gain is folded; what a rotation would change stays, with the reason.

// RUN: qmlir-opt --rotate-residual-stream --split-input-file %s | filecheck %s

!t = tensor<2x2xf32>

// With two channels, Q = diag(±1) · [[1, 1], [1, −1]] / √2.
// CHECK-LABEL: func.func @stream
// CHECK: nn.constant <tensor<3x2xf32>, [{{-?}}0.7071
// CHECK: nn.gather {{.*}}qmlir.rotated = "rotated with a residual stream of 1 sum by a Hadamard matrix of order 2"
// CHECK: %[[B:.*]] = nn.fully_connected %x, %{{.*}}tensors ["branch.rotated"], absorbed ["branch"]>, qmlir.rotated
// CHECK: %[[S:.*]] = nn.add %{{.*}}, %[[B]] {qmlir.rotated
// CHECK: %[[N:.*]] = nn.rms_norm %[[S]] {qmlir.rotated
// CHECK-NOT: nn.mul
// CHECK: nn.fully_connected %[[N]], %{{.*}} {qmlir.rotated
func.func @stream(%x: !t, %i: tensor<2xi64>) -> !t {
  %t = nn.constant <tensor<3x2xf32>, [1.0, 0.0, 0.0, 1.0, 2.0, 0.0]> : tensor<3x2xf32>
  %w = nn.constant <tensor<2x2xf32>, [1.0, 0.0, 0.0, 1.0]> : !t
  %g = nn.constant <tensor<2xf32>, [2.0, 3.0]> : tensor<2xf32>
  %e = nn.gather %t, %i {axis = 0 : i64} : tensor<3x2xf32>, tensor<2xi64> -> !t
  %b = nn.fully_connected %x, %w {qmlir.name = #qmlir.name<tensors ["branch"]>} : !t, !t -> !t
  %s = nn.add %e, %b : !t, !t -> !t
  %n = nn.rms_norm %s {axis = 1 : i64, epsilon = 1.0e-05 : f32} : !t -> !t
  %m = nn.mul %n, %g : !t, tensor<2xf32> -> !t
  %y = nn.fully_connected %m, %w : !t, !t -> !t
  func.return %y : !t
}

// -----

!t = tensor<2x2xf32>

// CHECK-LABEL: func.func @mean
// CHECK: nn.add %{{.*}} {qmlir.rotated = "not rotated: nn.layer_norm \22nn.layer_norm\22 reads it and subtracts the mean, which a rotation does not keep"}
// CHECK: nn.layer_norm {{.*}}qmlir.rotated = "not rotated
func.func @mean(%x: !t) -> !t {
  %w = nn.constant <tensor<2x2xf32>, [1.0, 0.0, 0.0, 1.0]> : !t
  %a = nn.fully_connected %x, %w : !t, !t -> !t
  %b = nn.fully_connected %a, %w : !t, !t -> !t
  %s = nn.add %a, %b : !t, !t -> !t
  %n = nn.layer_norm %s {axis = 1 : i64, epsilon = 1.0e-05 : f32} : !t -> !t
  %y = nn.fully_connected %n, %w : !t, !t -> !t
  func.return %y : !t
}
