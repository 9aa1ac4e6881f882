"""How TFLite's operators on truth values, counts and places are drawn, and those that make them of a shape."""

from typing import Any

import numpy as np

from tests.frontends.tflite.files import CODES
from tests.fuzz.tflite_drawing import Drawing, Refused
from tests.fuzz.tflite_operators import ACT, draws, only_floats

COMPARISONS = ("EQUAL", "NOT_EQUAL", "LESS", "LESS_EQUAL", "GREATER", "GREATER_EQUAL")


def _compared(d: Drawing, x: int) -> tuple[int, int]:
    """Truth values of the shape of a tensor, and another tensor of its type and shape."""
    other = d.add("REVERSE_V2", [x, d.integers([d.integer(0, len(d.shape(x)) - 1)])], same=True)[0]
    return d.counted(d.choice(COMPARISONS), [x, other], [np.bool_])[0], other


@draws(*COMPARISONS)
def _comparison(d: Drawing, kind: str) -> None:
    x = d.pick()
    _, other = _compared(d, x)
    d.brought_back(d.counted(kind, [x, other], [np.bool_])[0])


@draws("SELECT", "SELECT_V2")
def _select(d: Drawing, kind: str) -> None:
    x = d.pick()
    truth, other = _compared(d, x)
    d.add(kind, [truth, x, other], ("SelectOptions" if kind == "SELECT" else "SelectV2Options", {}), same=True)


@draws("LOGICAL_AND", "LOGICAL_OR", "LOGICAL_NOT", "REDUCE_ALL", "REDUCE_ANY")
def _logic(d: Drawing, kind: str) -> None:
    x = d.pick()
    truth, _ = _compared(d, x)
    if kind.startswith("REDUCE"):
        axes, options = d.integers([d.integer(0, len(d.shape(x)) - 1)]), ("ReducerOptions", {"KeepDims": d.chance(0.5)})
        d.brought_back(d.counted(kind, [truth, axes], [np.bool_], options)[0])
        return
    others = [] if kind == "LOGICAL_NOT" else [_compared(d, x)[0]]
    d.brought_back(d.counted(kind, [truth, *others], [np.bool_])[0])


@draws("ARG_MAX", "ARG_MIN")
def _place(d: Drawing, kind: str) -> None:
    x = d.pick()
    wide = d.choice([np.int32, np.int64])
    name = "ArgMaxOptions" if kind == "ARG_MAX" else "ArgMinOptions"
    axis = d.integers(d.integer(0, len(d.shape(x)) - 1))
    d.brought_back(d.counted(kind, [x, axis], [wide], (name, {"OutputType": CODES[np.dtype(wide).name]}))[0])


@draws("TOPK_V2")
def _largest(d: Drawing, kind: str) -> None:
    x = d.pick()
    _, places = d.counted(kind, [x, d.integers(d.integer(1, d.shape(x)[-1]))], [None, np.int32], ("TopKV2Options", {}))
    d.brought_back(places)


@draws("ONE_HOT")
def _one_hot(d: Drawing, kind: str) -> None:
    only_floats(d)
    x = d.pick(1, 3)
    places = d.counted("ARG_MAX", [x, d.integers(-1)], [np.int32], ("ArgMaxOptions", {"OutputType": CODES["int32"]}))[0]
    depth, on, off = d.integers(d.shape(x)[-1]), d.real(np.array(2.5)), d.real(np.array(-1.0))
    d.add(kind, [places, depth, on, off], ("OneHotOptions", {"Axis": d.choice([-1, 0])}))


def _whole(d: Drawing, x: int) -> int:
    """The integer parts of three times a tensor of floats."""
    only_floats(d)
    tripled = d.add("MUL", [x, d.real(np.array([3.0]))], ("MulOptions", {ACT: 0}))[0]
    return _cast(d, tripled, np.int32)


def _cast(d: Drawing, x: int, dtype: Any) -> int:
    codes = {"InDataType": CODES[np.dtype(d.tensors[x].dtype).name], "OutDataType": CODES[np.dtype(dtype).name]}
    return d.counted("CAST", [x], [dtype], ("CastOptions", codes))[0]


