// RUN: qmlir-opt --loops-to-llvm="features=+thumb2,+dsp index-bitwidth=32" %s | filecheck --check-prefix=DSP %s
// RUN: qmlir-opt --loops-to-llvm="features=+m,+c index-bitwidth=32" %s | filecheck --check-prefix=RISCV %s
// RUN: qmlir-opt --loops-to-llvm="features=+simd128 index-bitwidth=32" %s | filecheck --check-prefix=WASM %s

// Processors whose registers are words: Arm's profile M multiplies the halves of words, and others single bytes.
func.func private @pairs(%acc: vector<2xi32>, %a: vector<4xi16>, %b: vector<4xi16>) -> vector<2xi32> {
  %0 = simd.dot_i16_pairs %acc, %a, %b : vector<2xi32>, vector<4xi16>
  func.return %0 : vector<2xi32>
}

// DSP-LABEL: @pairs
// DSP: %[[A:.*]] = llvm.bitcast %{{.*}} : vector<2xi16> to i32
// DSP: %[[B:.*]] = llvm.bitcast %{{.*}} : vector<2xi16> to i32
// DSP: llvm.call_intrinsic "llvm.arm.smlad"(%[[A]], %[[B]], %{{.*}})
// DSP: llvm.call_intrinsic "llvm.arm.smlad"
// DSP-NOT: smlad
// DSP: llvm.return
// RISCV-LABEL: @pairs
// RISCV-COUNT-2: llvm.mul %{{.*}} : vector<2xi32>
// RISCV-NOT: llvm.mul
// RISCV: llvm.return

func.func private @quads(%acc: vector<1xi32>, %a: vector<4xi8>, %b: vector<4xi8>) -> vector<1xi32> {
  %0 = simd.dot_i8_quads %acc, %a, %b : vector<1xi32>, vector<4xi8>
  func.return %0 : vector<1xi32>
}

// DSP-LABEL: @quads
// DSP: %[[EVEN_A:.*]] = llvm.call_intrinsic "llvm.arm.sxtb16"
// DSP: %[[EVEN_B:.*]] = llvm.call_intrinsic "llvm.arm.sxtb16"
// DSP: %[[EVEN:.*]] = llvm.call_intrinsic "llvm.arm.smlad"(%[[EVEN_A]], %[[EVEN_B]], %{{.*}})
// DSP-COUNT-2: llvm.call_intrinsic "llvm.fshr.i32"
// DSP-COUNT-2: llvm.call_intrinsic "llvm.arm.sxtb16"
// DSP: llvm.call_intrinsic "llvm.arm.smlad"(%{{.*}}, %{{.*}}, %[[EVEN]])
// DSP: llvm.return
// RISCV-LABEL: @quads
// RISCV-COUNT-4: llvm.mul %{{.*}} : vector<1xi32>
// RISCV: llvm.return

// Data that are i16 already: only the word of weights is extended, its even bytes and its odd ones.
func.func private @wide_quads(%acc: vector<1xi32>, %a: vector<4xi16>, %b: vector<4xi8>) -> vector<1xi32> {
  %0 = simd.dot_i16_i8_quads %acc, %a, %b : vector<1xi32>, vector<4xi16>, vector<4xi8>
  func.return %0 : vector<1xi32>
}

// DSP-LABEL: @wide_quads
// DSP: %[[FIRST:.*]] = llvm.bitcast %{{.*}} : vector<2xi16> to i32
// DSP: %[[EVEN:.*]] = llvm.call_intrinsic "llvm.arm.sxtb16"
// DSP: %[[SUM:.*]] = llvm.call_intrinsic "llvm.arm.smlad"(%[[FIRST]], %[[EVEN]], %{{.*}})
// DSP: %[[SECOND:.*]] = llvm.bitcast %{{.*}} : vector<2xi16> to i32
// DSP: llvm.call_intrinsic "llvm.fshr.i32"
// DSP: %[[ODD:.*]] = llvm.call_intrinsic "llvm.arm.sxtb16"
// DSP: llvm.call_intrinsic "llvm.arm.smlad"(%[[SECOND]], %[[ODD]], %[[SUM]])
// DSP: llvm.return
// RISCV-LABEL: @wide_quads
// RISCV-COUNT-4: llvm.mul %{{.*}} : vector<1xi32>
// RISCV: llvm.return

func.func private @eight_pairs(%acc: vector<4xi32>, %a: vector<8xi16>, %b: vector<8xi16>) -> vector<4xi32> {
  %0 = simd.dot_i16_pairs %acc, %a, %b : vector<4xi32>, vector<8xi16>
  func.return %0 : vector<4xi32>
}

// WASM-LABEL: @eight_pairs
// WASM: llvm.call_intrinsic "llvm.wasm.dot"
// WASM: llvm.return

// The high words of products are shifted, rounded before; where only a word is dropped, its highest bit rounds.
func.func private @rescaled(%a: vector<2xi32>, %m: vector<2xi32>, %s: vector<2xi32>) -> vector<2xi32> {
  %0 = simd.mul_shift_round %a, %m, %s : vector<2xi32>
  func.return %0 : vector<2xi32>
}

// DSP-LABEL: @rescaled
// DSP: %[[P:.*]] = llvm.mul %{{.*}} : vector<2xi64>
// DSP: llvm.ashr %[[P]], %{{.*}} : vector<2xi64>
// DSP: llvm.select
// DSP: llvm.ashr %{{.*}} : vector<2xi32>
// DSP: llvm.return

func.func private @by_33(%a: vector<2xi32>, %m: vector<2xi32>, %s: vector<2xi32>) -> vector<2xi32> {
  %0 = simd.mul_shift_round %a, %m, %s drops_33 : vector<2xi32>
  func.return %0 : vector<2xi32>
}

// DSP-LABEL: @by_33
// DSP-NOT: llvm.select
// DSP: llvm.return
