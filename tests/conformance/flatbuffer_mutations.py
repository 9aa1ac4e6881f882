"""TFLite files that are wrong, each made of a good one by a number: in its bytes, its words, or in what it says.

The mutations of bytes are those of `mutations.py`. A word is four bytes: an offset, a length, an index or a number.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from tests.conformance.mutations import BYTES, Mutant
from tests.frontends.tflite.cases import CASES
from tests.frontends.tflite.files import Op, T, model
from tests.frontends.tflite.integer_cells import Form
from tests.frontends.tflite.integer_cells import lstm as integer_lstm
from tests.frontends.tflite.networks import CONTRACTIONS, contraction, mixed
from tests.frontends.tflite.streaming import keywords
from tests.frontends.tflite.test_recurrent import lstm, rnn
from tests.frontends.tflite.test_streaming import svdf
from tests.frontends.tflite.test_subgraphs import branches, loop, two

Random = np.random.Generator
Parts = tuple[list[T], list[Op], list[int], list[int]]

ABSURD = (-(1 << 31), -(1 << 20), -7, -2, -1, 0, 1, 2, 7, 100, 1 << 16, 1 << 20, (1 << 31) - 1)
SCALES = (0.0, -1.0, float("nan"), float("inf"), 1e-45, 1e38, 0.5)
TYPES = (*range(-1, 22), 99)


def base_files() -> list[bytes]:
    """Good files: of operators and contractions in several formats, of several subgraphs, of sequences, with notes."""
    alone = [case.build(format) for case in CASES for format in case.formats]
    weighted = [contraction(kind, f) for kind in CONTRACTIONS for f in ("float32", "int8", "uint8", "int16")]
    called = [branches(True), branches(None), loop(1), two(), lstm(), rnn(), keywords(), svdf(quantized=False)]
    called += [integer_lstm(Form(peepholes=True, outputs=3, cell_clip=0.7)), integer_lstm(Form(coupled=True))]
    noted = [model(*case.parts("float32"), metadata={"qmlir.layout": b"NHWC", "other": b"\0" * 16})
             for case in CASES[:5] if "float32" in case.formats]  # fmt: skip
    return alone + 5 * noted + 5 * weighted + 5 * called + 5 * [mixed("int8"), mixed("uint8")]


def flatbuffer_mutant(number: int, bases: Sequence[bytes]) -> Mutant:
    """The mutant of a number."""
    random = np.random.default_rng(number)
    data = bases[int(random.integers(len(bases)))]
    match int(random.integers(3)):
        case 0:
            change = BYTES[int(random.integers(len(BYTES)))]
            return Mutant(change(data, random, bases), change.__name__)
        case 1:
            return Mutant(_other_words(data, random), "other words")
        case _:
            case = CASES[int(random.integers(len(CASES)))]
            parts = case.parts(case.formats[int(random.integers(len(case.formats)))])
            chosen = [STRUCTURE[int(random.integers(len(STRUCTURE)))] for _ in range(int(random.integers(1, 3)))]
            for change in chosen:
                parts = change(parts, random)
            return Mutant(model(*parts), f"{case.name}: {', '.join(c.__name__ for c in chosen)}")


def _other_words(data: bytes, random: Random) -> bytes:
    changed = bytearray(data)
    for _ in range(int(random.integers(1, 4))):
        at = 4 * int(random.integers(2, len(data) // 4))
        changed[at : at + 4] = int(_pick(random, ABSURD)).to_bytes(4, "little", signed=True)
    return bytes(changed)


def _pick(random: Random, items: Sequence[Any]) -> Any:
    return items[int(random.integers(len(items)))]


def _with_tensor(parts: Parts, random: Random, change: Callable[[T], T]) -> Parts:
    tensors, at = list(parts[0]), int(random.integers(len(parts[0])))
    tensors[at] = change(tensors[at])
    return tensors, *parts[1:]


def other_shape(parts: Parts, random: Random) -> Parts:
    def change(t: T) -> T:
        shape = list(t.shape)
        if shape and random.random() < 0.7:
            shape[int(random.integers(len(shape)))] = int(_pick(random, ABSURD))
        else:
            shape.append(int(random.integers(0, 4)))
        return replace(t, shape=shape)

    return _with_tensor(parts, random, change)


def other_type(parts: Parts, random: Random) -> Parts:
    return _with_tensor(parts, random, lambda t: replace(t, dtype=int(random.integers(0, 20))))


def other_parameters(parts: Parts, random: Random) -> Parts:
    def change(t: T) -> T:
        count = int(random.integers(1, 6))
        scales = [float(_pick(random, SCALES)) for _ in range(count)]
        zeros = [int(random.integers(-300, 300)) for _ in range(int(random.integers(1, 6)))]
        return replace(t, scale=scales, zero=zeros, axis=int(random.integers(-2, 6)))

    return _with_tensor(parts, random, change)


def other_buffer(parts: Parts, random: Random) -> Parts:
    return _with_tensor(parts, random, lambda t: replace(t, buffer=int(_pick(random, (0, 1, 2, 5, 1 << 31)))))


def other_data(parts: Parts, random: Random) -> Parts:
    """Constants of absurd integers, or an input that becomes one."""

    def change(t: T) -> T:
        if isinstance(t.dtype, int):
            return t
        kind = np.dtype(t.dtype)
        values = random.choice(ABSURD, size=tuple(max(0, min(d, 50)) for d in t.shape))
        return replace(t, data=values.astype(kind))

    return _with_tensor(parts, random, change)


def other_indices(parts: Parts, random: Random) -> Parts:
    tensors, (op, *others), inputs, outputs = parts
    lists = [list(op.inputs), list(op.outputs), list(inputs), list(outputs)]
    chosen = lists[int(random.integers(4))]
    if chosen and random.random() < 0.7:
        chosen[int(random.integers(len(chosen)))] = int(random.integers(-2, len(tensors) + 2))
    elif chosen and random.random() < 0.5:
        chosen.pop()
    else:
        chosen.append(int(random.integers(len(tensors))))
    return tensors, [replace(op, inputs=lists[0], outputs=lists[1]), *others], lists[2], lists[3]


def other_operator(parts: Parts, random: Random) -> Parts:
    tensors, (op, *others), inputs, outputs = parts
    kind = CASES[int(random.integers(len(CASES)))].kind
    return tensors, [replace(op, kind=kind), *others], inputs, outputs


def other_options(parts: Parts, random: Random) -> Parts:
    tensors, (op, *others), inputs, outputs = parts
    if isinstance(op.options, bytes):
        return parts
    options = dict(op.options)
    for name, value in options.items():
        if type(value) is int and random.random() < 0.5:
            options[name] = int(random.integers(-128, 128)) if random.random() < 0.7 else 100
    return tensors, [_fitting(op, options), *others], inputs, outputs


BYTE_OPTIONS = ("Padding", "FusedActivationFunction", "Mode", "OutputType")


def _fitting(op: Op, options: dict[str, object]) -> Op:
    return replace(op, options={k: abs(v) % 7 if k in BYTE_OPTIONS and isinstance(v, int) else v
                                for k, v in options.items()})  # fmt: skip


STRUCTURE = (
    other_shape, other_shape, other_type, other_parameters, other_buffer, other_data, other_data, other_indices,
    other_indices, other_operator, other_options,
)  # fmt: skip
