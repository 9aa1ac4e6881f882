"""vector and simd through the JIT, on portable code and on this machine's own instructions."""

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from kernels import empty, lowered, run_kernel, vectorwise, with_main

from qmlir.backends.cpu.emit import emit_llvm_ir
from qmlir.backends.cpu.llvm import Machine, compile_assembly, host_features
from qmlir.dialects.simd import (
    AddBytesOp,
    AddWordsOp,
    DotI8Op,
    DotI8QuadsOp,
    DotI16I8QuadsOp,
    DotI16PairsOp,
    DotU8I8QuadsOp,
    LookupBytesOp,
    MulAddShiftRoundOp,
    MulShiftRoundOp,
    PermuteBytesOp,
)
from tests.conftest import crossed

Array = npt.NDArray[Any]

RNG = np.random.default_rng(3)


def test_masks_read_and_write_only_what_is_on() -> None:
    """A loop over 37 elements by 16 with a masked tail; what lies behind the array stays as it is."""
    kernel = """
func.func private @f(%x: memref<37xi32>, %y: memref<37xi32>) {
  %c0 = arith.constant 0 : index
  %c16 = arith.constant 16 : index
  %n = arith.constant 37 : index
  %zero = arith.constant dense<0> : vector<16xi32>
  scf.for %i = %c0 to %n step %c16 {
    %left = arith.subi %n, %i : index
    %mask = vector.create_mask %left : vector<16xi1>
    %v = vector.maskedload %x[%i], %mask, %zero : memref<37xi32>, vector<16xi1>, vector<16xi32> into vector<16xi32>
    %w = arith.addi %v, %v : vector<16xi32>
    vector.maskedstore %y[%i], %mask, %w : memref<37xi32>, vector<16xi1>, vector<16xi32>
  }
  func.return
}"""
    x = RNG.integers(-(2**31), 2**31, 37).astype(np.int32)
    for features in ("", host_features()):
        (y,) = run_kernel(kernel, x, out=[x], features=features)
        assert (y == 2 * x).all()


@pytest.mark.parametrize("count", [-(2**40), -1, 0, 1, 5, 8, 9, 2**33])
def test_mask_counts_are_clamped(count: int) -> None:
    kernel = """
func.func private @f(%n: memref<1xi64>, %y: memref<8xi8>) {
  %c0 = arith.constant 0 : index
  %0 = memref.load %n[%c0] : memref<1xi64>
  %1 = arith.index_cast %0 : i64 to index
  %mask = vector.create_mask %1 : vector<8xi1>
  %2 = arith.extui %mask : vector<8xi1> to vector<8xi8>
  vector.store %2, %y[%c0] : memref<8xi8>, vector<8xi8>
  func.return
}"""
    (y,) = run_kernel(kernel, np.array([count]), out=[empty(8, np.int8)])
    assert (y == (np.arange(8) < count)).all()


def test_lanes() -> None:
    """Broadcast, extract and insert at fixed and at computed lanes, shuffles of unequal vectors, bitcast."""
    kernel = """
func.func private @f(%x: memref<4xi32>, %k: memref<1xi64>, %y: memref<6xi32>, %z: memref<16xi8>) {
  %c0 = arith.constant 0 : index
  %v = vector.load %x[%c0] : memref<4xi32>, vector<4xi32>
  %k0 = memref.load %k[%c0] : memref<1xi64>
  %lane = arith.index_cast %k0 : i64 to index
  %a = vector.extract %v[1] : i32 from vector<4xi32>
  %b = vector.extract %v[%lane] : i32 from vector<4xi32>
  %s = vector.broadcast %a : i32 to vector<2xi32>
  %t = vector.insert %b, %s[1] : i32 into vector<2xi32>
  %w = vector.insert %a, %v[%lane] : i32 into vector<4xi32>
  %u = vector.shuffle %t, %w [0, 1, 2, 3, 4, 5] : vector<2xi32>, vector<4xi32>
  vector.store %u, %y[%c0] : memref<6xi32>, vector<6xi32>
  %bytes = vector.bitcast %v : vector<4xi32> to vector<16xi8>
  vector.store %bytes, %z[%c0] : memref<16xi8>, vector<16xi8>
  func.return
}"""
    x = np.array([10, 11, 12, 13], np.int32)
    y, z = run_kernel(kernel, x, np.array([3]), out=[empty(6, np.int32), empty(16, np.int8)])
    assert y.tolist() == [11, 13, 10, 11, 12, 11]
    assert (z == x.view(np.int8)).all()


