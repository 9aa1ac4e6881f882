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
    npu.call "exec" @host_0(%a : !npu.buffer) -> (%b : !npu.buffer) {constants = 0 : i64, work = 0 : i64, waits = {}}
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
    npu.call "exec" @host_0(%w : !npu.buffer) -> (%a : !npu.buffer) {constants = 0 : i64, work = 0 : i64, waits = {}}
    func.return
  }
}

// -----

// A tensor that stays inside the device must lie apart from the tiles that its layers have there.

// expected-error@unknown {{npu-place: a tensor that stays must lie apart from tiles of the role ofm, bytes 163840 to 262144, got conv1: 262080 to 262144}}
builtin.module attributes {npu.device = "nmp"} {
  func.func @main() {
    %w = npu.buffer "dram" 4 {role = "weights", contents = #qmlir.weights<tensor<4xi8>, [1, 2, 3, 4]>} : !npu.buffer
    %a = npu.buffer "act" 64 {role = "ofm", tensor = "conv1", address = 262080 : i64} : !npu.buffer
    npu.issue "load" "move" source = %w[0] target = %a[0] size = 4 rows = 1 planes = 1 source_row = 0 source_plane = 0 target_row = 0 target_plane = 0
    func.return
  }
}

// -----

// And in its memory.

// expected-error@unknown {{npu-place: a tensor that stays must lie apart from what is behind the memory act, bytes 262144 to 262148, got conv1: 262084 to 262148}}
builtin.module attributes {npu.device = "nmp", npu.layers = ["conv1"], npu.rests = [{memory = "act", base = 0 : i64, bytes = 131072 : i64, roles = ["ifm"]}]} {
  func.func @main() {
    %w = npu.buffer "dram" 4 {role = "weights", contents = #qmlir.weights<tensor<4xi8>, [1, 2, 3, 4]>} : !npu.buffer
    %a = npu.buffer "act" 64 {role = "ofm", tensor = "conv1", address = 262084 : i64} : !npu.buffer
    npu.issue "exec" "mark" layer = 0
    npu.issue "load" "move" source = %w[0] target = %a[0] size = 4 rows = 1 planes = 1 source_row = 0 source_plane = 0 target_row = 0 target_plane = 0
    func.return
  }
}

// -----

// Tiles are gone when other layers have other regions.

// expected-error@unknown {{npu-place: tiles of the role ifm must not be used once tensors that stay leave something else to tiles, got steps 1 to 3 of 2}}
builtin.module attributes {npu.device = "nmp", npu.layers = ["conv1", "conv2"], npu.rests = [unit, {memory = "act", base = 0 : i64, bytes = 131072 : i64, roles = ["ifm"]}]} {
  func.func @main() {
    %w = npu.buffer "dram" 4 {role = "weights", contents = #qmlir.weights<tensor<4xi8>, [1, 2, 3, 4]>} : !npu.buffer
    %a = npu.buffer "act" 64 {role = "ifm"} : !npu.buffer
    npu.issue "exec" "mark" layer = 0
    npu.issue "load" "move" source = %w[0] target = %a[0] size = 4 rows = 1 planes = 1 source_row = 0 source_plane = 0 target_row = 0 target_plane = 0
    npu.issue "exec" "mark" layer = 1
    npu.issue "load" "move" source = %w[0] target = %a[0] size = 4 rows = 1 planes = 1 source_row = 0 source_plane = 0 target_row = 0 target_plane = 0
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
