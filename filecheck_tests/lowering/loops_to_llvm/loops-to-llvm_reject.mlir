// RUN: not qmlir-opt --loops-to-llvm %s 2>&1 | filecheck %s

func.func private @f(%x: f32) -> f32 {
  %y = math.exp %x : f32
  func.return %y : f32
}

// CHECK: math.exp "f": has no lowering to LLVM; express it in simpler operations before this pass
