"""Random float graphs as frontends write them: spatial operations between transposes, names on what computes."""

import math
from collections.abc import Sequence

import numpy as np
from xdsl.builder import Builder
from xdsl.dialects import func
from xdsl.dialects.builtin import FloatAttr, IntegerAttr, ModuleOp, TensorType, f32, i64
from xdsl.ir import Attribute, Block, Region, SSAValue
from xdsl.rewriter import InsertPoint

from qmlir.dialects.nn import (
    AddOp,
    AveragePool2DOp,
    ClampOp,
    ConcatOp,
    ConstantOp,
    Conv2DOp,
    DepthwiseConv2DOp,
    FullyConnectedOp,
    GlobalAveragePoolOp,
    MatMulOp,
    MaxPool2DOp,
    MulOp,
    PadOp,
    ReluOp,
    ReshapeOp,
    SigmoidOp,
    SliceOp,
    SoftmaxOp,
    TransposeOp,
)
from qmlir.dialects.nn.base import bound
from qmlir.dialects.windows import ints
from qmlir.ir.facts import NAME
from qmlir.ir.interfaces import Array, TensorOp, shape_of
from qmlir.ir.names import NameAttr
from qmlir.ir.rewriting import names_of_value, set_names

LARGEST = 1 << 12
"""Elements of a value that later steps may use."""

CHANNELS_LAST, CHANNELS_FIRST = (0, 2, 3, 1), (0, 3, 1, 2)


