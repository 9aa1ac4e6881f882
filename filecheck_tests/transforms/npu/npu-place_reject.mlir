// RUN: qmlir-opt --npu-place --split-input-file --verify-diagnostics %s

// Tiles that live at once must fit the region of their role.

// expected-error@unknown {{npu-place: tiles of the role ifm must fit their 163840 bytes of the memory act, got 180000 at once: ifm 100000, ifm 80000}}
builtin.module attributes {npu.device = "nmp"} {
  func.func @main() {
    %w = npu.buffer "dram" 4 {role = "weights", contents = #qmlir.weights<tensor<4xi8>, [1, 2, 3, 4]>} : !npu.buffer
    %a = npu.buffer "act" 100000 {role = "ifm"} : !npu.buffer
    %b = npu.buffer "act" 80000 {role = "ifm"} : !npu.buffer
    npu.issue "load" "move" source = %w[0] target = %a[0] size = 4 rows = 1 planes = 1 source_row = 0 source_plane = 0 target_row = 0 target_plane = 0
    npu.issue "load" "move" source = %w[0] target = %b[0] size = 4 rows = 1 planes = 1 source_row = 0 source_plane = 0 target_row = 0 target_plane = 0
    npu.issue "load" "move" source = %w[0] target = %a[0] size = 4 rows = 1 planes = 1 source_row = 0 source_plane = 0 target_row = 0 target_plane = 0
    func.return
  }
}

// -----

// So must tensors, which are named.

// expected-error@unknown {{npu-place: tensors must fit the 67108864 bytes that the memory dram has for them, got 80000000 bytes; 80000000 at once: conv1 50000000, conv2 30000000}}
builtin.module attributes {npu.device = "nmp"} {
  func.func @main() {
    %a = npu.buffer "dram" 50000000 {role = "ofm", tensor = "conv1"} : !npu.buffer
    %b = npu.buffer "dram" 30000000 {role = "ofm", tensor = "conv2"} : !npu.buffer
    npu.call "exec" @host_0(%a : !npu.buffer) -> (%b : !npu.buffer) {work = 0 : i64, waits = {}}
    func.return
  }
}

// -----

// And constants.

// expected-error@unknown {{npu-place: tensors and constants must fit the 67108864 bytes that the memory dram has for them, got 67108864 and 64}}
builtin.module attributes {npu.device = "nmp"} {
  func.func @main() {
    %a = npu.buffer "dram" 67108864 {role = "ofm", tensor = "conv1"} : !npu.buffer
    %w = npu.buffer "dram" 4 {role = "weights", contents = #qmlir.weights<tensor<4xi8>, [1, 2, 3, 4]>} : !npu.buffer
    npu.call "exec" @host_0(%w : !npu.buffer) -> (%a : !npu.buffer) {work = 0 : i64, waits = {}}
    func.return
  }
}

// -----

// expected-error@unknown {{npu-place: needs one function with commands, got 0; run npu-tile first}}
builtin.module attributes {npu.device = "nmp"} {
  func.func @main() {
    func.return
  }
}

// -----

// expected-error@unknown {{the module: must name its device in npu.device, got none; run qint-to-npu first}}
builtin.module {
}
