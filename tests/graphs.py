"""Random networks for hypothesis: a module on the nn level with ranges, and inputs for it."""

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from xdsl.dialects import func
from xdsl.dialects.builtin import (
    ArrayAttr,
    BoolAttr,
    DictionaryAttr,
    FloatAttr,
    IntegerAttr,
    ModuleOp,
    TensorType,
    f32,
    i64,
)
from xdsl.ir import Operation, SSAValue

import qmlir
from qmlir.backends.reference import trace
from qmlir.dialects import nn
from qmlir.dialects.calib import ObserveOp
from qmlir.dialects.nn.base import bound, is_float
from qmlir.dialects.windows import ints
from qmlir.errors import PipelineError
from qmlir.ir.context import make_context
from qmlir.ir.facts import NAME
from qmlir.ir.interfaces import shape_of
from qmlir.ir.names import NameAttr
from qmlir.ir.weights import WeightsAttr, WeightsMode, module_text
from qmlir.transforms.quantize.observers import InsertObserversPass

Array = npt.NDArray[Any]


class Graph:
    """A network whose observers hold ranges, and samples of its only input; a failing test prints its text."""

    def __init__(self, module: ModuleOp, samples: list[Array]):
        self.module, self.samples = module, samples

    def without_observers(self) -> ModuleOp:
        """The plain float network."""
        module = self.module.clone()
        for op in [o for o in module.walk() if isinstance(o, ObserveOp)]:
            op.detach()
            op.erase()
        return module

    def __repr__(self) -> str:
        return "\n" + module_text(self.module, WeightsMode.INLINE)


