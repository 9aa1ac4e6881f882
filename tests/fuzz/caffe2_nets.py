"""Damaged Caffe2 nets: changed bytes, changed text, and nets whose operators, arguments and names are changed."""

from functools import cache
from typing import Any

import numpy as np
from google.protobuf import text_format

from qmlir.frontends.caffe2.schema import DTYPES, NET
from qmlir.frontends.caffe2.walk import CONVERTERS
from tests.conformance import mutations
from tests.fuzz.damage import damaged

Random = np.random.Generator

ABSURD = (0, 1, -1, 2, 3, 7, 255, 256, -(1 << 31), 1 << 31, (1 << 40) + 1, (1 << 63) - 1, -(1 << 63))
FLOATS = (0.0, -1.0, 0.5, 1e-30, 1e30, float("inf"), float("nan"), 3.4e38)
NAMES = (
    "shape",
    "axis",
    "axes",
    "kernel",
    "pad",
    "stride",
    "group",
    "order",
    "Y_scale",
    "Y_zero_point",
    "values",
    "dims",
)


def _net(*operators: tuple[Any, ...], outputs: str, **inputs: tuple[int, ...]) -> bytes:
    """Returns a net with its weights, which states the shapes of its inputs."""
    from tests.frontends.caffe2.nets import made

    net = NET.FromString(made(*operators, outputs=outputs))
    info = net.arg.add(name="input_shape_info")
    for name, shape in inputs.items():
        info.tensors.add(name=name, dims=shape, data_type="INT64" if name == "i" else "FLOAT")
    return net.SerializeToString()


@cache
def base_nets() -> list[bytes]:
    """Good nets, small enough that a change of one place matters."""
    from tests.frontends.caffe2.nets import stored, weights

    random = np.random.default_rng(0)

    def floats(*shape: int) -> Any:
        return random.uniform(-1, 1, shape).astype(np.float32)

    def u8(*shape: int) -> Any:
        return random.integers(0, 256, shape).astype(np.uint8)

    image = {"kernel": 3, "pad": 1, "order": "NCHW"}
    typed = {"Y_scale": 0.5, "Y_zero_point": 100}
    return [
        _net(*weights(w=floats(4, 2, 3, 3), b=floats(4), s=floats(4)), ("Conv", "x w b", "t", image),
             ("SpatialBN", "t s s s b", "t", {"is_test": 1}), ("Relu", "t", "t"),
             ("MaxPool", "t", "p", {"kernel": 2, "stride": 2}), ("Softmax", "p", "y"), outputs="y", x=(1, 2, 6, 6)),
        _net(stored("w", u8(3, 3, 3, 2), 0.01, 128), stored("b", np.arange(3, dtype=np.int32), 0.3, 2),
             stored("v", u8(5, 108), 0.02, 120), ("NCHW2NHWC", "x", "n"), ("Int8Quantize", "n", "q", typed),
             ("Int8ConvRelu", "q w b", "c", {"kernel": 3, "pad": 1, "order": "NHWC", **typed}),
             ("Int8Sum", "c c", "d", typed), ("Int8AveragePool", "d", "e", {"kernel": 1, "order": "NHWC", **typed}),
             ("Int8FC", "e v", "f", typed), ("Int8Softmax", "f", "g", {"Y_scale": 1 / 256, "Y_zero_point": 0}),
             ("Int8Dequantize", "g", "y"), outputs="y", x=(1, 2, 6, 6)),
        _net(*weights(t=floats(6, 3), n=np.array([2, 0, 1], np.int64)), ("SparseLengthsSum", "t i n", "s"),
             ("Shape", "s", "h"), ("Reshape", "s h", "r old"), ("Concat", "r s", "c z", {"axis": 1}),
             ("TopK", "c", "v p", {"k": 2}), ("LayerNorm", "v", "l"), ("Add", "l v", "y"), outputs="y z", i=(3,)),
        _net(("ConstantFill", "", "c", {"shape": [2, 3], "value": 2.0}), ("Transpose", "c", "t", {"axes": [1, 0]}),
             ("MatMul", "x t", "m"), ("Split", "m", "a b", {"axis": 1}),
             ("Slice", "a", "s", {"starts": [0, 0], "ends": [1, -1]}),
             ("Tile", "s", "u", {"tiles": 2, "axis": 0}), ("ReduceMean", "u", "y", {"axes": [0]}),
             outputs="y b", x=(4, 3)),
    ]  # fmt: skip


def _pick(random: Random, items: Any) -> Any:
    return items[int(random.integers(len(items)))]


def _rewired(op: Any, random: Random, names: list[str]) -> str:
    """Changes what an operator is, reads or defines."""
    place = int(random.integers(max(len(op.input), 1)))
    match int(random.integers(5)):
        case 0:
            op.type = _pick(random, CONVERTERS.operators())
            return "another operator"
        case 1 if op.input:
            op.input[place] = _pick(random, names)
            return "another input"
        case 2 if op.input:
            del op.input[place]
            return "one input less"
        case 3 if op.output:
            op.output[0] = _pick(random, names)
            return "another output"
        case _:
            op.input.append(_pick(random, names))
            return "one more input"


def _argued(op: Any, random: Random) -> str:
    """Changes an argument of an operator, or adds one."""
    arg = _pick(random, op.arg) if op.arg else op.arg.add(name=_pick(random, NAMES))
    name, kind = arg.name, int(random.integers(6))
    if kind == 0:
        op.arg.remove(arg)
        return "one argument less"
    if kind == 1:
        arg.name = _pick(random, NAMES)
        return "another name of an argument"
    arg.Clear()
    arg.name = name
    match kind:
        case 2:
            arg.i = _pick(random, ABSURD)
        case 3:
            arg.f = _pick(random, FLOATS)
        case 4:
            arg.s = random.bytes(int(random.integers(6)))
        case _:
            arg.ints.extend(_pick(random, ABSURD) for _ in range(int(random.integers(4))))
    return "another value of an argument"


def _changed(net: Any, random: Random) -> str:
    """Changes one place of a net and says which."""
    shapes = [t for a in net.arg for t in a.tensors]
    kind = int(random.integers(10))
    if kind == 0 and shapes:
        tensor = _pick(random, shapes)
        del tensor.dims[:]
        tensor.dims.extend(_pick(random, (*ABSURD, 2, 3, 4, 5)) for _ in range(int(random.integers(5))))
        tensor.data_type = int(_pick(random, list(DTYPES)))
        return "another shape"
    op = _pick(random, net.op)
    if kind < 5:
        return _rewired(op, random, [*(n for o in net.op for n in (*o.input, *o.output)), "none", ""])
    return _argued(op, random)


def damaged_net(number: int) -> tuple[bytes, str]:
    """Returns the damaged net of a number, and what was done to it."""
    random = np.random.default_rng(number)
    bases = base_nets()
    data = _pick(random, bases)
    if random.random() < 0.25:
        change = _pick(random, mutations.BYTES)
        return change(data, random, bases), change.__name__
    net = NET.FromString(data)
    done = [_changed(net, random) for _ in range(int(random.integers(1, 4)))]
    return net.SerializeToString(), ", ".join(done)


def damaged_text(number: int) -> tuple[bytes, str]:
    """Returns the damaged net of a number as text, and what was done to it."""
    random = np.random.default_rng(number)
    texts = [text_format.MessageToString(NET.FromString(data)) for data in base_nets()]
    changed, how = damaged(_pick(random, texts), random, texts)
    return changed.encode(errors="surrogatepass"), how
