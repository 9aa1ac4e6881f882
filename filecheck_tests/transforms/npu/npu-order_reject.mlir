// RUN: qmlir-opt --npu-order --split-input-file --verify-diagnostics %s

// expected-error@unknown {{npu.buffer: must have an address, got none; run npu-place first}}
builtin.module attributes {npu.device = "nmp"} {
  func.func @main() {
    %x = npu.buffer "dram" 4 {role = "ifm"} : !npu.buffer
    %a = npu.buffer "act" 4 {role = "ifm", address = 0 : i64} : !npu.buffer
    npu.issue "load" "move" source = %x[0] target = %a[0] size = 4 rows = 1 planes = 1 source_row = 0 source_plane = 0 target_row = 0 target_plane = 0
    func.return
  }
}

// -----

// expected-error@unknown {{npu: must name a queue that there is, got lod; did you mean load?}}
builtin.module attributes {npu.device = "nmp"} {
  func.func @main() {
    npu.issue "lod" "sync" barrier = 0
    func.return
  }
}

// -----

// expected-error@unknown {{npu: must name a memory that there is, got sram; did you mean dram?}}
builtin.module attributes {npu.device = "nmp"} {
  func.func @main() {
    %x = npu.buffer "sram" 4 {role = "ifm", address = 0 : i64} : !npu.buffer
    npu.issue "load" "fill" target = %x[0] size = 4 rows = 1 planes = 1 target_row = 0 target_plane = 0 value = 0
    func.return
  }
}

// -----

// expected-error@unknown {{npu-order: command 0: must stay within a memory, got bytes 262140 to 262148 of act, which has 262144}}
builtin.module attributes {npu.device = "nmp"} {
  func.func @main() {
    %x = npu.buffer "act" 8 {role = "ifm", address = 262140 : i64} : !npu.buffer
    npu.issue "load" "fill" target = %x[0] size = 8 rows = 1 planes = 1 target_row = 0 target_plane = 0 value = 0
    func.return
  }
}

// -----

// expected-error@unknown {{npu-order: needs one function with commands, got 0; run npu-tile first}}
builtin.module attributes {npu.device = "nmp"} {
}