class _Builder:
    """A network under construction; values are images [N, H, W, C] until `flatten`."""

    def __init__(self, draw: st.DrawFn, shape: tuple[int, int, int, int], *, choices: bool = False):
        self.draw, self.kinds = draw, (*_STEPS, *_CHOICES) if choices else _STEPS
        self.rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
        self.function = func.FuncOp("main", ([TensorType(f32, shape)], []))
        self.block = self.function.body.block
        self.values: list[SSAValue] = [self.block.args[0]]
        self.found: list[SSAValue] = []

    def add(self, op: Operation) -> SSAValue:
        """Appends an operation under a name of its own."""
        NAME.put(op, NameAttr.of([f"node{len(self.values)}"], [f"t{len(self.values)}"]))
        self.block.add_op(op)
        self.values.append(op.results[0])
        return op.results[0]

    def compare(self, op: Operation) -> SSAValue:
        """Appends an operation that yields truth values or indices."""
        NAME.put(op, NameAttr.of([f"compared{len(self.found)}"], [f"c{len(self.found)}"]))
        self.block.add_op(op)
        self.found.append(op.results[0])
        return op.results[0]

    def number(self, value: float) -> SSAValue:
        """A constant number."""
        op = nn.ConstantOp(np.array(value, np.float32))
        self.block.add_op(op)
        return op.y

    def constant(self, *shape: int, scale: float = 1.0) -> SSAValue:
        """A constant with normally distributed values, some of them outliers, some channels all zero."""
        values = self.rng.normal(size=shape) * scale
        if self.draw(st.booleans()):
            values[..., self.rng.integers(shape[-1])] *= self.draw(st.sampled_from([0.0, 1e-4, 30.0]))
        op = nn.ConstantOp(values.astype(np.float32))
        self.block.add_op(op)
        return op.y

    def indices(self, places: Array) -> SSAValue:
        """Constant indices."""
        op = nn.ConstantOp(places.astype(self.draw(st.sampled_from([np.int32, np.int64]))))
        self.block.add_op(op)
        return op.y

    def steps(self, size: int) -> tuple[int, int, int]:
        """(offset, size, stride) of a slice of a dimension, backwards too."""
        stride = self.draw(st.sampled_from([1, 1, 2]))
        first = self.draw(st.integers(0, size - 1))
        count = self.draw(st.integers(1, (size - 1 - first) // stride + 1))
        if self.draw(st.booleans()):
            return first, count, stride
        return first + (count - 1) * stride, count, -stride

    def doubled(self, *sizes: int) -> dict[str, Any]:
        """The properties of nn.resize that make the axes from 1 on almost twice as long, by linear interpolation."""
        taps: list[WeightsAttr] = []
        weights: list[WeightsAttr] = []
        for size in sizes:
            at = np.linspace(0, size - 1, 2 * size - 1)
            taps.append(
                WeightsAttr(np.clip(np.stack([np.floor(at), np.floor(at) + 1], 1), 0, size - 1).astype(np.int64))
            )
            weights.append(WeightsAttr(np.stack([1 - at % 1, at % 1], 1)))
        return {"axes": ints([*range(1, len(sizes) + 1)]), "taps": ArrayAttr(taps), "weights": ArrayAttr(weights)}

    def clamp(self) -> dict[str, Any]:
        """Bounds of a fused clamp: none, relu, relu6, or two of any sign."""
        low, high = self.draw(st.sampled_from([(None, None), (0.0, None), (0.0, 6.0), (-1.0, 1.0), (0.3, 0.7)]))
        return {"min": bound(low), "max": bound(high)}

    def window(self, x: SSAValue, most: int) -> tuple[tuple[int, int], dict[str, Any]]:
        """A window that fits, with strides, padding and dilations."""
        _, height, width, _ = shape_of(x)
        extents = tuple(self.draw(st.integers(1, min(most, size))) for size in (height, width))
        sizes = zip(extents, (height, width), strict=True)
        dilations = [self.draw(st.integers(1, 2)) if (e - 1) * 2 + 1 <= size else 1 for e, size in sizes]
        padding = [self.draw(st.integers(0, e - 1)) for e in extents for _ in range(2)]
        strides = [self.draw(st.integers(1, 2)) for _ in extents]
        properties = {"strides": ints(strides), "padding": ints(padding), "dilations": ints(dilations)}
        return (extents[0], extents[1]), properties

    def step(self, x: SSAValue) -> SSAValue:
        """One more operation on an image."""
        channels = shape_of(x)[3]
        kind = self.draw(st.sampled_from(self.kinds))
        if kind in ("conv2d", "depthwise"):
            (rows, columns), properties = self.window(x, 3)
            properties |= self.clamp()
            outputs = self.draw(st.integers(1, 19)) if kind == "conv2d" else channels * self.draw(st.integers(1, 2))
            shape = (outputs, rows, columns, channels) if kind == "conv2d" else (1, rows, columns, outputs)
            weights = self.constant(*shape, scale=1 / np.sqrt(rows * columns * channels))
            bias = [self.constant(outputs)] if self.draw(st.booleans()) else []
            convolution = nn.Conv2DOp if kind == "conv2d" else nn.DepthwiseConv2DOp
            return self.add(convolution.make([x, weights, bias], properties))
        if kind in ("max_pool2d", "average_pool2d"):
            window, properties = self.window(x, 3)
            properties["window"] = ints(list(window))
            if kind == "max_pool2d":
                return self.add(nn.MaxPool2DOp.make([x], properties))
            properties["count_include_pad"] = BoolAttr.from_bool(self.draw(st.booleans()))
            return self.add(nn.AveragePool2DOp.make([x], properties))
        if kind in _SUMS:
            fitting = [v for v in self.values if shape_of(v) == shape_of(x)]
            other = self.draw(st.sampled_from(fitting)) if self.draw(st.booleans()) else self.constant(channels)
            return self.add(_SUMS[kind].make([x, other], self.clamp()))
        if kind in _EXTREMES:
            axes = self.draw(st.sets(st.integers(1, 3), min_size=1))
            return self.add(_EXTREMES[kind].make([x], {"axes": ints(sorted(axes))}))
        if kind in _MOVES:
            return self.move(kind, x)
        if kind in _CHOICES:
            return self.choose(kind, x)
        if kind == "clamp":
            return self.add(nn.ClampOp.make([x], self.clamp()))
        if kind == "softmax":
            return self.add(nn.SoftmaxOp.make([x], {"axis": IntegerAttr(self.draw(st.integers(1, 3)), i64)}))
        unary = {"relu": nn.ReluOp, "sigmoid": nn.SigmoidOp, "tanh": nn.TanhOp, "global": nn.GlobalAveragePoolOp}
        return self.add(unary[kind].make([x]))

    def move(self, kind: str, x: SSAValue) -> SSAValue:
        """Data movement, or interpolation, on an image."""
        n, height, width, channels = shape_of(x)
        if kind == "concat":
            fitting = [v for v in self.values if len(shape_of(v)) == 4 and shape_of(v)[:3] == (n, height, width)]
            others = [self.draw(st.sampled_from(fitting)) for _ in range(self.draw(st.integers(1, 2)))]
            return self.add(nn.ConcatOp.make([[x, *others]], {"axis": IntegerAttr(3, i64)}))
        if kind == "pad":
            low, high = ([0, *(self.draw(st.integers(0, 2)) for _ in range(3))] for _ in range(2))
            value = FloatAttr(self.draw(st.sampled_from([0.0, 0.5])), f32)
            return self.add(nn.PadOp.make([x], {"low": ints(low), "high": ints(high), "value": value}))
        if kind == "slice":
            steps = [(0, n, 1), *(self.steps(size) for size in (height, width, channels))]
            offsets, sizes, strides = map(ints, zip(*steps, strict=True))
            return self.add(nn.SliceOp.make([x], {"offsets": offsets, "sizes": sizes, "strides": strides}))
        if kind == "gather":
            axis = self.draw(st.integers(1, 3))
            places = self.rng.integers(-shape_of(x)[axis], shape_of(x)[axis], self.draw(st.integers(1, 9)))
            return self.add(nn.GatherOp.make([x, self.indices(places)], {"axis": IntegerAttr(axis, i64)}))
        if kind == "scatter":
            row = {"offsets": ints([0] * 4), "sizes": ints([1, 1, width, channels]), "strides": ints([1] * 4)}
            places = self.rng.integers(0, [n, height], (1, 1, 2))
            return self.add(nn.ScatterNDOp.make([x, self.add(nn.SliceOp.make([x], row)), self.indices(places)]))
        if kind == "broadcast":
            mean = self.add(nn.GlobalAveragePoolOp.make([x]))
            return self.add(nn.BroadcastOp.make([mean], {"shape": ints([n, height, width, channels])}))
        if kind == "resize":
            return self.add(nn.ResizeOp.make([x], self.doubled(height, width)))
        permutation = [0, *self.draw(st.permutations([1, 2, 3]))]
        return self.add(nn.TransposeOp.make([x], {"permutation": ints(permutation)}))

    def choose(self, kind: str, x: SSAValue) -> SSAValue:
        """A choice, a search or a running sum on an image."""
        along = {"axis": IntegerAttr(self.draw(st.integers(1, 3)), i64)}
        if kind == "search":
            last = BoolAttr.from_bool(self.draw(st.booleans()))
            order = {"k": IntegerAttr(shape_of(x)[along["axis"].value.data], i64), "largest": last}
            search = self.draw(st.sampled_from([nn.ArgMaxOp, nn.ArgMinOp, nn.TopKOp]))
            self.compare(search.make([x], {**along, **(order if search is nn.TopKOp else {"last": last})}))
            return x
        if kind == "running":
            flags = {name: BoolAttr.from_bool(self.draw(st.booleans())) for name in ("exclusive", "reverse")}
            return self.add(nn.CumulativeSumOp.make([x], {**along, **flags}))
        fitting = [v for v in self.values if shape_of(v) == shape_of(x)]
        other = self.draw(st.sampled_from([*fitting, self.number(0.3), self.constant(shape_of(x)[3])]))
        comparison = self.draw(st.sampled_from([nn.LessOp, nn.LessEqualOp, nn.EqualOp]))
        truth = self.compare(comparison.make([x, other]))
        if kind == "masked":
            masked = self.add(nn.WhereOp.make([truth, x, self.number(-1e9)]))
            return self.add(nn.SoftmaxOp.make([masked], along))
        if kind == "cast":
            cast = self.add(nn.CastOp.make([truth], element=f32))
            return self.add(nn.AddOp.make([cast, x]))
        return self.add(nn.WhereOp.make([truth, *self.draw(st.permutations([x, self.draw(st.sampled_from(fitting))]))]))

    def flatten(self, x: SSAValue) -> SSAValue:
        """A fully connected layer, or a product of the image with its transpose."""
        n = shape_of(x)[0]
        features = int(np.prod(shape_of(x)[1:]))
        rows = self.add(nn.ReshapeOp.make([x], {"shape": ints([n, features])}))
        if self.draw(st.booleans()):
            outputs = self.draw(st.integers(1, 20))
            weights = self.constant(outputs, features, scale=1 / np.sqrt(features))
            return self.add(nn.FullyConnectedOp.make([rows, weights, [self.constant(outputs)]], self.clamp()))
        columns = self.add(nn.TransposeOp.make([rows], {"permutation": ints([1, 0])}))
        return self.add(nn.MatMulOp.make([rows, columns], self.clamp()))


_SUMS: dict[str, type[nn.AddOp | nn.SubOp | nn.MulOp]] = {"add": nn.AddOp, "sub": nn.SubOp, "mul": nn.MulOp}

_EXTREMES: dict[str, type[nn.ReduceMaxOp | nn.ReduceMinOp]] = {"max": nn.ReduceMaxOp, "min": nn.ReduceMinOp}

_MOVES = ("concat", "pad", "transpose", "slice", "gather", "scatter", "broadcast", "resize")

_CHOICES = ("where", "masked", "cast", "search", "running")

_STEPS = (
    *("conv2d", "conv2d", "depthwise", "max_pool2d", "average_pool2d", *_SUMS, *_EXTREMES),
    *("clamp", "relu", "sigmoid", "tanh", "softmax", "global"),
    *_MOVES,
)


@st.composite
def graphs(draw: st.DrawFn, most: int = 6, *, choices: bool = False) -> Graph:
    """Networks of up to `most` operations and a head, with the ranges of four samples; some ranges are missing.

    With `choices` there are choices, searches and running sums, and their truth values and indices are results.
    """
    shape = (draw(st.integers(1, 2)), draw(st.integers(2, 7)), draw(st.integers(2, 7)), draw(st.integers(1, 9)))
    builder = _Builder(draw, shape, choices=choices)
    x = builder.values[0]
    for _ in range(draw(st.integers(1, most))):
        x = builder.step(x)
    results = [builder.flatten(x) if draw(st.booleans()) else x]
    if draw(st.integers(0, 4)) == 0:
        results.append(draw(st.sampled_from(builder.values)))
    builder.block.add_op(func.ReturnOp(*results, *builder.found))
    builder.function.update_function_type()
    builder.function.arg_attrs = ArrayAttr([DictionaryAttr(NAME.entry(NameAttr.of(tensors=["t0"])))])
    module = ModuleOp([builder.function])
    InsertObserversPass().apply(make_context(), module)
    samples = [builder.rng.normal(size=shape).astype(np.float32) for _ in range(4)]
    _observe(builder.function, samples, skip=draw(st.sampled_from([None] * 5 + [2])))
    module.verify()
    return Graph(module, samples)


def _observe(function: func.FuncOp, samples: list[Array], skip: int | None) -> None:
    """Writes the ranges that samples have; every `skip`-th observer stays without one."""
    values = [trace(function, [s])[1] for s in samples]
    for index, observer in enumerate(o for o in function.body.block.ops if isinstance(o, ObserveOp)):
        assert is_float(observer.value)
        if skip is None or (index + 1) % skip:  # the first always has one
            seen = [v[observer.value] for v in values]
            lo, hi = min(float(a.min()) for a in seen), max(float(a.max()) for a in seen)
            named = ObserveOp(observer.value, observer.tensor.data, (lo, hi))
            assert named.range is not None
            observer.range = named.range
            named.erase()


# ---------------------------------------------------------------------------------------------------------------
# Many of them


SCHEMAS = ("asymmetric", "symmetric", "symmetric_with_uint8", "symmetric_with_power2_scale")


def drawn(examples: int) -> settings:
    """So many networks, as they come: a smaller one that fails too takes long to find and says little more."""
    return settings(
        max_examples=examples,
        phases=[Phase.generate],
        deadline=None,
        database=None,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.large_base_example],
    )


def quantized(schema: str, examples: int, check: Callable[[ModuleOp, Graph], bool], **options: Any) -> int:
    """Quantizes random networks and checks each.

    Args:
        schema: One of `SCHEMAS`; each has networks of its own.
        examples: How many are drawn. Those that are not quantized are passed over: no observer holds a range, or
            `options` refuse what stays float.
        check: Says of a quantized network, and of what it was made of, whether it counts.
        options: Others of `qmlir.quantize`.

    Returns:
        How many count.
    """
    counted = 0

    @seed(SCHEMAS.index(schema))
    @drawn(examples)
    @given(graphs(), st.booleans())
    def draw(graph: Graph, per_channel: bool) -> None:
        nonlocal counted
        try:
            module = qmlir.quantize(graph.module, schema=schema, per_channel=per_channel, **options)
        except PipelineError:
            return
        counted += check(module, graph)

    draw()
    return counted