@pytest.mark.parametrize(
    ("kind", "meaning"),
    [
        ("add", np.add),
        ("mul", np.multiply),
        ("and", np.bitwise_and),
        ("or", np.bitwise_or),
        ("xor", np.bitwise_xor),
        ("minsi", np.minimum),
        ("maxsi", np.maximum),
    ],
)
def test_integer_reductions(kind: str, meaning: Any) -> None:
    kernel = f"""
func.func private @f(%x: memref<13xi32>, %y: memref<2xi32>) {{
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %v = vector.load %x[%c0] : memref<13xi32>, vector<13xi32>
  %a = vector.reduction <{kind}>, %v : vector<13xi32> into i32
  %b = vector.reduction <{kind}>, %v, %a : vector<13xi32> into i32
  memref.store %a, %y[%c0] : memref<2xi32>
  memref.store %b, %y[%c1] : memref<2xi32>
  func.return
}}"""
    x = RNG.integers(-(2**31), 2**31, 13).astype(np.int32)
    (y,) = run_kernel(kernel, x, out=[empty(2, np.int32)])
    once = meaning.reduce(x, dtype=np.int32)
    assert y[0] == once
    assert y[1] == meaning.reduce(np.array([once, once]), dtype=np.int32)


def test_float_reductions_are_sequential() -> None:
    kernel = """
func.func private @f(%x: memref<16xf32>, %y: memref<3xf32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %start = arith.constant 100.0 : f32
  %v = vector.load %x[%c0] : memref<16xf32>, vector<16xf32>
  %a = vector.reduction <add>, %v : vector<16xf32> into f32
  %b = vector.reduction <add>, %v, %start : vector<16xf32> into f32
  %c = vector.reduction <maximumf>, %v : vector<16xf32> into f32
  memref.store %a, %y[%c0] : memref<3xf32>
  memref.store %b, %y[%c1] : memref<3xf32>
  memref.store %c, %y[%c2] : memref<3xf32>
  func.return
}"""
    x = (RNG.standard_normal(16) * 10.0 ** RNG.integers(-4, 5, 16)).astype(np.float32)
    (y,) = run_kernel(kernel, x, out=[empty(3, np.float32)])
    sums = []
    for total in (np.float32(0), np.float32(100)):
        for value in x:
            total = total + value
        sums.append(total)
    assert y.tolist() == [*sums, x.max()]


DOT = "%r = simd.dot_i16_pairs %0, %1, %2 : vector<{n}xi32>, vector<{m}xi16>"


def dot_kernel(lanes: int) -> str:
    return vectorwise(
        DOT.format(n=lanes, m=2 * lanes), [("i32", lanes), ("i16", 2 * lanes), ("i16", 2 * lanes)], ("i32", lanes)
    )


@pytest.mark.parametrize("lanes", [1, 3, 4, 8, 12, 16, 24, 40])
@pytest.mark.parametrize("native", [False, True])
def test_dot_of_pairs(lanes: int, native: bool) -> None:
    acc = RNG.integers(-(2**31), 2**31, lanes).astype(np.int32)
    a, b = RNG.integers(-(2**15), 2**15, (2, 2 * lanes)).astype(np.int16)
    a[:2] = b[:2] = -(2**15)  # the one sum of two products that wraps
    (y,) = run_kernel(dot_kernel(lanes), acc, a, b, out=[acc], features=host_features() if native else "")
    assert (y == DotI16PairsOp.evaluate(acc, a, b)).all()


