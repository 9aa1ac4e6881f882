"""Executables: arrays in and out, many threads, memory, refusals."""

import gc
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp

from qmlir.backends.cpu import build
from qmlir.backends.cpu.jit import Executable
from qmlir.errors import InputError, PipelineError, QmlirError
from qmlir.ir.signature import Signature, TensorSpec

F32 = np.dtype(np.float32)
I8 = np.dtype(np.int8)

# y[i] = x[i] + w[i], by way of the arena, eight times over; y2[i] = b[i]
TEXT = """
define void @main(ptr %weights, ptr %arena, ptr %inputs, ptr %outputs) nounwind {
entry:
  %x = load ptr, ptr %inputs
  %b_slot = getelementptr ptr, ptr %inputs, i64 1
  %b = load ptr, ptr %b_slot
  %y = load ptr, ptr %outputs
  %y2_slot = getelementptr ptr, ptr %outputs, i64 1
  %y2 = load ptr, ptr %y2_slot
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %loop ]
  %xp = getelementptr float, ptr %x, i64 %i
  %xv = load float, ptr %xp
  %ap = getelementptr float, ptr %arena, i64 %i
  store volatile float %xv, ptr %ap
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, 4096
  br i1 %more, label %loop, label %second
second:
  %j = phi i64 [ 0, %loop ], [ %jnext, %second ]
  %wp = getelementptr float, ptr %weights, i64 %j
  %wv = load float, ptr %wp
  %bp = getelementptr float, ptr %arena, i64 %j
  %av = load volatile float, ptr %bp
  %sum = fadd float %av, %wv
  %yp = getelementptr float, ptr %y, i64 %j
  store float %sum, ptr %yp
  %jnext = add i64 %j, 1
  %jmore = icmp slt i64 %jnext, 4096
  br i1 %jmore, label %second, label %done
done:
  %bv = load i8, ptr %b
  store i8 %bv, ptr %y2
  ret void
}
"""
WEIGHTS = np.arange(4096, dtype=np.float32)


def executable() -> Executable:
    return Executable(
        TEXT,
        weights=WEIGHTS,
        arena_size=4096 * 4,
        signature=Signature(
            (TensorSpec("x", (64, 64), F32), TensorSpec("b", (), I8)),
            (TensorSpec("y", (64, 64), F32), TensorSpec("c", (1, 1), I8)),
        ),
    )


EXE = executable()
X = np.random.default_rng(0).standard_normal((64, 64)).astype(np.float32)
B = np.array(7, np.int8)


def test_dicts_for_several() -> None:
    result = EXE({"b": B, "x": X})
    assert list(result) == ["y", "c"]
    assert (result["y"] == X + WEIGHTS.reshape(64, 64)).all()
    assert result["c"].tolist() == [[7]]


def test_arrays_for_one() -> None:
    text = """
define void @net(ptr %w, ptr %a, ptr %inputs, ptr %outputs) {
  %x = load ptr, ptr %inputs
  %y = load ptr, ptr %outputs
  %v = load i64, ptr %x
  store i64 %v, ptr %y
  ret void
}"""
    spec = (TensorSpec("x", (1,), np.dtype(np.int64)),)
    exe = Executable(text, weights=np.empty(0, np.int8), arena_size=0, signature=Signature(spec, spec), entry="net")
    assert exe(np.array([42])).tolist() == [42]
    assert exe({"x": np.array([43])}).tolist() == [43]


def test_scratch_memory_that_there_is_not_is_an_error_with_its_size() -> None:
    spec = (TensorSpec("x", (1,), np.dtype(np.int64)),)
    text = "define void @net(ptr %w, ptr %a, ptr %inputs, ptr %outputs) {\n  ret void\n}"
    signature = Signature(spec, spec)
    exe = Executable(text, weights=np.empty(0, np.int8), arena_size=1 << 47, signature=signature, entry="net")
    with pytest.raises(QmlirError, match="needs 140737488355328 bytes of scratch memory"):
        exe(np.array([42]))


