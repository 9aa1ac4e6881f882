"""`rotate-values`: rotates the values of attention within their heads, and folds the rotation into weights.

A row of attention's result is a weighted sum of rows of values, so it is rotated if they are. With an orthogonal matrix
Q for each head, the layer that computes values multiplies by Q, the layer that reads the result by Qᵀ, and nothing is
added to the network. In between, operations may move rows of a head, into a cache and from it; heads of queries may
share a head of values. A cache holds rotated values then, so it has to be a state of the network; what it holds before
the first call is rotated, too.

Queries and keys are not rotated here: behind a rotary embedding that takes a transform of both at run time
(rotate_keys.py), and of what it would save, a cache of 8 bits with scales of its own has enough.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import prod

from xdsl.context import Context
from xdsl.dialects import func
from xdsl.dialects.builtin import ModuleOp, NoneAttr
from xdsl.ir import Block, BlockArgument, Operation, SSAValue, Use
from xdsl.passes import ModulePass

from qmlir.dialects.nn import (
    ConcatOp,
    FullyConnectedOp,
    MatMulOp,
    ReshapeOp,
    ScatterNDOp,
    SoftmaxOp,
    TransposeOp,
    WhereOp,
)
from qmlir.dialects.nn.base import is_float
from qmlir.ir.interfaces import shape_of
from qmlir.ir.rewriting import node_name, tensor_name
from qmlir.ir.signature import defined_functions
from qmlir.ir.states import StateAttr, begin_with, reset_value, states_of
from qmlir.numerics.hadamard import Matrix, block_of, rotation
from qmlir.transforms.quantize.adjust.channel_pairs import is_scalable
from qmlir.transforms.quantize.adjust.gained_channels import moves_rows
from qmlir.transforms.quantize.prepare.rotated_layers import (
    InexactError,
    connected,
    note_rotated,
    rename_rotated,
    rotate_read,
    rotate_written,
    times,
)


@dataclass(frozen=True)
class RotateValuesPass(ModulePass):
    """Rotates the values of attention between the layer that computes them and the layer that reads attention's result.

    ```mlir
    %v = nn.fully_connected %x, %wv : …
    %y = nn.matmul %shares, %v : …
    %o = nn.fully_connected %y, %wo : …
    // becomes, with %wvq = Qᵀ · %wv and %woq = %wo · Q
    %v = nn.fully_connected %x, %wvq {qmlir.rotated = "values rotated in heads of 64"} : …
    %y = nn.matmul %shares, %v : …
    %o = nn.fully_connected %y, %woq {qmlir.rotated = "values rotated in heads of 64"} : …
    ```
    """

    name = "rotate-values"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for function in defined_functions(op):
            met = set[SSAValue]()
            for product in [o for o in function.body.block.ops if isinstance(o, MatMulOp) and _weighs_rows(o)]:
                if product.rhs not in met:
                    heads = Heads.of(product, function)
                    met.update(heads.tensors)
                    heads.rotate()


@dataclass
class Heads:
    """Tensors of rows of heads, which weighted sums connect.

    size     the elements of a head
    states   the states of the function, by the place of their argument
    results  what the function returns
    tensors  the tensors: heads are `size` neighbours along the last axis
    writers  the layers that compute a tensor
    readers  the layers that read a tensor
    sums     the weighted sums
    refusal  why they cannot be rotated; empty if they can
    """

    size: int
    states: Mapping[int, StateAttr]
    results: func.ReturnOp
    tensors: dict[SSAValue, None] = field(default_factory=dict[SSAValue, None])
    writers: list[FullyConnectedOp] = field(default_factory=list[FullyConnectedOp])
    readers: list[FullyConnectedOp] = field(default_factory=list[FullyConnectedOp])
    sums: list[MatMulOp] = field(default_factory=list[MatMulOp])
    refusal: str = ""

    @staticmethod
    def of(product: MatMulOp, function: func.FuncOp) -> "Heads":
        """Returns the tensors that are connected with the rows that a product adds up."""
        end = function.body.block.last_op
        assert isinstance(end, func.ReturnOp)
        found = Heads(shape_of(product.rhs)[-1], states_of(function), end, sums=[product])
        found.tensors, found.refusal = connected(product.rhs, found._made_of, found._read)
        if found.size % 2:
            found.refusal = found.refusal or f"there is no Hadamard matrix for heads of {found.size}"
        return found

    def _made_of(self, value: SSAValue) -> list[SSAValue]:
        """Notes what writes a tensor; returns the tensors that it is made of."""
        match op := value.owner:
            case FullyConnectedOp() if is_scalable(op) and op.bounds() == (None, None):
                self.writers.append(op)
                return []
            case MatMulOp():
                self.sums += [op] if op not in self.sums else []
                return [op.rhs]
            case Block():
                place = value.index if isinstance(value, BlockArgument) else -1
                state = self.states.get(place)
                if state is None:
                    raise InexactError(f'the input "{tensor_name(value)}" holds values, and is no state')
                return [self.results.operands[state.index]]
            case _:
                return [op.operands[i] for i in self._moved(op)]

    def _read(self, use: Use) -> list[SSAValue]:
        """Notes what reads a tensor; returns the tensors that this makes."""
        match op := use.operation:
            case FullyConnectedOp() if use.index == 0 and is_scalable(op):
                self.readers.append(op)
                return []
            case MatMulOp() if use.index == 1:
                return [op.y]
            case func.ReturnOp():
                places = [place for place, state in self.states.items() if state.index == use.index]
                if not places:
                    raise InexactError(f'the network returns them, "{tensor_name(op.operands[use.index])}"')
                function = op.parent_op()
                assert isinstance(function, func.FuncOp)
                return [function.body.block.args[places[0]]]
            case _ if use.index in self._moved(op):
                return [op.results[0]]
            case _:
                raise InexactError(f"{_called(op)} reads them, not as rows of heads")

    def _moved(self, op: Operation) -> list[int]:
        """The operands of an operation whose rows of heads are in its result.

        Raises:
            InexactError: The operation takes rows apart, or computes something else.
        """
        last = shape_of(op.results[0])[-1:]
        match op:
            case ReshapeOp() if last and last[0] % self.size == shape_of(op.x)[-1] % self.size == 0:
                return [0]
            case ConcatOp() if op.axis.value.data != len(shape_of(op.y)) - 1:
                return list(range(len(op.operands)))
            case ScatterNDOp() if shape_of(op.indices)[-1] < len(shape_of(op.x)):
                return [0, 1]
            case WhereOp() if shape_of(op.condition)[-1:] in ((), (1,)) and all(
                shape_of(v)[-1:] == last for v in (op.lhs, op.rhs)
            ):
                return [1, 2]
            case _ if moves_rows(op):
                return [0]
            case _:
                raise InexactError(f"{_called(op)} computes with single elements of them")

    def rotate(self) -> None:
        """Rotates the heads, or notes on the weighted sums why not."""
        matrix = rotation(self.size)
        if self.refusal or matrix is None or not self.writers or not self.readers:
            note_rotated(self.sums, f"values not rotated: {self.refusal or 'no layer writes or reads them'}")
            return
        for layer in self.writers:
            rotate_written(layer, matrix)
        for layer in self.readers:
            rotate_read(layer, matrix)
        self._begin(matrix)
        what = f"values rotated in heads of {self.size} by Hadamard matrices of order {block_of(self.size)}"
        note_rotated([*self.writers, *self.sums, *self.readers], what)
        kept = {*self.results.operands}
        rename_rotated(v for v in self.tensors if isinstance(v.owner, Operation) and v not in kept)

    def _begin(self, matrix: Matrix) -> None:
        """Rotates what states hold before the first call."""
        function = self.results.parent_op()
        assert isinstance(function, func.FuncOp)
        for place, state in self.states.items():
            argument = function.body.block.args[place]
            if argument in self.tensors and not isinstance(state.reset, NoneAttr):
                before = reset_value(argument.type, state)
                begin_with(function, place, times(before, matrix).reshape(before.shape))


def _weighs_rows(op: MatMulOp) -> bool:
    """Whether a product adds up rows by the shares of a softmax."""
    value: SSAValue = op.lhs
    while isinstance(value.owner, ReshapeOp | TransposeOp):
        value = value.owner.operands[0]
    return isinstance(value.owner, SoftmaxOp) and is_float(op.y) and prod(shape_of(op.rhs)) > 0


def _called(op: Operation) -> str:
    return f'{op.name} "{node_name(op)}"'