class RandomGraph:
    """A module of `size` random steps, each a few operations, that computes on one or two images [1, C, H, W]."""

    def __init__(self, seed: int, size: int = 12):
        self.rng = np.random.default_rng(seed)
        self.count = 0
        shape = (self.pick([1, 1, 2]), self.pick([1, 3, 4]), self.pick([4, 6]), self.pick([4, 6]))
        arguments = [TensorType(f32, shape) for _ in range(self.pick([1, 2]))]
        self.block = Block(arg_types=arguments)
        self.builder = Builder(InsertPoint.at_end(self.block))
        self.values: list[SSAValue] = list(self.block.args)
        for _ in range(size):
            self.step()
        results = [self.values[-1], *([self.value()] if self.rng.random() < 0.3 else [])]
        self.builder.insert(func.ReturnOp(*results))
        function = func.FuncOp("main", ([a.type for a in self.block.args], [r.type for r in results]),
                               Region(self.block))  # fmt: skip
        for i, argument in enumerate(self.block.args):
            set_names(argument, NameAttr.of(tensors=[f"input{i}"]))
        self.module = ModuleOp([function])

    # Choosing.

    def pick(self, choices: Sequence[int]) -> int:
        return int(self.rng.choice(list(choices)))

    def value(self, rank: int | None = None) -> SSAValue:
        """A value computed before, rather a late one."""
        found = [v for v in self.values if rank is None or len(shape_of(v)) == rank]
        return found[max(0, len(found) - 1 - int(self.rng.geometric(0.6)) + 1)] if found else self.values[0]

    def array(self, shape: Sequence[int]) -> Array:
        return self.rng.standard_normal(tuple(shape)).astype(np.float32)

    # Writing.

    def name(self) -> NameAttr:
        self.count += 1
        return NameAttr.of([f"node{self.count}"] if self.rng.random() < 0.7 else [], [f"tensor{self.count}"])

    def constant(self, array: Array) -> SSAValue:
        return self.builder.insert(ConstantOp(array.astype(np.float32), attributes=NAME.entry(self.name()))).y

    def do(
        self, kind: type[TensorOp], operands: Sequence[SSAValue | Sequence[SSAValue]], **properties: Attribute | None
    ) -> SSAValue:
        return self.builder.insert(kind.make(operands, properties, attributes=NAME.entry(self.name()))).results[0]

    def permuted(self, x: SSAValue, p: Sequence[int]) -> SSAValue:
        """A transpose as frontends insert it, without a name."""
        return self.builder.insert(TransposeOp.make([x], {"permutation": ints(list(p))})).y

    def spatial(self, kind: type[TensorOp], x: SSAValue, *operands: SSAValue, **properties: Attribute) -> SSAValue:
        image = self.permuted(x, CHANNELS_LAST)
        return self.permuted(self.do(kind, [image, *operands, *([[]] if len(operands) == 1 else [])], **properties),
                             CHANNELS_FIRST)  # fmt: skip

    # The steps.

    def step(self) -> None:
        steps = (
            self.convolution, self.convolution, self.depthwise, self.pool, self.activation, self.activation,
            self.with_constant, self.with_constant, self.two_values, self.two_values, self.batch_norm, self.concat,
            self.part, self.pad, self.permutation, self.reshape, self.softmax, self.dense, self.constants,
        )  # fmt: skip
        result = steps[self.rng.integers(len(steps))]()
        if result is not None and math.prod(shape_of(result)) <= LARGEST and len(shape_of(result)) <= 6:
            self.values.append(result)

    def convolution(self) -> SSAValue | None:
        x = self.value(4)
        n, c, h, w = shape_of(x) if len(shape_of(x)) == 4 else (0, 0, 0, 0)
        k, pad, out = self.pick([1, 3]), self.pick([0, 1]), self.pick([1, 3, 4])
        if min(h, w) + 2 * pad < k or n == 0:
            return None
        weights = self.constant(self.array((out, k, k, c)) / np.sqrt(k * k * c))
        bias = [self.constant(self.array((out,)))] if self.rng.random() < 0.5 else []
        return self.spatial(Conv2DOp, x, weights, *bias, padding=ints([pad] * 4))

    def depthwise(self) -> SSAValue | None:
        x = self.value(4)
        shape = shape_of(x)
        if len(shape) != 4:
            return None
        weights = self.constant(self.array((1, 3, 3, shape[1] * self.pick([1, 2]))) / 3)
        return self.spatial(DepthwiseConv2DOp, x, weights, padding=ints([1] * 4))

    def pool(self) -> SSAValue | None:
        x = self.value(4)
        if len(shape_of(x)) != 4:
            return None
        if self.rng.random() < 0.3:
            y = self.do(GlobalAveragePoolOp, [self.permuted(x, CHANNELS_LAST)])
        elif min(shape_of(x)[2:]) < 2:
            return None
        else:
            kind = MaxPool2DOp if self.rng.random() < 0.7 else AveragePool2DOp
            y = self.do(kind, [self.permuted(x, CHANNELS_LAST)], window=ints([2, 2]), strides=ints([2, 2]))
        return self.permuted(y, CHANNELS_FIRST)

    def activation(self) -> SSAValue:
        x = self.value()
        match self.pick(range(4)):
            case 0:
                return self.do(SigmoidOp, [x])
            case 1:
                low, high = sorted(self.rng.uniform(-1, 1, 2))
                return self.do(ClampOp, [x], min=bound(float(np.float32(low))), max=bound(float(np.float32(high))))
            case _:
                return self.do(ReluOp, [x])

    def with_constant(self) -> SSAValue:
        x = self.value()
        keep = self.rng.random(len(shape_of(x))) < 0.4
        shape = [n if k else 1 for n, k in zip(shape_of(x), keep, strict=True)][self.pick([0, 0, 0, 1, 2]) :]
        kind = AddOp if self.rng.random() < 0.5 else MulOp
        neutral = self.rng.random() < 0.1
        constant = self.constant(np.full(shape, 0 if kind is AddOp else 1) if neutral else self.array(shape))
        return self.do(kind, [x, constant] if self.rng.random() < 0.7 else [constant, x])

    def two_values(self) -> SSAValue | None:
        x = self.value()
        alike = [x, *(v for v in self.values if _broadcast(shape_of(v), shape_of(x)))]
        other = alike[self.rng.integers(len(alike))]
        kind = AddOp if self.rng.random() < 0.7 else MulOp
        return self.do(kind, [x, other] if self.rng.random() < 0.5 else [other, x])

    def batch_norm(self) -> SSAValue | None:
        x = self.value(4)
        if len(shape_of(x)) != 4:
            return None
        image = self.permuted(x, CHANNELS_LAST)
        scaled = self.do(MulOp, [image, self.constant(self.array(shape_of(x)[1:2]))])
        shifted = self.do(AddOp, [scaled, self.constant(self.array(shape_of(x)[1:2]))])
        return self.permuted(shifted, CHANNELS_FIRST)

    def concat(self) -> SSAValue:
        x = self.value()
        axis = self.pick(range(len(shape_of(x))))
        rest = [v for v in self.values if _rest(shape_of(v), axis) == _rest(shape_of(x), axis)]
        others = [rest[i] for i in self.rng.integers(len(rest), size=self.pick([0, 1, 2]))]
        return self.do(ConcatOp, [[x, *others]], axis=IntegerAttr(axis, i64))

    def part(self) -> SSAValue:
        """Every second element, or each, of a part of a value: more often than not of a concatenation."""
        x = self.concat() if self.rng.random() < 0.7 else self.value()
        sizes = [int(self.rng.integers(1, n + 1)) for n in shape_of(x)]
        offsets = [int(self.rng.integers(n - size + 1)) for n, size in zip(shape_of(x), sizes, strict=True)]
        strides = [self.pick([1, 1, 2]) for _ in sizes]
        counts = [(size - 1) // stride + 1 for size, stride in zip(sizes, strides, strict=True)]
        return self.do(SliceOp, [x], offsets=ints(offsets), sizes=ints(counts), strides=ints(strides))

    def pad(self) -> SSAValue:
        x = self.value()
        low, high = (self.rng.integers(0, 2, len(shape_of(x))).tolist() for _ in range(2))
        return self.do(PadOp, [x], low=ints(low), high=ints(high), value=FloatAttr(0.5, f32))

    def permutation(self) -> SSAValue:
        x = self.value()
        return self.do(TransposeOp, [x], permutation=ints(self.rng.permutation(len(shape_of(x))).tolist()))

    def reshape(self) -> SSAValue:
        x = self.value()
        shape = list(shape_of(x))
        for _ in range(self.pick([1, 2])):
            i = self.pick(range(len(shape)))
            match self.pick(range(3)):
                case 0 if i + 1 < len(shape):
                    shape[i : i + 2] = [shape[i] * shape[i + 1]]
                case 1 if shape[i] % 2 == 0:
                    shape[i : i + 1] = [2, shape[i] // 2]
                case _:
                    shape.insert(i, 1)
        return self.do(ReshapeOp, [x], shape=ints(shape))

    def softmax(self) -> SSAValue:
        x = self.value()
        return self.do(SoftmaxOp, [x], axis=IntegerAttr(self.pick(range(len(shape_of(x)))), i64))

    def dense(self) -> SSAValue:
        x, outputs = self.value(), self.pick([2, 4])
        if self.rng.random() < 0.3 and len(shape_of(x)) > 1:
            ones = [1] * self.pick([0, 0, 1, len(shape_of(x)) - 1])
            if self.rng.random() < 0.3:
                depth = shape_of(x)[-2]
                return self.do(MatMulOp, [self.constant(self.array((*ones, outputs, depth)) / np.sqrt(depth)), x])
            depth = shape_of(x)[-1]
            return self.do(MatMulOp, [x, self.constant(self.array((*ones, depth, outputs)) / np.sqrt(depth))])
        rows = shape_of(x)[0]
        columns = int(np.prod(shape_of(x)[1:]))
        flat = self.do(ReshapeOp, [x], shape=ints([rows, columns]))
        weights = self.constant(self.array((outputs, columns)) / np.sqrt(columns))
        return self.do(FullyConnectedOp, [flat, weights, []])

    def constants(self) -> SSAValue:
        """Something to fold: a constant computed from constants, added."""
        x = self.value()
        made = self.do(MulOp, [self.constant(self.array(shape_of(x))), self.constant(self.array([1]))])
        return self.do(AddOp, [x, self.do(ReluOp, [made])])


def _broadcast(a: Sequence[int], b: Sequence[int]) -> bool:
    try:
        return math.prod(np.broadcast_shapes(tuple(a), tuple(b))) <= LARGEST
    except ValueError:
        return False


def _rest(shape: Sequence[int], axis: int) -> tuple[int, ...] | None:
    return (*shape[:axis], *shape[axis + 1 :], len(shape)) if axis < len(shape) else None


def inputs_of(module: ModuleOp, seed: int = 0) -> list[Array]:
    """Random inputs for the module's function."""
    rng = np.random.default_rng(seed)
    return [rng.standard_normal(shape_of(a)).astype(np.float32) for a in function_of(module).body.block.args]


def function_of(module: ModuleOp) -> func.FuncOp:
    """The module's only function."""
    (function,) = (op for op in module.body.ops if isinstance(op, func.FuncOp))
    return function


def names_in(module: ModuleOp) -> set[str]:
    """All node and tensor names that operations and arguments carry."""
    function = function_of(module)
    owners = [names_of_value(a) for a in function.body.block.args]
    owners += [names_of_value(op.results[0]) for op in function.body.block.ops if op.results]
    return {s for o in owners for names in (o.nodes, o.tensors, o.absorbed) for s in names}