def test_strided_and_misaligned_inputs() -> None:
    expected = EXE({"x": X, "b": B})["y"]
    wide = np.zeros((64, 128), np.float32)
    wide[:, ::2] = X
    assert (EXE({"x": wide[:, ::2], "b": B})["y"] == expected).all()
    assert (EXE({"x": np.asfortranarray(X), "b": B})["y"] == expected).all()
    raw = np.empty(X.nbytes + 1, np.uint8)[1:].view(np.float32).reshape(64, 64)
    raw[:] = X
    assert (EXE({"x": raw, "b": B})["y"] == expected).all()


def test_many_threads() -> None:
    """Every call in flight has an arena of its own, and arenas are used again."""
    exe = executable()
    inputs = [np.full((64, 64), i, np.float32) for i in range(64)]
    with ThreadPoolExecutor(8) as pool:
        for _ in range(5):
            results = list(pool.map(lambda x: exe({"x": x, "b": B})["y"], inputs))
            for x, y in zip(inputs, results, strict=True):
                assert (y == x + WEIGHTS.reshape(64, 64)).all()
    assert 1 <= len(exe._free) <= 8
    assert len({f.arena_address for f in exe._free}) == len(exe._free)
    assert all(f.arena_address % 64 == 0 for f in exe._free)


def test_code_outlives_what_it_was_made_from() -> None:
    """Executables come and go, in other threads as well; the last one still runs."""
    kept = executable()
    for _ in range(3):
        executable()({"x": X, "b": B})
        gc.collect()
    thread = threading.Thread(target=lambda: executable()({"x": X, "b": B}))
    thread.start()
    thread.join()
    gc.collect()
    assert (kept({"x": X, "b": B})["y"] == X + WEIGHTS.reshape(64, 64)).all()


def test_sizes_and_text() -> None:
    assert EXE.sizes.weights == 4096 * 4
    assert EXE.sizes.arena == 4096 * 4
    assert 0 < EXE.sizes.code < len(EXE.object)
    assert EXE.llvm_ir == TEXT
    assert "main:" in EXE.assembly()
    assert EXE.object[:4] == b"\x7fELF" or EXE.object


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        (X, r'input "x, b": must be given by name, got one array; pass a dict of arrays'),
        ({"x": X}, r'input "b": must be given as an array int8\[\], got nothing'),
        ({"x": X, "b": B, "z": B}, r'input "z": must be one of b, x'),
        ({"x": X.reshape(4096), "b": B}, r'input "x": must be float32\[64, 64\], got float32\[4096\]'),
        ({"x": X.astype(np.float64), "b": B}, r'input "x": must be float32\[64, 64\], got float64\[64, 64\]'),
        ({"x": X.tolist(), "b": B}, r'input "x": must be given as an array float32\[64, 64\], got list'),
    ],
)
def test_wrong_inputs(inputs: object, message: str) -> None:
    with pytest.raises(InputError, match=message):
        EXE(inputs)  # pyright: ignore[reportArgumentType]


def test_inputs_of_the_other_byte_order_are_taken_by_their_values() -> None:
    expected, got = EXE({"x": X, "b": B}), EXE({"x": X.astype(X.dtype.newbyteorder()), "b": B})
    assert all((got[name] == expected[name]).all() for name in expected)


def test_build_wants_a_planned_module() -> None:
    with pytest.raises(PipelineError, match="cpu: needs a module whose memory is planned"):
        build(ModuleOp([]), Signature((), ()))


def test_llvm_never_fuses_products_and_sums() -> None:
    text = """
define float @f(float %a, float %b, float %c) {
  %p = fmul float %a, %b
  %s = fadd float %p, %c
  ret float %s
}
define void @main(ptr %w, ptr %a, ptr %i, ptr %o) {
  ret void
}"""
    exe = Executable(text, weights=np.empty(0, np.int8), arena_size=0, signature=Signature((), ()))
    assert "fmadd" not in exe.assembly()
    assert exe({}) == {}