@pytest.mark.parametrize(
    ("lanes", "features", "calls"),
    [
        (8, "+avx2,+sse2", {"llvm.x86.avx2.pmadd.wd": 1}),
        (12, "+avx2,+sse2", {"llvm.x86.sse2.pmadd.wd": 3}),
        (24, "+avx2,+sse2", {"llvm.x86.avx2.pmadd.wd": 3}),
        (16, "+avx512bw,+avx2", {"llvm.x86.avx512.pmaddw.d.512": 1}),
        (8, "-avx2", {"pmadd": 0}),
        (6, "+avx2,+sse2", {"pmadd": 0}),
    ],
)
def test_instructions_follow_features(lanes: int, features: str, calls: dict[str, int]) -> None:
    text = emit_llvm_ir(lowered(with_main(dot_kernel(lanes), 3), features))
    for name, count in calls.items():
        assert sum(name in line for line in text.splitlines() if "call" in line) == count


def test_dot_becomes_one_instruction() -> None:
    text = emit_llvm_ir(lowered(with_main(dot_kernel(8), 3), "+avx2"))
    if "x86_64" in Machine.host().target_machine().triple:
        assert "vpmaddwd" in compile_assembly(text, Machine("haswell", ""))


@pytest.mark.parametrize(("promise", "most"), [("", -1), ("drops_33", -2)])
@pytest.mark.parametrize("native", [False, True])
def test_requantization_with_an_offset(native: bool, promise: str, most: int) -> None:
    n = 40
    operation = f"%r = simd.mul_shift_round %0, %1, %2, %3 {promise} : vector<{n}xi32>"
    kernel = vectorwise(operation, [("i32", n)] * 4, ("i32", n))
    a = RNG.integers(-(2**31), 2**31, n).astype(np.int32)
    a[:4] = -(2**31), 2**31 - 1, -(2**31), 2**31 - 1
    multiplier = RNG.integers(2**30, 2**31, n).astype(np.int32)
    multiplier[:4] = 2**31 - 1
    shift = RNG.integers(-31, most, n, endpoint=True).astype(np.int32)
    shift[:8] = [-31, -31, -31, -31, most, most, most, most]
    multiplier[4:8], a[4:8] = 2**31 - 1, a[:4]
    bound = np.minimum(2.0 ** (30 + shift), 2.0**30).astype(np.int64)  # offset · 2^(31 − shift) is within 2^61
    offset = RNG.integers(-bound, bound, endpoint=True).astype(np.int32)
    offset[:8] = bound[:8] * [1, 1, -1, -1, 1, 1, -1, -1]
    (y,) = run_kernel(kernel, a, multiplier, shift, offset, out=[a], features=host_features() if native else "")
    numbers = zip(a.tolist(), multiplier.tolist(), shift.tolist(), offset.tolist(), strict=True)
    exact = [((x * q + 2 ** (30 - s)) >> (31 - s)) + o for x, q, s, o in numbers]
    assert y.tolist() == exact
    assert (y == MulShiftRoundOp.evaluate(a, multiplier, shift, offset)).all()


@pytest.mark.parametrize(("promise", "most"), [("", -1), ("drops_33", -2)])
@pytest.mark.parametrize("native", [False, True])
def test_requantization(native: bool, promise: str, most: int) -> None:
    n = 40
    operation = f"%r = simd.mul_shift_round %0, %1, %2 {promise} : vector<{n}xi32>"
    kernel = vectorwise(operation, [("i32", n)] * 3, ("i32", n))
    a = RNG.integers(-(2**31), 2**31, n).astype(np.int32)
    a[:4] = -(2**31), 2**31 - 1, -(2**31), 2**31 - 1
    multiplier = RNG.integers(2**30, 2**31, n).astype(np.int32)
    shift = RNG.integers(-31, most, n, endpoint=True).astype(np.int32)
    shift[:4] = -31, -31, most, most
    (y,) = run_kernel(kernel, a, multiplier, shift, out=[a], features=host_features() if native else "")
    exact = [
        (int(x) * int(q) + 2 ** (30 - int(s))) >> (31 - int(s)) for x, q, s in zip(a, multiplier, shift, strict=True)
    ]
    assert (y == np.array(exact).astype(np.int32)).all()
    assert (y == MulShiftRoundOp.evaluate(a, multiplier, shift)).all()


