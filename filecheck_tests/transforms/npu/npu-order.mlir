// RUN: qmlir-opt --npu-order --split-input-file %s | filecheck %s

// A command waits for what wrote the bytes it reads, and for what still reads or wrote those it writes; not for its own
// queue, and not for what it knows to be done since it waits for a later command that waited for it.

builtin.module attributes {npu.device = "nmp"} {
  func.func @main() {
    %x = npu.buffer "dram" 640 {role = "ifm", tensor = "x", address = 0 : i64} : !npu.buffer
    %y = npu.buffer "dram" 640 {role = "ofm", tensor = "y", address = 640 : i64} : !npu.buffer
    %t = npu.buffer "dram" 8 {role = "bias", contents = #qmlir.weights<tensor<2xi32>, [1073741824, 1]>, address = 1280 : i64} : !npu.buffer
    %a = npu.buffer "act" 64 {role = "ifm", address = 0 : i64} : !npu.buffer
    %b = npu.buffer "act" 64 {role = "ofm", address = 64 : i64} : !npu.buffer
    %s = npu.buffer "acc" 8 {role = "bias", address = 0 : i64} : !npu.buffer
    npu.issue "load" "move" source = %t[0] target = %s[0] size = 8 rows = 1 planes = 1 source_row = 0 source_plane = 0 target_row = 0 target_plane = 0
    npu.issue "post" "set-context" ctx = 1 step = requantize bits = 8 contract = 4 input_zero_point = 0 zero_point = 0 lower = -128 upper = 127 per_channel = 0 table = %s[0]
    npu.issue "load" "move" source = %x[0] target = %a[0] size = 64 rows = 1 planes = 1 source_row = 0 source_plane = 0 target_row = 0 target_plane = 0
    npu.issue "post" "post" ctx = 1 source = %a[0] source_bits = 8 rows = 1 columns = 1 channels = 64 source_row = 64 source_pixel = 64 target = %b[0] target_row = 64 target_pixel = 64
    npu.issue "store" "move" source = %b[0] target = %y[0] size = 64 rows = 1 planes = 1 source_row = 0 source_plane = 0 target_row = 0 target_plane = 0
    npu.issue "load" "move" source = %x[64] target = %a[0] size = 64 rows = 1 planes = 1 source_row = 0 source_plane = 0 target_row = 0 target_plane = 0
    npu.issue "post" "post" ctx = 1 source = %a[0] source_bits = 8 rows = 1 columns = 1 channels = 64 source_row = 64 source_pixel = 64 target = %b[0] target_row = 64 target_pixel = 64
    npu.issue "store" "move" source = %b[0] target = %y[64] size = 64 rows = 1 planes = 1 source_row = 0 source_plane = 0 target_row = 0 target_plane = 0
    npu.issue "exec" "end" status = 0
    func.return
  }
}

// CHECK: npu.issue "load" "move" source = %t[0]{{.*}} target_plane = 0{{$}}
// CHECK-NEXT: npu.issue "post" "set-context" {{.*}} table = %s[0]{{$}}
// CHECK-NEXT: npu.issue "load" "move" source = %x[0] {{.*}} target_plane = 0{{$}}
// CHECK-NEXT: npu.issue "post" "post" {{.*}} after "load" 2{{$}}
// CHECK-NEXT: npu.issue "store" "move" {{.*}} after "post" 2{{$}}
// CHECK-NEXT: npu.issue "load" "move" source = %x[64] {{.*}} after "post" 2{{$}}
// CHECK-NEXT: npu.issue "post" "post" {{.*}} after "load" 3, "store" 1{{$}}
// CHECK-NEXT: npu.issue "store" "move" {{.*}} after "post" 3{{$}}
// CHECK-NEXT: npu.issue "exec" "end" status = 0{{$}}

// -----

// Rows that lie apart meet only where they share a granule; what the host runs waits like any command.

builtin.module attributes {npu.device = "nmp"} {
  func.func @main() {
    %x = npu.buffer "dram" 640 {role = "ifm", tensor = "x", address = 0 : i64} : !npu.buffer
    %y = npu.buffer "dram" 640 {role = "ofm", tensor = "y", address = 640 : i64} : !npu.buffer
    %a = npu.buffer "act" 256 {role = "ifm", address = 0 : i64} : !npu.buffer
    npu.issue "load" "move" source = %x[0] target = %a[0] size = 32 rows = 2 planes = 1 source_row = 32 source_plane = 0 target_row = 128 target_plane = 0
    npu.issue "store" "move" source = %a[32] target = %y[0] size = 96 rows = 1 planes = 1 source_row = 0 source_plane = 0 target_row = 0 target_plane = 0
    npu.issue "store" "move" source = %a[96] target = %y[96] size = 64 rows = 1 planes = 1 source_row = 0 source_plane = 0 target_row = 0 target_plane = 0
    npu.call "exec" @host_0(%x : !npu.buffer) -> (%y : !npu.buffer) {constants = 0 : i64, work = 0 : i64, waits = {}}
    npu.issue "load" "move" source = %y[0] target = %a[0] size = 32 rows = 1 planes = 1 source_row = 0 source_plane = 0 target_row = 0 target_plane = 0
    func.return
  }
  func.func private @host_0(%x: tensor<640xi8>) -> tensor<640xi8> {
    func.return %x : tensor<640xi8>
  }
}

// CHECK: npu.issue "load" "move"
// CHECK-NEXT: npu.issue "store" "move" {{.*}} target_plane = 0{{$}}
// CHECK-NEXT: npu.issue "store" "move" {{.*}} after "load" 1{{$}}
// CHECK-NEXT: npu.call "exec" @host_0({{.*}}) {constants = 0 : i64, work = 0 : i64, waits = {store = 2 : i64}}
// CHECK-NEXT: npu.issue "load" "move" {{.*}} after "exec" 1{{$}}
