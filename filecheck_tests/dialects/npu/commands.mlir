// RUN: qmlir-opt %s | qmlir-opt | filecheck %s
// RUN: qmlir-opt --mlir-print-op-generic %s | qmlir-opt | filecheck %s

// Queues are named as the device file names them.

func.func @main() {
  %x = npu.buffer "dram" 64 {role = "ifm", tensor = "x", port = #npu.port<"input", 0 : i64, "x", [64 : i64], "i8">} : !npu.buffer
  %c = npu.buffer "dram" 4 {role = "weights", contents = #qmlir.weights<tensor<4xi8>, [1, 2, 3, 4]>, address = 64 : i64} : !npu.buffer
  %a = npu.buffer "act-0" 64 {role = "ifm"} : !npu.buffer
  npu.issue "dma-in" "move" source = %x[0] target = %a[8] size = 4 rows = 1 planes = 1 source_row = 0 source_plane = 0 target_row = 0 target_plane = 0
  npu.issue "dma-in" "move" source = %c[0] target = %a[0] size = 4 rows = 1 planes = 1 source_row = 0 source_plane = 0 target_row = 0 target_plane = 0 after "vector" 2, "dma-out" 1
  npu.issue "vector" "set-context" ctx = 3 step = lookup bits = 8 contract = 0 input_zero_point = -1 zero_point = 0 lower = -128 upper = 127 per_channel = 0 table = %c[0]
  npu.issue "vector" "softmax" source = %a[0] target = %x[4] source_bits = 8 target_bits = 16 rows = 2 channels = 4 source_row = 4 target_row = 8 zero_point = -3 lower = -128 upper = 127 table = %c[0] inverse = %c[2] division = newton entries = 1 unit = 4096
  npu.issue "vector" "normalize" source = %a[0] target = %x[4] source_bits = 8 target_bits = 8 rows = 2 channels = 4 source_row = 4 target_row = 4 zero_point = 0 lower = -128 upper = 127 norm = rms input_zero_point = -7 multiplier = 1073741824 shift = -2 fraction = 9 epsilon_low = 1 epsilon_high = 2
  npu.call "vector" @host_0(%x, %a : !npu.buffer, !npu.buffer) -> (%c : !npu.buffer) {constants = 0 : i64, work = 12 : i64, waits = {"dma-in" = 2 : i64}}
  npu.issue "vector" "end" status = 0
  func.return
}

// CHECK: %x = npu.buffer "dram" 64 : i64 {role = "ifm", tensor = "x", port = #npu.port<"input", 0 : i64, "x", [64 : i64], "i8">} : !npu.buffer
// CHECK-NEXT: %c = npu.buffer "dram" 4 : i64 {role = "weights", contents = #qmlir.weights<tensor<4xi8>, [1, 2, 3, 4]>, address = 64 : i64} : !npu.buffer
// CHECK-NEXT: %a = npu.buffer "act-0" 64 : i64 {role = "ifm"} : !npu.buffer
// CHECK-NEXT: npu.issue "dma-in" "move" source = %x[0] target = %a[8] size = 4 rows = 1 planes = 1 source_row = 0 source_plane = 0 target_row = 0 target_plane = 0
// CHECK-NEXT: npu.issue "dma-in" "move" source = %c[0] target = %a[0] size = 4 rows = 1 planes = 1 source_row = 0 source_plane = 0 target_row = 0 target_plane = 0 after "vector" 2, "dma-out" 1
// CHECK-NEXT: npu.issue "vector" "set-context" ctx = 3 step = lookup bits = 8 contract = 0 input_zero_point = -1 zero_point = 0 lower = -128 upper = 127 per_channel = 0 table = %c[0]
// CHECK-NEXT: npu.issue "vector" "softmax" source = %a[0] target = %x[4] source_bits = 8 target_bits = 16 rows = 2 channels = 4 source_row = 4 target_row = 8 zero_point = -3 lower = -128 upper = 127 table = %c[0] inverse = %c[2] division = newton entries = 1 unit = 4096
// CHECK-NEXT: npu.issue "vector" "normalize" source = %a[0] target = %x[4] source_bits = 8 target_bits = 8 rows = 2 channels = 4 source_row = 4 target_row = 4 zero_point = 0 lower = -128 upper = 127 norm = rms input_zero_point = -7 multiplier = 1073741824 shift = -2 fraction = 9 epsilon_low = 1 epsilon_high = 2
// CHECK-NEXT: npu.call "vector" @host_0(%x, %a : !npu.buffer, !npu.buffer) -> (%c : !npu.buffer) {constants = 0 : i64, work = 12 : i64, waits = {"dma-in" = 2 : i64}}
// CHECK-NEXT: npu.issue "vector" "end" status = 0
