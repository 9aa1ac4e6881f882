// What each selector matches, and what a rule leaves on it.

// RUN: qmlir-opt --apply-policy="rules={name=conv1 precision=int16}" %s | filecheck %s --check-prefix=NAME
// NAME: nn.conv2d {{.*}}qmlir.policy = {precision = "int16"}
// NAME-NOT: qmlir.policy

// RUN: qmlir-opt --apply-policy="rules={name=hidden weight-precision=int4}" %s | filecheck %s --check-prefix=TENSOR
// TENSOR: nn.fully_connected {{.*}}tensors ["hidden"]{{.*}}qmlir.policy = {weight_precision = "int4"}
// TENSOR-NOT: qmlir.policy

// RUN: qmlir-opt --apply-policy="rules={glob=dense* per-channel=false}" %s | filecheck %s --check-prefix=GLOB
// GLOB: nn.conv2d {{.*}}tensors ["features"]>} :
// GLOB: nn.fully_connected {{.*}}qmlir.policy = {per_channel = false}
// GLOB: nn.fully_connected {{.*}}qmlir.policy = {per_channel = false}

// RUN: qmlir-opt --apply-policy="rules={regex=dense[2-9] bias=int64}" %s | filecheck %s --check-prefix=REGEX
// REGEX: nn.fully_connected {{.*}}tensors ["hidden"]>} :
// REGEX: nn.fully_connected {{.*}}qmlir.policy = {bias = "int64"}

// RUN: qmlir-opt --apply-policy="rules={kind=*conv* schema=symmetric}" %s | filecheck %s --check-prefix=KIND
// KIND: nn.conv2d {{.*}}qmlir.policy = {schema = "symmetric"}
// KIND-NOT: qmlir.policy

// RUN: qmlir-opt --apply-policy="rules={between=features,hidden keep-float=true}" %s | filecheck %s --check-prefix=BETWEEN
// BETWEEN: nn.conv2d {{.*}}tensors ["features"]>} :
// BETWEEN: nn.relu {{.*}}qmlir.policy = {keep_float = true}
// BETWEEN: nn.reshape {{.*}}qmlir.policy = {keep_float = true}
// BETWEEN: nn.fully_connected {{.*}}tensors ["hidden"]{{.*}}qmlir.policy = {keep_float = true}
// BETWEEN: nn.fully_connected {{.*}}tensors ["scores"]>} :

// RUN: qmlir-opt --apply-policy="rules={layer=first calibration=kl; layer=last glow-exact=true; layer=last rounding=nearest}" %s | filecheck %s --check-prefix=LAYER
// LAYER: nn.conv2d {{.*}}qmlir.policy = {calibration = "kl"}
// LAYER: nn.fully_connected {{.*}}tensors ["hidden"]>} :
// LAYER: nn.fully_connected {{.*}}qmlir.policy = {glow_exact = true, rounding = "nearest"}

// A tensor's range and its parameters; those of an input stand on its observer, which the rule makes.
// RUN: qmlir-opt --apply-policy="rules={name=image range=-1,1; name=hidden parameters=0.5,3}" %s | filecheck %s --check-prefix=FIXED
// FIXED: calib.observe %image {qmlir.policy = {range = [-1.000000e+00 : f64, 1.000000e+00 : f64]}, name = "image"}
// FIXED-NOT: calib.observe
// FIXED: nn.fully_connected {{.*}}tensors ["hidden"]{{.*}}qmlir.policy = {parameters = [5.000000e-01 : f64, 3 : i64]}

// Of several settings each operation takes what is about something that it has.
// RUN: qmlir-opt --apply-policy="rules={regex=relu1|dense. precision=int16 weight-precision=int8 bias=int32}" %s | filecheck %s --check-prefix=OWN
// OWN: nn.conv2d {{.*}}tensors ["features"]>} :
// OWN: nn.relu {{.*}}qmlir.policy = {precision = "int16"}
// OWN: nn.fully_connected {{.*}}tensors ["hidden"]{{.*}}qmlir.policy = {precision = "int16", weight_precision = "int8"}
// OWN: nn.fully_connected {{.*}}tensors ["scores"]{{.*}}qmlir.policy = {precision = "int16", weight_precision = "int8", bias = "int32"}

// A file: its default holds for all, a later rule for what an earlier one says too, and settings add up.
// RUN: qmlir-opt --apply-policy="file=%S/Inputs/policy.yaml" %s | filecheck %s --check-prefix=FILE
// FILE: calib.observe %image {qmlir.policy = {schema = "symmetric"}, name = "image"}
// FILE: nn.conv2d {{.*}}qmlir.policy = {schema = "symmetric", precision = "int16"}
// FILE: nn.relu {{.*}}qmlir.policy = {schema = "symmetric"}
// FILE: nn.fully_connected {{.*}}tensors ["hidden"]{{.*}}qmlir.policy = {schema = "symmetric", weight_precision = "int5", per_channel = false}
// FILE: nn.fully_connected {{.*}}tensors ["scores"]{{.*}}qmlir.policy = {schema = "symmetric", weight_precision = "int5", per_channel = true}

func.func @main(%image: tensor<1x4x4x1xf32> {qmlir.name = #qmlir.name<tensors ["image"]>}) -> tensor<1x1xf32> {
  %w = nn.constant <tensor<1x1x1x1xf32>, [0.5]> : tensor<1x1x1x1xf32>
  %0 = nn.conv2d %image, %w {qmlir.name = #qmlir.name<nodes ["conv1"], tensors ["features"]>} : tensor<1x4x4x1xf32>, tensor<1x1x1x1xf32> -> tensor<1x4x4x1xf32>
  %1 = nn.relu %0 {qmlir.name = #qmlir.name<nodes ["relu1"], tensors ["active"]>} : tensor<1x4x4x1xf32> -> tensor<1x4x4x1xf32>
  %2 = nn.reshape %1 {shape = array<i64: 1, 16>, qmlir.name = #qmlir.name<nodes ["flatten1"], tensors ["flat"]>} : tensor<1x4x4x1xf32> -> tensor<1x16xf32>
  %v = nn.constant <tensor<2x16xf32>, [1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0]> : tensor<2x16xf32>
  %3 = nn.fully_connected %2, %v {qmlir.name = #qmlir.name<nodes ["dense1"], tensors ["hidden"]>} : tensor<1x16xf32>, tensor<2x16xf32> -> tensor<1x2xf32>
  %u = nn.constant <tensor<1x2xf32>, [1.0, 2.0]> : tensor<1x2xf32>
  %b = nn.constant <tensor<1xf32>, [1.0]> : tensor<1xf32>
  %4 = nn.fully_connected %3, %u, %b {qmlir.name = #qmlir.name<nodes ["dense2"], tensors ["scores"]>} : tensor<1x2xf32>, tensor<1x2xf32>, tensor<1xf32> -> tensor<1x1xf32>
  func.return %4 : tensor<1x1xf32>
}
