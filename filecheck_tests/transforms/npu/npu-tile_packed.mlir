// RUN: qmlir-opt --qint-to-npu="device=%S/Inputs/array_unpacks.toml" --npu-fuse --npu-tile --elide-weights --split-input-file %s | filecheck %s
// RUN: qmlir-opt --qint-to-npu="device=%S/Inputs/load_unpacks.toml" --npu-fuse --npu-tile --elide-weights --split-input-file %s | filecheck %s --check-prefix=LOAD
// RUN: qmlir-opt --qint-to-npu=device=nmp --npu-fuse --npu-tile --elide-weights --split-input-file %s | filecheck %s --check-prefix=BYTES
// RUN: not qmlir-opt --qint-to-npu="device=%S/Inputs/wrong_widths.toml" %s 2>&1 | filecheck %s --check-prefix=WRONG

// WRONG: wrong_widths.toml: queue "exec" unpacks 2: must be at most 7 bits, got 8

// Weights of 3 bits: the array reads them packed, 2 tiles of 2 by 4 in 6 bytes. A queue that unpacks no narrower width
// brings them as 4 bits; a device that unpacks none has bytes.
func.func @three(%x: tensor<1x4xi8>) -> tensor<1x3xi8> {
  %w = nn.constant <tensor<3x4xi8>, [1, 2, 3, -4, 0, 1, 2, 3, -1, -2, -3, -4]> : tensor<3x4xi8>
  %s = qint.fully_connected %x, %w : tensor<1x4xi8>, tensor<3x4xi8> -> tensor<1x3xi32>
  %y = qint.requantize %s {multiplier = array<i32: 1073741824>, shift = array<i32: -3>, contract = "shift", min = -128 : i32, max = 127 : i32} : tensor<1x3xi32> -> tensor<1x3xi8>
  func.return %y : tensor<1x3xi8>
}

// CHECK-LABEL: @three
// CHECK:       npu.buffer "dram" 6 : i64 {role = "weights", contents =
// CHECK-NEXT:  %[[W:.*]] = npu.buffer "wgt" 6 : i64 {role = "weights"}
// CHECK-NEXT:  npu.issue "load" "move" source = %{{.*}}[0] target = %[[W]][0] size = 6
// CHECK:       npu.issue "exec" "convolve" {{.*}}weights = %[[W]][0] {{.*}}data_bits = 8 weight_bits = 3

// LOAD-LABEL:  @three
// LOAD:        npu.buffer "wgt" 16 : i64 {role = "weights"}
// LOAD-NEXT:   %[[C:.*]] = npu.buffer "dram" 8 : i64 {role = "weights", contents =
// LOAD-NEXT:   npu.issue "load" "unpack" source = %[[C]][0] target = %{{.*}}[0] count = 16 bits = 4
// LOAD:        npu.issue "exec" "convolve" {{.*}}data_bits = 8 weight_bits = 8

// BYTES-LABEL: @three
// BYTES:       npu.issue "load" "move" {{.*}} size = 512
// BYTES-NOT:   unpack

// -----

// Weights of 5 bits: as 6 bits where the array reads these, and as bytes where 4 bits are the only width.
func.func @five(%x: tensor<1x4xi8>) -> tensor<1x2xi8> {
  %w = nn.constant <tensor<2x4xi8>, [15, -16, 0, 0, 0, 0, 1, 1]> : tensor<2x4xi8>
  %s = qint.fully_connected %x, %w : tensor<1x4xi8>, tensor<2x4xi8> -> tensor<1x2xi32>
  %y = qint.requantize %s {multiplier = array<i32: 1073741824>, shift = array<i32: -3>, contract = "shift", min = -128 : i32, max = 127 : i32} : tensor<1x2xi32> -> tensor<1x2xi8>
  func.return %y : tensor<1x2xi8>
}

// CHECK-LABEL: @five
// CHECK:       npu.buffer "wgt" 6 : i64 {role = "weights"}
// CHECK:       npu.issue "exec" "convolve" {{.*}}weight_bits = 6

// LOAD-LABEL:  @five
// LOAD:        npu.issue "load" "move" {{.*}} size = 8
// LOAD:        npu.issue "exec" "convolve" {{.*}}weight_bits = 8
