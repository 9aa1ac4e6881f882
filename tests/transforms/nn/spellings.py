"""Random spellings of functions as ONNX networks: the same function in other operators, orders and constants."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from qmlir.ir.interfaces import Array

Node = str
"""The name of a tensor of the network that is being written."""


@dataclass
class Speller:
    """Writes a network node by node, and chooses among forms of the same number.

    rng    chooses
    shape  the shape of the data, of which all tensors are that keep their axes
    """

    rng: np.random.Generator
    shape: tuple[int, ...]
    nodes: list[onnx.NodeProto] = field(default_factory=list[onnx.NodeProto])
    constants: list[onnx.TensorProto] = field(default_factory=list[onnx.TensorProto])

    def one_of(self, *forms: Callable[[], Node]) -> Node:
        return forms[self.rng.integers(len(forms))]()

    def chance(self, share: float = 0.5) -> bool:
        return bool(self.rng.random() < share)

    def op(self, kind: str, *inputs: Node, **attributes: Any) -> Node:
        name = f"t{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, list(inputs), [name], **attributes))
        return name

    def array(self, array: Array | np.generic) -> Node:
        name = f"c{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.asarray(array), name))
        return name

    def number(self, value: float) -> Node:
        """A number as a scalar, as a tensor of one element, or repeated along the last axis."""
        shapes = [(), (1,), (1,) * len(self.shape), self.shape[-1:]]
        return self.array(np.full(shapes[self.rng.integers(len(shapes) if self.keeps_last else 3)], value, np.float32))

    keeps_last: bool = True
    """Whether a number may be repeated along the last axis, which results in tensors that have all of it."""

    # -- arithmetic --------------------------------------------------------------------------------------------

    def add(self, *terms: Node) -> Node:
        return self._joined("Add", terms)

    def mul(self, *factors: Node) -> Node:
        return self._joined("Mul", factors)

    def _joined(self, kind: str, parts: Sequence[Node]) -> Node:
        """A sum or product in any order and association."""
        left = list(parts)
        while len(left) > 1:
            at = [left.pop(self.rng.integers(len(left))) for _ in range(2)]
            left.append(self.op(kind, *at))
        return left[0]

    def sub(self, a: Node, b: Node) -> Node:
        return self.one_of(
            lambda: self.op("Sub", a, b),
            lambda: self.op("Sub", a, b),
            lambda: self.add(a, self.op("Neg", b)),
            lambda: self.op("Neg", self.op("Sub", b, a)),
        )

    def scaled(self, x: Node, factor: float) -> Node:
        return self.one_of(
            lambda: self.mul(x, self.number(factor)),
            lambda: self.op("Div", x, self.number(1 / factor)),
            lambda: self.mul(
                x, self.number(math.copysign(abs(factor) ** 0.5, factor)), self.number(abs(factor) ** 0.5)
            ),
        )

    def plus(self, x: Node, value: float) -> Node:
        return self.one_of(lambda: self.add(x, self.number(value)), lambda: self.op("Sub", x, self.number(-value)))

    def square(self, x: Node) -> Node:
        return self.one_of(lambda: self.op("Mul", x, x), lambda: self.op("Pow", x, self.number(2.0)))

    def cube(self, x: Node) -> Node:
        return self.one_of(
            lambda: self.mul(x, x, x), lambda: self.op("Pow", x, self.number(3.0)), lambda: self.mul(x, self.square(x))
        )

    def div(self, a: Node, b: Node) -> Node:
        return self.one_of(lambda: self.op("Div", a, b), lambda: self.mul(a, self.inverse(b)))

    def inverse(self, x: Node) -> Node:
        return self.one_of(
            lambda: self.op("Reciprocal", x),
            lambda: self.op("Div", self.number(1.0), x),
            lambda: self.op("Pow", x, self.number(-1.0)),
        )

    def root(self, x: Node) -> Node:
        return self.one_of(lambda: self.op("Sqrt", x), lambda: self.op("Pow", x, self.number(0.5)))

    def inverse_root(self, x: Node) -> Node:
        return self.one_of(
            lambda: self.inverse(self.root(x)),
            lambda: self.root(self.inverse(x)),
            lambda: self.op("Pow", x, self.number(-0.5)),
        )

    # -- functions of one element ------------------------------------------------------------------------------

    def exp(self, x: Node) -> Node:
        return self.one_of(
            lambda: self.op("Exp", x),
            lambda: self.op("Exp", x),
            lambda: self.square(self.op("Exp", self.scaled(x, 0.5))),
        )

    def sigmoid(self, x: Node) -> Node:
        return self.one_of(
            lambda: self.op("Sigmoid", x),
            lambda: self.op("Sigmoid", x),
            lambda: self.inverse(self.plus(self.exp(self.op("Neg", x)), 1.0)),
            lambda: self.scaled(self.plus(self.op("Tanh", self.scaled(x, 0.5)), 1.0), 0.5),
            lambda: self._share(self.op("Exp", x)),
        )

    def _share(self, e: Node) -> Node:
        return self.div(e, self.plus(e, 1.0))

    def tanh(self, x: Node) -> Node:
        def quotient() -> Node:
            e = self.exp(self.scaled(x, -2.0))
            return self.div(self.op("Sub", self.number(1.0), e), self.plus(e, 1.0))

        return self.one_of(
            lambda: self.op("Tanh", x),
            lambda: self.op("Tanh", x),
            lambda: self.plus(self.scaled(self.op("Sigmoid", self.scaled(x, 2.0)), 2.0), -1.0),
            quotient,
        )

    def softplus(self, x: Node) -> Node:
        return self.one_of(
            lambda: self.op("Softplus", x),
            lambda: self.op("Log", self.plus(self.op("Exp", x), 1.0)),
            lambda: self.op("Neg", self.op("Log", self.sigmoid(self.op("Neg", x)))),
            lambda: self.add(
                self.op("Relu", x), self.op("Log", self.plus(self.op("Exp", self.op("Neg", self.op("Abs", x))), 1.0))
            ),
        )

    # -- reductions --------------------------------------------------------------------------------------------

    def reduced(self, kind: str, x: Node, axes: Sequence[int]) -> Node:
        """A reduction, with the axes kept, or dropped and added again, or in front of transposes."""
        rank, kept = len(self.shape), [1 if i in axes else n for i, n in enumerate(self.shape)]

        def plain(x: Node, axes: Sequence[int], keep: int) -> Node:
            given = [a - rank if self.chance() else a for a in axes]
            return self.op(kind, x, self.array(np.array(given)), keepdims=keep)

        def moved() -> Node:
            order = [*(i for i in range(rank) if i not in axes), *axes]
            y = plain(self.op("Transpose", x, perm=order), range(rank - len(axes), rank), 1)
            return self.op("Transpose", y, perm=[order.index(i) for i in range(rank)])

        def in_turn() -> Node:
            y = x
            for axis in axes:
                y = plain(y, [axis], 1)
            return y

        return self.one_of(
            lambda: plain(x, axes, 1),
            lambda: plain(x, axes, 1),
            lambda: self.op("Reshape", plain(x, axes, 0), self.array(np.array(kept))),
            lambda: self.op("Unsqueeze", plain(x, axes, 0), self.array(np.array(list(axes)))),
            moved,
            in_turn,
        )

    def mean(self, x: Node, axes: Sequence[int]) -> Node:
        count = math.prod(self.shape[a] for a in axes)
        self.keeps_last, before = False, self.keeps_last
        y = self.one_of(
            lambda: self.reduced("ReduceMean", x, axes),
            lambda: self.reduced("ReduceMean", x, axes),
            lambda: self.scaled(self.reduced("ReduceSum", x, axes), 1 / count),
        )
        self.keeps_last = before
        return y

    def greatest(self, x: Node, axes: Sequence[int]) -> Node:
        m = self.reduced("ReduceMax", x, axes)
        low = self.array(np.float32(-np.inf))
        return self.one_of(
            lambda: m,
            lambda: self.op("Max", m, low),
            lambda: self.op("Where", self.op("IsInf", m), self.array(np.float32(0)), m),
            lambda: self.op("Clip", m, self.array(np.float32(-3e38)), self.array(np.float32(3e38))),
            lambda: self.op("Neg", self.reduced("ReduceMin", self.op("Neg", x), axes)),
        )

    def model(self, y: Node, shape: Sequence[int], *inputs: tuple[Node, Sequence[int]]) -> onnx.ModelProto:
        """The network from its inputs, by default `x`, to a tensor."""
        given = inputs or (("x", self.shape),)
        values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, extents) for name, extents in given]
        outputs = [helper.make_tensor_value_info("y", TensorProto.FLOAT, shape)]
        self.nodes.append(helper.make_node("Identity", [y], ["y"]))
        read = {name for node in self.nodes for name in node.input}
        constants = [c for c in self.constants if c.name in read]
        graph = helper.make_graph(self.nodes, "spelling", values, outputs, constants)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)


# ---------------------------------------------------------------------------------------------------------------
# Functions of one element.


def gelu(s: Speller, x: Node) -> Node:
    root = s.op("Erf", s.scaled(x, math.sqrt(0.5)))
    return s.one_of(
        lambda: s.mul(x, s.number(0.5), s.plus(root, 1.0)),
        lambda: s.mul(x, s.plus(s.scaled(root, 0.5), 0.5)),
        lambda: s.scaled(s.add(x, s.mul(x, root)), 0.5),
    )


def tanh_gelu(s: Speller, x: Node) -> Node:
    k, c = math.sqrt(2 / math.pi), 0.044715
    inner = s.one_of(
        lambda: s.scaled(s.add(x, s.scaled(s.cube(x), c)), k),
        lambda: s.mul(x, s.number(k), s.plus(s.scaled(s.square(x), c), 1.0)),
        lambda: s.add(s.scaled(x, k), s.mul(x, x, x, s.number(k * c))),
        lambda: s.mul(x, s.plus(s.mul(s.number(k * c), x, x), k)),
    )
    return s.one_of(
        lambda: s.mul(x, s.number(0.5), s.plus(s.tanh(inner), 1.0)),
        lambda: s.mul(x, s.plus(s.scaled(s.tanh(inner), 0.5), 0.5)),
        lambda: s.mul(x, s.sigmoid(s.scaled(inner, 2.0))),
    )


def quick_gelu(s: Speller, x: Node) -> Node:
    return s.mul(x, s.sigmoid(s.scaled(x, 1.702)))


def silu(s: Speller, x: Node) -> Node:
    return s.one_of(lambda: s.mul(x, s.sigmoid(x)), lambda: s.div(x, s.plus(s.exp(s.op("Neg", x)), 1.0)))


def mish(s: Speller, x: Node) -> Node:
    def quotient() -> Node:
        e = s.op("Exp", x)
        n = s.mul(e, s.plus(e, 2.0))
        return s.mul(x, s.div(n, s.plus(n, 2.0)))

    return s.one_of(lambda: s.mul(x, s.tanh(s.softplus(x))), quotient)


def softplus(s: Speller, x: Node) -> Node:
    return s.softplus(x)


def hard_swish(s: Speller, x: Node) -> Node:
    low, high = s.array(np.float32(0)), s.array(np.float32(6))
    gate = s.one_of(
        lambda: s.op("Clip", s.plus(x, 3.0), low, high),
        lambda: s.op("Min", s.op("Relu", s.plus(x, 3.0)), high),
        lambda: s.op("Max", s.op("Min", s.plus(x, 3.0), high), low),
    )
    return s.scaled(s.mul(x, gate), 1 / 6)


# ---------------------------------------------------------------------------------------------------------------
# Functions of all elements along axes.


def normalized(s: Speller, x: Node, axes: Sequence[int], gain: Array | None, bias: Array | None, eps: float) -> Node:
    """A layer normalization, in two passes or one."""
    m = s.mean(x, axes)
    less_mean = s.sub(x, m)
    s.keeps_last = False

    def two_passes() -> Node:
        d = s.one_of(lambda: less_mean, lambda: s.sub(x, m))
        return s.mean(s.square(d), axes)

    def fast() -> Node:
        v = s.sub(s.mean(s.square(x), axes), s.square(m))
        return s.one_of(lambda: v, lambda: s.op("Relu", v), lambda: s.op("Max", v, s.number(0.0)))

    variance = s.one_of(two_passes, two_passes, fast)
    return scaled_by_root(s, x, less_mean, m, s.plus(variance, eps), gain, bias)


def scaled_by_root(
    s: Speller, x: Node, d: Node, m: Node | None, square: Node, gain: Array | None, bias: Array | None
) -> Node:
    """d / √square · gain + bias, in any order; d is x less m, where there is m."""

    def quotient() -> Node:
        y = s.one_of(lambda: s.div(d, s.root(square)), lambda: s.mul(d, s.inverse_root(square)))
        y = y if gain is None else s.mul(y, s.array(gain))
        return y if bias is None else s.add(y, s.array(bias))

    def gain_first() -> Node:
        root = s.inverse_root(square)
        y = s.mul(d, root if gain is None else s.mul(root, s.array(gain)))
        return y if bias is None else s.add(y, s.array(bias))

    def one_line() -> Node:
        if m is None:
            return gain_first()
        root = s.inverse_root(square)
        factor = root if gain is None else s.mul(root, s.array(gain))
        shift = s.mul(m, factor)
        offset = s.op("Neg", shift) if bias is None else s.op("Sub", s.array(bias), shift)
        return s.add(s.mul(x, factor), offset)

    return s.one_of(quotient, quotient, gain_first, one_line)


def rms(s: Speller, x: Node, axes: Sequence[int], gain: Array | None, eps: float) -> Node:
    s.keeps_last = False
    return scaled_by_root(s, x, x, None, s.plus(s.mean(s.square(x), axes), eps), gain, None)


def l2(s: Speller, x: Node, axes: Sequence[int]) -> Node:
    s.keeps_last = False
    total = s.one_of(
        lambda: s.reduced("ReduceSum", s.square(x), axes),
        lambda: s.reduced("ReduceSumSquare", x, axes),
    )
    return s.one_of(
        lambda: s.div(x, s.op("Max", s.root(total), s.number(1e-12))),
        lambda: s.div(x, s.op("Clip", s.reduced("ReduceL2", x, axes), s.array(np.float32(1e-12)))),
        lambda: s.mul(x, s.inverse_root(s.op("Max", total, s.number(1e-12)))),
        lambda: s.div(x, s.root(total)),
    )


def shifted_exponentials(s: Speller, x: Node, axes: Sequence[int]) -> tuple[Node, Node, Node | None]:
    """x less a shift, the exponentials of it, and the shift, if there is any."""
    if s.chance(0.25):
        return x, s.exp(x), None
    m = s.greatest(x, axes)
    d = s.sub(x, m)
    return d, s.exp(d), m


def softmax(s: Speller, x: Node, axes: Sequence[int]) -> Node:
    def quotient() -> Node:
        _, e, _ = shifted_exponentials(s, x, axes)
        return s.div(e, s.reduced("ReduceSum", e, axes))

    return s.one_of(quotient, quotient, lambda: s.op("Exp", log_softmax(s, x, axes)))


def log_softmax(s: Speller, x: Node, axes: Sequence[int]) -> Node:
    d, e, _ = shifted_exponentials(s, x, axes)
    total = s.reduced("ReduceSum", e, axes)
    return s.one_of(
        lambda: s.sub(d, s.op("Log", total)),
        lambda: s.sub(x, s.op("ReduceLogSumExp", x, s.array(np.array(list(axes))), keepdims=1)),
        lambda: s.op("Log", s.div(e, total)),
    )


def log_sum_exp(s: Speller, x: Node, axes: Sequence[int]) -> Node:
    _, e, m = shifted_exponentials(s, x, axes)
    logarithm = s.op("Log", s.reduced("ReduceSum", e, axes))
    return logarithm if m is None else s.add(logarithm, m)


def attention(s: Speller, q: Node, k: Node, v: Node, mask: Array | None) -> Node:
    """softmax(q · kᵀ / √depth + mask) · v."""
    depth, root = s.shape[-1], math.sqrt(s.shape[-1])
    turned = list(range(len(s.shape)))
    turned[-2:] = turned[:-3:-1]
    s.keeps_last = False

    def columns(k: Node) -> Node:
        return s.op("Transpose", k, perm=turned)

    product = s.one_of(
        lambda: s.scaled(s.op("MatMul", q, columns(k)), 1 / root),
        lambda: s.op("MatMul", s.scaled(q, 1 / root), columns(k)),
        lambda: s.op("MatMul", q, s.scaled(columns(k), 1 / root)),
        lambda: s.op("MatMul", s.scaled(q, depth**-0.25), columns(s.scaled(k, depth**-0.25))),
        lambda: s.scaled(s.op("Einsum", q, k, equation="bhqd,bhkd->bhqk"), 1 / root),
    )
    if mask is not None:
        low = np.float32(s.rng.choice([-1e9, -1e4, float(np.finfo(np.float32).min)]))
        product = s.one_of(
            lambda: s.add(product, s.array(np.where(mask, 0, low).astype(np.float32))),
            lambda: s.op("Where", s.array(mask), product, s.array(low)),
        )
    return s.op("MatMul", softmax(s, product, [len(s.shape) - 1]), v)


# ---------------------------------------------------------------------------------------------------------------
# Networks of one spelling each.


@dataclass(frozen=True)
class Spelling:
    """A network that spells a function.

    kind    the function
    model   the network
    inputs  its inputs
    wanted  what the function is, computed in float64
    names   the operations that it is named as; no other than they and data movement may be left
    """

    kind: str
    model: onnx.ModelProto
    inputs: Mapping[str, Array]
    wanted: Array
    names: Sequence[str]


def _sigmoid(x: Array) -> Array:
    return 1 / (1 + np.exp(-x))


POINTWISE: dict[str, tuple[Callable[[Speller, Node], Node], Callable[[Array], Array], str]] = {
    "gelu": (gelu, lambda x: x * (1 + np.vectorize(math.erf)(x / math.sqrt(2))) / 2, "nn.gelu"),
    "tanh_gelu": (tanh_gelu, lambda x: x * _sigmoid(2 * math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)), "nn.gelu"),
    "quick_gelu": (quick_gelu, lambda x: x * _sigmoid(1.702 * x), "nn.swish"),
    "silu": (silu, lambda x: x * _sigmoid(x), "nn.swish"),
    "mish": (mish, lambda x: x * np.tanh(np.log1p(np.exp(x))), "nn.mish"),
    "softplus": (softplus, lambda x: np.log1p(np.exp(x)), "nn.softplus"),
    "hard_swish": (hard_swish, lambda x: x * np.clip(x + 3, 0, 6) / 6, "nn.hard_swish"),
}
ALONG_AXES = ("layer_norm", "group_norm", "rms_norm", "l2", "softmax", "log_softmax", "log_sum_exp", "attention")
KINDS = (*POINTWISE, *ALONG_AXES)
SHAPES = ((2, 3, 8), (1, 6, 16), (2, 4, 5, 8), (3, 10), (1, 7, 4))


def spelling(seed: int) -> Spelling:
    """The spelling of a number; kinds take turns."""
    rng, kind = np.random.default_rng(seed), KINDS[seed % len(KINDS)]
    if kind == "attention":
        return _attention(rng)
    if kind == "group_norm":
        return _group_norm(rng)
    s = Speller(rng, SHAPES[rng.integers(len(SHAPES))])
    x = 2 * rng.normal(size=s.shape)
    if kind in POINTWISE:
        build, plain, name = POINTWISE[kind]
        return Spelling(kind, s.model(build(s, "x"), s.shape), _singles(x=x), plain(x), [name])
    return _along_axes(kind, s, x)


def _singles(**arrays: Array) -> dict[str, Array]:
    return {name: array.astype(np.float32) for name, array in arrays.items()}


def _along_axes(kind: str, s: Speller, x: Array) -> Spelling:
    several = kind.endswith("norm") and x.ndim > 2 and s.chance()
    axes = sorted(s.rng.choice(np.arange(1, x.ndim), 1 + several, replace=False).tolist())
    over, parameters = tuple(axes), tuple(n if i in axes else 1 for i, n in enumerate(x.shape))[1:]
    gain = s.rng.uniform(0.5, 2, parameters).astype(np.float32) if s.chance() else None
    bias = s.rng.normal(size=parameters).astype(np.float32) if kind == "layer_norm" and s.chance() else None
    epsilon = float(s.rng.choice([1e-5, 1e-6, 1e-3, 1e-12]))
    factor, shape = 1 if gain is None else gain, x.shape
    names = ["nn.mul"] * (gain is not None) + ["nn.add"] * (bias is not None)
    match kind:
        case "layer_norm":
            y, wanted, names = (
                normalized(s, "x", axes, gain, bias, epsilon),
                _normal(x, over, epsilon),
                ["nn.layer_norm", *names],
            )
            wanted = wanted * factor + (0 if bias is None else bias)
        case "rms_norm":
            wanted = x / np.sqrt((x * x).mean(over, keepdims=True) + epsilon) * factor
            y, names = rms(s, "x", axes, gain, epsilon), ["nn.rms_norm", *names]
        case "l2":
            y, wanted, names = l2(s, "x", axes), x / np.sqrt((x * x).sum(over, keepdims=True)), ["nn.lp_normalization"]
        case _:
            total = np.exp(x).sum(over, keepdims=True)
            known = {"softmax": np.exp(x) / total, "log_softmax": x - np.log(total), "log_sum_exp": np.log(total)}
            build = {"softmax": softmax, "log_softmax": log_softmax, "log_sum_exp": log_sum_exp}[kind]
            y, wanted, names = build(s, "x", axes), known[kind], [f"nn.{kind}"]
            shape = wanted.shape
    if kind == "log_sum_exp":
        names = ["nn.exp", "nn.reduce_sum", "nn.log", "nn.add"]  # of exponents less the greatest
    return Spelling(kind, s.model(y, shape), _singles(x=x), wanted, names)


def _normal(x: Array, over: tuple[int, ...], epsilon: float) -> Array:
    d = x - x.mean(over, keepdims=True)
    return d / np.sqrt((d * d).mean(over, keepdims=True) + epsilon)


def _group_norm(rng: np.random.Generator) -> Spelling:
    """Groups of channels of an image: reshaped, normalized and reshaped back; gain and bias for each channel."""
    shape, groups = (2, 6, 4, 3), int(rng.choice([1, 2, 3, 6]))
    grouped = (2, groups, 6 // groups, 4, 3) if rng.random() < 0.5 else (2, groups, 72 // groups)
    over = tuple(range(2, len(grouped)))
    s, x = Speller(rng, grouped), 2 * rng.normal(size=shape)
    rows = s.op("Reshape", "x", s.array(np.array(grouped)))
    y = s.op("Reshape", normalized(s, rows, over, None, None, 1e-5), s.array(np.array(shape)))
    gain, bias = (rng.uniform(0.5, 2, (6, 1, 1)).astype(np.float32) for _ in range(2))
    y = s.add(s.mul(y, s.array(gain)), s.array(bias))
    wanted = _normal(x.reshape(grouped), over, 1e-5).reshape(shape) * gain + bias
    names = ["nn.layer_norm", "nn.mul", "nn.add"]
    return Spelling("group_norm", s.model(y, shape, ("x", shape)), _singles(x=x), wanted, names)


def _attention(rng: np.random.Generator) -> Spelling:
    shape = (1, 2, 5, 8)
    s = Speller(rng, shape)
    q, k, v = rng.normal(size=(3, *shape))
    mask = None if s.chance() else np.tril(np.ones((5, 5), bool))
    y = attention(s, "q", "k", "v", mask)
    logits = q @ k.swapaxes(2, 3) / math.sqrt(8)
    e = np.exp(logits if mask is None else np.where(mask, logits, -np.inf))
    wanted = e / e.sum(-1, keepdims=True) @ v
    model = s.model(y, shape, *((name, shape) for name in "qkv"))
    return Spelling("attention", model, _singles(q=q, k=k, v=v), wanted, ["nn.softmax", "nn.matmul"])