@pytest.mark.parametrize("native", [False, True])
def test_rescaled_sums(native: bool) -> None:
    n = 40
    operation = f"%r = simd.mul_add_shift_round %0, %1, %2, %3, %4 : vector<{n}xi32>"
    kernel = vectorwise(operation, [("i32", n)] * 5, ("i32", n))
    a, p, b, q = (RNG.integers(-(2**31), 2**31, n).astype(np.int32) // 2 for _ in range(4))
    a[:2], b[:2] = [-(2**30), 2**30 - 1], [-(2**30), -(2**30)]
    shift = RNG.integers(32, 63, n).astype(np.int32)
    shift[:2] = 32, 62
    (y,) = run_kernel(kernel, a, p, b, q, shift, out=[a], features=host_features() if native else "")
    numbers = zip(*(x.tolist() for x in (a, p, b, q, shift)), strict=True)
    exact = [(i * j + k * m + 2 ** (s - 1)) >> s for i, j, k, m, s in numbers]
    assert y.tolist() == exact
    assert MulAddShiftRoundOp.evaluate(a, p, b, q, shift).tolist() == exact


@crossed({"features": ["", "+sse2", "+avx2,+sse2", "host"], "lanes": [1, 8, 16, 32, 48, 64, 128]}, turns=2)
def test_sums_of_bytes(lanes: int, features: str) -> None:
    """Other factors in each lane; sums of both signs, of which some saturate."""
    given = host_features() if features == "host" else features
    if "avx2" in features and "avx2" not in host_features():
        pytest.skip("this processor lacks avx2")
    operation = f"%r = simd.add_bytes %0, %1, %2, %3, %4, %5, %6 : vector<{lanes}xi8>, vector<{lanes}xi32>"
    kernel = vectorwise(operation, [("i8", lanes)] * 2 + [("i32", lanes)] * 5, ("i8", lanes))
    a, b = (RNG.integers(-128, 128, lanes).astype(np.int8) for _ in range(2))
    a[::5], b[::7] = -1, -128
    high, low = (RNG.integers(-(2**15), 2**15, 2 * lanes).astype(np.int16).view(np.int32) for _ in range(2))
    k_h, k_l = RNG.integers(-(2**23), 2**23, lanes).astype(np.int32), RNG.integers(0, 2**16, lanes).astype(np.int32)
    shift = RNG.integers(10, 20, lanes).astype(np.int32)
    shift[:1] = 31
    (y,) = run_kernel(kernel, a, b, high, low, k_h, k_l, shift, out=[a], features=given)
    assert (y == AddBytesOp.evaluate(a, b, high, low, k_h, k_l, shift)).all()
    assert lanes < 32 or ((-128 < y).any() and (y == 127).any() and (y == -128).any())


@crossed({"features": ["", "+sse2", "+avx2,+sse2", "host"], "lanes": [1, 8, 16, 24, 32, 64]}, turns=2)
def test_sums_of_words(lanes: int, features: str) -> None:
    """Other factors in each lane; sums of both signs, of which some saturate."""
    given = host_features() if features == "host" else features
    if "avx2" in features and "avx2" not in host_features():
        pytest.skip("this processor lacks avx2")
    operation = f"%r = simd.add_words %0, %1, %2, %3, %4, %5, %6 : vector<{lanes}xi16>, vector<{lanes}xi32>"
    kernel = vectorwise(operation, [("i16", lanes)] * 2 + [("i32", lanes)] * 5, ("i16", lanes))
    a, b = (RNG.integers(-(2**15), 2**15, lanes).astype(np.int16) for _ in range(2))
    a[::5], b[::7] = -1, -(2**15)
    high, low = (RNG.integers(-(2**14), 2**14, 2 * lanes).astype(np.int16).view(np.int32) for _ in range(2))
    k_h, k_l = RNG.integers(-(2**23), 2**23, lanes).astype(np.int32), RNG.integers(0, 2**16, lanes).astype(np.int32)
    shift = RNG.integers(10, 18, lanes).astype(np.int32)
    shift[:1] = 31
    (y,) = run_kernel(kernel, a, b, high, low, k_h, k_l, shift, out=[a], features=given)
    assert (y == AddWordsOp.evaluate(a, b, high, low, k_h, k_l, shift)).all()
    assert lanes < 32 or ((abs(y) < 2**15 - 1).any() and (y == 2**15 - 1).any() and (y == -(2**15)).any())


def weights_whose_pairs_fit(count: int) -> Array:
    """Pairs of i8 with positive sums up to 128 and negative sums down to −128, the extremes among them."""
    first = RNG.integers(-128, 128, count // 2)
    first[:4] = -128, 127, 64, -64
    low, high = -128 - np.minimum(first, 0), np.minimum(128 - np.maximum(first, 0), 127)
    second = np.where(RNG.random(count // 2) < 0.5, low, high)
    return np.stack([first, second], 1).reshape(-1).astype(np.int8)


@crossed({"fit": [False, True], "native": [False, True], "lanes": [1, 3, 4, 8, 12, 16, 24]}, turns=2)
def test_dot_of_quads(lanes: int, native: bool, fit: bool) -> None:
    promise = "pairs_fit " if fit else ""
    operation = f"%r = simd.dot_u8_i8_quads %0, %1, %2 {promise}: vector<{lanes}xi32>, vector<{4 * lanes}xi8>"
    kernel = vectorwise(operation, [("i32", lanes), ("i8", 4 * lanes), ("i8", 4 * lanes)], ("i32", lanes))
    acc = RNG.integers(-(2**31), 2**31, lanes).astype(np.int32)
    a = RNG.integers(-128, 128, 4 * lanes).astype(np.int8)
    a[: 2 * lanes] = -1  # 255 as an unsigned byte
    b = weights_whose_pairs_fit(max(4 * lanes, 8))[: 4 * lanes]
    if not fit:
        b[:4] = 127, 127, -128, -128
    (y,) = run_kernel(kernel, acc, a, b, out=[acc], features=host_features() if native else "")
    assert (y == DotU8I8QuadsOp.evaluate(acc, a, b)).all()


@pytest.mark.parametrize("lanes", [1, 3, 4, 16])
@pytest.mark.parametrize("native", [False, True])
def test_dot_of_signed_quads(lanes: int, native: bool) -> None:
    operation = f"%r = simd.dot_i8_quads %0, %1, %2 : vector<{lanes}xi32>, vector<{4 * lanes}xi8>"
    kernel = vectorwise(operation, [("i32", lanes), ("i8", 4 * lanes), ("i8", 4 * lanes)], ("i32", lanes))
    acc = RNG.integers(-(2**31), 2**31, lanes).astype(np.int32)
    a, b = RNG.integers(-128, 128, (2, 4 * lanes)).astype(np.int8)
    a[:4] = b[:4] = -128
    (y,) = run_kernel(kernel, acc, a, b, out=[acc], features=host_features() if native else "")
    assert (y == DotI8QuadsOp.evaluate(acc, a, b)).all()


@pytest.mark.parametrize("lanes", [1, 3, 4, 16])
@pytest.mark.parametrize("native", [False, True])
def test_dot_of_wide_quads(lanes: int, native: bool) -> None:
    types = f"vector<{lanes}xi32>, vector<{4 * lanes}xi16>, vector<{4 * lanes}xi8>"
    operation = f"%r = simd.dot_i16_i8_quads %0, %1, %2 : {types}"
    kernel = vectorwise(operation, [("i32", lanes), ("i16", 4 * lanes), ("i8", 4 * lanes)], ("i32", lanes))
    acc = RNG.integers(-(2**31), 2**31, lanes).astype(np.int32)
    a = RNG.integers(-(2**15), 2**15, 4 * lanes).astype(np.int16)
    b = RNG.integers(-128, 128, 4 * lanes).astype(np.int8)
    (y,) = run_kernel(kernel, acc, a, b, out=[acc], features=host_features() if native else "")
    assert (y == DotI16I8QuadsOp.evaluate(acc, a, b)).all()


@pytest.mark.parametrize("lanes", [1, 3, 8, 16])
@pytest.mark.parametrize("native", [False, True])
def test_dot_of_bytes(lanes: int, native: bool) -> None:
    operation = f"""%acc = vector.extract %0[0] : i32 from vector<1xi32>
  %sum = simd.dot_i8 %acc, %1, %2 : vector<{lanes}xi8>
  %r = vector.broadcast %sum : i32 to vector<1xi32>"""
    kernel = vectorwise(operation, [("i32", 1), ("i8", lanes), ("i8", lanes)], ("i32", 1))
    acc = np.array([2**31 - 5], np.int32)
    a, b = RNG.integers(-128, 128, (2, lanes)).astype(np.int8)
    a[:2] = b[:2] = -128
    (y,) = run_kernel(kernel, acc, a, b, out=[acc], features=host_features() if native else "")
    assert (y == DotI8Op.evaluate(acc, a, b)).all()


@crossed(
    {
        "features": ["", "+ssse3,+sse2", "+avx2", "+avx512bw", "host"],
        "entries": [16, 32, 64, 128, 256],
        "lanes": [16, 32, 48, 64],
    }
)
def test_bytes_of_a_table(lanes: int, entries: int, features: str) -> None:
    """Every place, forwards, backwards and at random."""
    given = host_features() if features == "host" else features
    operation = f"%r = simd.lookup_bytes %0, %1 : vector<{entries}xi8>, vector<{lanes}xi8>"
    kernel = vectorwise(operation, [("i8", entries), ("i8", lanes)], ("i8", lanes))
    table = RNG.integers(-128, 128, entries).astype(np.int8)
    for first in range(0, entries, lanes):
        places = (np.arange(first, first + lanes) % entries).astype(np.uint8).view(np.int8)
        for x in (places, places[::-1].copy(), RNG.permutation(places)):
            (y,) = run_kernel(kernel, table, x, out=[x], features=given)
            assert (y == LookupBytesOp.evaluate(table, x)).all()


@pytest.mark.parametrize("lanes", [8, 16, 32, 48])
@pytest.mark.parametrize("native", [False, True])
def test_permuted_bytes(lanes: int, native: bool) -> None:
    operation = f"%r = simd.permute_bytes %0, %1 : vector<{lanes}xi8>"
    kernel = vectorwise(operation, [("i8", lanes)] * 2, ("i8", lanes))
    x, places = RNG.integers(-128, 128, lanes).astype(np.int8), RNG.integers(0, min(lanes, 16), lanes).astype(np.int8)
    (y,) = run_kernel(kernel, x, places, out=[x], features=host_features() if native else "")
    assert (y == PermuteBytesOp.evaluate(x, places)).all()


@pytest.mark.parametrize("lanes", [4, 8, 16])
def test_quads_become_vpdpbusd(lanes: int) -> None:
    """With VNNI each register of sums takes one instruction; LLVM assembles it, whatever this processor has."""
    operation = f"%r = simd.dot_u8_i8_quads %0, %1, %2 : vector<{lanes}xi32>, vector<{4 * lanes}xi8>"
    kernel = vectorwise(operation, [("i32", lanes), ("i8", 4 * lanes), ("i8", 4 * lanes)], ("i32", lanes))
    module = lowered(with_main(kernel, 3), "+avx512vnni,+avx512vl,+avx512bw,+avx512f,+avx2")
    assembly = compile_assembly(emit_llvm_ir(module), Machine.of("icelake-server"))
    assert assembly.count("vpdpbusd") == 1
