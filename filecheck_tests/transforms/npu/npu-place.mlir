// RUN: qmlir-opt --npu-place --split-input-file %s | filecheck %s

// Tensors that live in turn share their bytes, constants lie behind them; tiles go around the region of their role.
// An input lives from the start, an output to the end.

builtin.module attributes {npu.device = "nmp"} {
  func.func @main() {
    %x = npu.buffer "dram" 100 {role = "ifm", tensor = "x", port = #npu.port<"input", 0 : i64, "x", [100 : i64], "i8">} : !npu.buffer
    %m = npu.buffer "dram" 128 {role = "ofm", tensor = "m"} : !npu.buffer
    %y = npu.buffer "dram" 100 {role = "ofm", tensor = "y", port = #npu.port<"output", 0 : i64, "y", [100 : i64], "i8">} : !npu.buffer
    %w = npu.buffer "dram" 4 {role = "weights", contents = #qmlir.weights<tensor<4xi8>, [1, 2, 3, 4]>} : !npu.buffer
    %v = npu.buffer "dram" 2 {role = "weights", contents = #qmlir.weights<tensor<2xi8>, [5, 6]>} : !npu.buffer
    %a = npu.buffer "act" 100000 {role = "ifm"} : !npu.buffer
    %b = npu.buffer "act" 60000 {role = "ifm"} : !npu.buffer
    %c = npu.buffer "act" 4000 {role = "ifm"} : !npu.buffer
    %d = npu.buffer "act" 100 {role = "ofm"} : !npu.buffer
    %unused = npu.buffer "act" 100 {role = "ofm"} : !npu.buffer
    npu.issue "load" "move" source = %x[0] target = %a[0] size = 100 rows = 1 planes = 1 source_row = 0 source_plane = 0 target_row = 0 target_plane = 0
    npu.issue "store" "move" source = %a[0] target = %m[0] size = 100 rows = 1 planes = 1 source_row = 0 source_plane = 0 target_row = 0 target_plane = 0
    npu.issue "load" "move" source = %m[0] target = %b[0] size = 100 rows = 1 planes = 1 source_row = 0 source_plane = 0 target_row = 0 target_plane = 0
    npu.issue "load" "move" source = %w[0] target = %b[100] size = 4 rows = 1 planes = 1 source_row = 0 source_plane = 0 target_row = 0 target_plane = 0
    npu.issue "load" "move" source = %v[0] target = %b[104] size = 2 rows = 1 planes = 1 source_row = 0 source_plane = 0 target_row = 0 target_plane = 0
    npu.issue "store" "move" source = %b[0] target = %y[0] size = 100 rows = 1 planes = 1 source_row = 0 source_plane = 0 target_row = 0 target_plane = 0
    npu.call "exec" @host_0(%x : !npu.buffer) -> (%y : !npu.buffer) {constants = 0 : i64, work = 0 : i64, waits = {}}
    npu.issue "load" "move" source = %w[0] target = %c[0] size = 4 rows = 1 planes = 1 source_row = 0 source_plane = 0 target_row = 0 target_plane = 0
    npu.issue "load" "move" source = %w[0] target = %d[0] size = 4 rows = 1 planes = 1 source_row = 0 source_plane = 0 target_row = 0 target_plane = 0
    func.return
  }
}

// CHECK: npu.filled = {dram = {tensors = 256 : i64, bound = 256 : i64, constants = 128 : i64}}
// CHECK: %x = npu.buffer "dram" 100 : i64 {role = "ifm", tensor = "x", {{.*}}address = 0 : i64
// CHECK-NEXT: %m = npu.buffer "dram" {{.*}}address = 128 : i64
// CHECK-NEXT: %y = npu.buffer "dram" {{.*}}address = 128 : i64
// CHECK-NEXT: %w = npu.buffer "dram" {{.*}}address = 256 : i64
// CHECK-NEXT: %v = npu.buffer "dram" {{.*}}address = 320 : i64
// CHECK-NEXT: %a = npu.buffer "act" {{.*}}address = 0 : i64
// CHECK-NEXT: %b = npu.buffer "act" {{.*}}address = 100000 : i64
// CHECK-NEXT: %c = npu.buffer "act" {{.*}}address = 0 : i64
// CHECK-NEXT: %d = npu.buffer "act" {{.*}}address = 163840 : i64
// CHECK-NEXT: %unused = npu.buffer "act" 100 : i64 {role = "ofm"} : !npu.buffer

// -----

// What stays keeps its address. Tiles of its layers lie in what it leaves, one ring for as long as that is the same.
builtin.module attributes {npu.device = "nmp", npu.layers = ["a", "b"], npu.rests = [{memory = "act", base = 32768 : i64, bytes = 196608 : i64, roles = ["ifm"]}, unit]} {
  func.func @main() {
    %w = npu.buffer "dram" 4 {role = "weights", contents = #qmlir.weights<tensor<4xi8>, [1, 2, 3, 4]>} : !npu.buffer
    %a = npu.buffer "act" 32 {role = "ofm", tensor = "stays", address = 262112 : i64} : !npu.buffer
    %b = npu.buffer "act" 64 {role = "ifm"} : !npu.buffer
    %c = npu.buffer "act" 64 {role = "ifm"} : !npu.buffer
    %d = npu.buffer "wgt" 64 {role = "weights"} : !npu.buffer
    %e = npu.buffer "wgt" 64 {role = "weights"} : !npu.buffer
    npu.issue "exec" "mark" layer = 0
    npu.issue "load" "move" source = %w[0] target = %b[0] size = 4 rows = 1 planes = 1 source_row = 0 source_plane = 0 target_row = 0 target_plane = 0
    npu.issue "load" "move" source = %w[0] target = %d[0] size = 4 rows = 1 planes = 1 source_row = 0 source_plane = 0 target_row = 0 target_plane = 0
    npu.issue "load" "move" source = %b[0] target = %a[0] size = 4 rows = 1 planes = 1 source_row = 0 source_plane = 0 target_row = 0 target_plane = 0
    npu.issue "exec" "mark" layer = 1
    npu.issue "load" "move" source = %w[0] target = %c[0] size = 4 rows = 1 planes = 1 source_row = 0 source_plane = 0 target_row = 0 target_plane = 0
    npu.issue "load" "move" source = %w[0] target = %e[0] size = 4 rows = 1 planes = 1 source_row = 0 source_plane = 0 target_row = 0 target_plane = 0
    func.return
  }
}
// CHECK:      %a = npu.buffer "act" 32 : i64 {role = "ofm", tensor = "stays", address = 262112 : i64}
// CHECK-NEXT: %b = npu.buffer "act" 64 : i64 {role = "ifm", address = 32768 : i64}
// CHECK-NEXT: %c = npu.buffer "act" 64 : i64 {role = "ifm", address = 0 : i64}
// CHECK-NEXT: %d = npu.buffer "wgt" 64 : i64 {role = "weights", address = 0 : i64}
// CHECK-NEXT: %e = npu.buffer "wgt" 64 : i64 {role = "weights", address = 64 : i64}

// -----

// Tiles of an external memory lie behind its tensors and constants, and the regions of their roles behind one another.
builtin.module attributes {npu.device = "ethos-u55-like"} {
  func.func @main() {
    %x = npu.buffer "sram" 100 {role = "ifm", tensor = "x", port = #npu.port<"input", 0 : i64, "x", [100 : i64], "i8">} : !npu.buffer
    %c = npu.buffer "sram" 20 {role = "ifm", contents = #qmlir.weights<tensor<20xi8>, [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10]>} : !npu.buffer
    %f = npu.buffer "flash" 4 {role = "weights", contents = #qmlir.weights<tensor<4xi8>, [1, 2, 3, 4]>} : !npu.buffer
    %s = npu.buffer "sram" 40 {role = "scales"} : !npu.buffer
    %w = npu.buffer "sram" 100 {role = "weights"} : !npu.buffer
    %v = npu.buffer "sram" 100 {role = "weights"} : !npu.buffer
    npu.issue "dma" "move" source = %f[0] target = %w[0] size = 4 rows = 1 planes = 1 source_row = 0 source_plane = 0 target_row = 0 target_plane = 0
    npu.issue "dma" "move" source = %f[0] target = %v[0] size = 4 rows = 1 planes = 1 source_row = 0 source_plane = 0 target_row = 0 target_plane = 0
    npu.issue "dma" "move" source = %f[0] target = %s[0] size = 4 rows = 1 planes = 1 source_row = 0 source_plane = 0 target_row = 0 target_plane = 0
    npu.issue "dma" "move" source = %x[0] target = %c[0] size = 4 rows = 1 planes = 1 source_row = 0 source_plane = 0 target_row = 0 target_plane = 0
    func.return
  }
}
// CHECK:      %x = npu.buffer "sram" 100 : i64 {role = "ifm", tensor = "x", {{.*}}address = 0 : i64
// CHECK-NEXT: %c = npu.buffer "sram" {{.*}}address = 112 : i64
// CHECK-NEXT: %f = npu.buffer "flash" {{.*}}address = 0 : i64
// CHECK-NEXT: %s = npu.buffer "sram" 40 : i64 {role = "scales", address = 368 : i64}
// CHECK-NEXT: %w = npu.buffer "sram" 100 : i64 {role = "weights", address = 144 : i64}
// CHECK-NEXT: %v = npu.buffer "sram" 100 : i64 {role = "weights", address = 256 : i64}
