// RUN: qmlir-opt --npu-order %s | filecheck %s

// gemmini: addresses of its own memories are compared by the hardware, so that nothing waits for them. What is read
// back from dram waits for the store that wrote it, once: what comes later on the same queue knows it.

builtin.module attributes {npu.device = "gemmini"} {
  func.func @main() {
    %x = npu.buffer "dram" 640 {role = "ifm", tensor = "x", address = 0 : i64} : !npu.buffer
    %y = npu.buffer "dram" 640 {role = "ofm", tensor = "y", address = 640 : i64} : !npu.buffer
    %t = npu.buffer "dram" 8 {role = "bias", contents = #qmlir.weights<tensor<2xi32>, [1073741824, 1]>, address = 1280 : i64} : !npu.buffer
    %a = npu.buffer "spad" 64 {role = "ifm", address = 0 : i64} : !npu.buffer
    %b = npu.buffer "spad" 64 {role = "ofm", address = 64 : i64} : !npu.buffer
    %s = npu.buffer "acc" 8 {role = "bias", address = 0 : i64} : !npu.buffer
    npu.issue "load" "move" source = %t[0] target = %s[0] size = 8 rows = 1 planes = 1 source_row = 0 source_plane = 0 target_row = 0 target_plane = 0
    npu.issue "store" "set-context" ctx = 1 step = requantize bits = 8 contract = 3 input_zero_point = 0 zero_point = 0 lower = -128 upper = 127 per_channel = 0 table = %s[0]
    npu.issue "load" "move" source = %x[0] target = %a[0] size = 64 rows = 1 planes = 1 source_row = 0 source_plane = 0 target_row = 0 target_plane = 0
    npu.issue "store" "post" ctx = 1 source = %a[0] source_bits = 8 rows = 1 columns = 1 channels = 64 source_row = 64 source_pixel = 64 target = %b[0] target_row = 64 target_pixel = 64
    npu.issue "store" "move" source = %b[0] target = %y[0] size = 64 rows = 1 planes = 1 source_row = 0 source_plane = 0 target_row = 0 target_plane = 0
    npu.issue "load" "move" source = %y[0] target = %a[0] size = 64 rows = 1 planes = 1 source_row = 0 source_plane = 0 target_row = 0 target_plane = 0
    npu.issue "load" "move" source = %y[0] target = %b[0] size = 32 rows = 1 planes = 1 source_row = 0 source_plane = 0 target_row = 0 target_plane = 0
    npu.issue "exec" "end" status = 0
    func.return
  }
}

// CHECK: npu.issue "load" "move" source = %t[0]{{.*}} target_plane = 0{{$}}
// CHECK-NEXT: npu.issue "store" "set-context" {{.*}} table = %s[0]{{$}}
// CHECK-NEXT: npu.issue "load" "move" source = %x[0] {{.*}} target_plane = 0{{$}}
// CHECK-NEXT: npu.issue "store" "post" {{.*}} target_pixel = 64{{$}}
// CHECK-NEXT: npu.issue "store" "move" {{.*}} target_plane = 0{{$}}
// CHECK-NEXT: npu.issue "load" "move" source = %y[0] target = %a[0] {{.*}} after "store" 3{{$}}
// CHECK-NEXT: npu.issue "load" "move" source = %y[0] target = %b[0] {{.*}} target_plane = 0{{$}}
// CHECK-NEXT: npu.issue "exec" "end" status = 0{{$}}