@draws("CAST")
def _casts(d: Drawing, kind: str) -> None:
    x = d.pick()
    if d.format != "float32" or not max(abs(a).max(initial=0) for a in d.reals[x]) < 1e6:
        raise Refused("a cast of floats beyond an integer's range is undefined")
    d.brought_back(_cast(d, x, d.choice([np.int32, np.int64, np.bool_])))


@draws("RIGHT_SHIFT", "BITWISE_XOR")
def _bits(d: Drawing, kind: str) -> None:
    x = _whole(d, d.pick())
    shape = d.counts[x][0].shape
    low, high = (0, 4) if kind == "RIGHT_SHIFT" else (-9, 9)
    d.brought_back(d.counted(kind, [x, d.integers(d.rng.integers(low, high, shape))], [np.int32])[0])


@draws("BITCAST")
def _bit_cast(d: Drawing, kind: str) -> None:
    only_floats(d)
    x = d.pick()
    bits = d.counted(kind, [x], [np.int32], ("BitcastOptions", {}))[0]
    changed = d.counted("BITWISE_XOR", [bits, d.integers(np.full(d.shape(x), 1 << 20))], [np.int32])[0]
    d.brought_back(d.counted(kind, [changed], [np.float32], ("BitcastOptions", {}))[0])


@draws("BUCKETIZE")
def _buckets(d: Drawing, kind: str) -> None:
    only_floats(d)
    options = ("BucketizeOptions", {"Boundaries": [-0.5, 0.25, 1.0]})
    d.brought_back(d.counted(kind, [d.pick()], [np.int32], options)[0])


# -- what is known when the file is read ---------------------------------------------------------------------------


@draws("SHAPE", "BROADCAST_ARGS")
def _shape(d: Drawing, kind: str) -> None:
    x = d.pick(1, 3)
    shape = d.counted("SHAPE", [x], [np.int32], ("ShapeOptions", {"OutType": CODES["int32"]}))[0]
    if kind == "BROADCAST_ARGS":
        shape = d.counted(kind, [shape, d.integers([2, *(1 for _ in d.shape(x))])], [np.int32])[0]
    d.add("BROADCAST_TO", [x, shape], ("BroadcastToOptions", {}), same=True, version=2)


@draws("RANK")
def _rank(d: Drawing, kind: str) -> None:
    x = d.pick(2)
    rank = d.counted(kind, [x], [np.int32], ("RankOptions", {}))[0]
    last = d.counted("SUB", [rank, d.integers(1)], [np.int32], ("SubOptions", {ACT: 0}))[0]
    d.add(
        "EXPAND_DIMS",
        [d.add("REDUCE_MAX", [x, d.integers([0])], ("ReducerOptions", {}), same=True)[0], last],
        same=True,
    )


@draws("RANGE")
def _range(d: Drawing, kind: str) -> None:
    x = d.pick()
    places = d.counted(
        kind, [d.integers(0), d.integers(d.shape(x)[0]), d.integers(2)], [np.int32], ("RangeOptions", {})
    )[0]
    d.add("GATHER", [x, places], ("GatherOptions", {"Axis": 0}), same=True)


@draws("UNIQUE")
def _unique(d: Drawing, kind: str) -> None:
    x = d.pick()
    ids = d.integers(d.rng.integers(0, d.shape(x)[0], 5))
    values, _ = d.counted(kind, [ids], [np.int32, np.int32], ("UniqueOptions", {"IdxOutType": CODES["int32"]}))
    d.add("GATHER", [x, values], ("GatherOptions", {"Axis": 0}), same=True)


@draws("WHERE")
def _where(d: Drawing, kind: str) -> None:
    x = d.pick()
    chosen = d.rng.random(d.shape(x)[:1]) < 0.5
    chosen[0] = True
    places = d.counted(kind, [d.truth(chosen)], [np.int64], ("WhereOptions", {}))[0]
    d.add("GATHER_ND", [x, places], ("GatherNdOptions", {}), same=True)
