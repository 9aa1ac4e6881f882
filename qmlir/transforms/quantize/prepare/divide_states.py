"""`divide-states`: caches of rows hold a row in 8 bits, and its magnitude beside it.

A cache is a state that the network only moves: its next value is the state itself with some rows replaced, shifted or
joined. A decoder's keys and values are such caches, with a row for each head and place. One scale for all rows, in 8
bits, leaves the small ones few steps, and 16 bits take twice the memory. By `activations=dynamic`, a row is divided by
its largest magnitude when it enters the cache. The quotients have 8 bits. The magnitude is a state of its own, moved as
the row is:

    q' = moved(q, new / max |new|),  m' = moved(m, max |new|),  what reads the cache reads q' · m'

By `cache-precision=int4`, the quotients are integers from −7 to 7, which `pack-states` stores two a byte.

The state keeps its name, and the magnitudes are called after it, as in `k0.magnitudes`. A value before the first call
is divided in the same way. A state stays whole if an operation computes on its rows on the way, or if the policy says
so.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NoReturn, cast

import numpy as np
from xdsl.context import Context
from xdsl.dialects import func
from xdsl.dialects.builtin import (
    ArrayAttr,
    DictionaryAttr,
    ModuleOp,
    TensorType,
    f32,
)
from xdsl.ir import BlockArgument, Operation, SSAValue, Use
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter

from qmlir.dialects.calib import Bounds, ObserveOp
from qmlir.dialects.nn import (
    DivideRowsOp,
    MultiplyRowsOp,
    RowMagnitudesOp,
)
from qmlir.dialects.nn.base import is_float
from qmlir.dialects.nn.quantizable import data_operands
from qmlir.ir.context import QmlirContext
from qmlir.ir.facts import NAME, STATE
from qmlir.ir.interfaces import Array, TensorOp, shape_of
from qmlir.ir.names import NameAttr
from qmlir.ir.replayed import Replayed
from qmlir.ir.rewriting import tensor_name
from qmlir.ir.signature import defined_functions
from qmlir.ir.states import StateAttr, begin_with, reset_value, states_of
from qmlir.numerics.schemas import QuantizationError
from qmlir.policies.legality import target_of
from qmlir.policies.runtimes import runtime_of
from qmlir.settings.quant_config import OpConfig, add_settings, config_of, op_config_of
from qmlir.transforms.quantize.prepare.divide_rows import BYTES
from qmlir.transforms.quantize.ranges.moved_rows import moved, moves_of
from qmlir.transforms.quantize.ranges.row_scales import LEAST, MAGNITUDES, NIBBLE_LIMIT, ROW_LIMIT, is_dynamic, observe

LEAST_ROW = 8
"""The least elements of a row that are worth a magnitude."""


class DivideStatesPass(ModulePass):
    """Makes two states of each cache: quotients of rows, and their magnitudes.

    ```mlir
    func.func @main(%i: tensor<1x1xi64>, %x: tensor<1x8xf32>, %s: tensor<4x8xf32> {qmlir.state = #qmlir.state<0>}) {
      %0 = nn.scatter_nd %s, %x, %i : …
      func.return %0
    // becomes, by activations=dynamic
    func.func @main(%i, %x, %s: tensor<4x8xf32> {qmlir.state = #qmlir.state<0>},
                    %m: tensor<4x1xf32> {qmlir.state = #qmlir.state<1>}) {
      %0 = nn.scatter_nd %s, %q, %i : …      // %q = nn.divide_rows %x
      %1 = nn.scatter_nd %m, %n, %i : …      // %n = nn.row_magnitudes %x
      func.return %0, %1
    ```
    """

    name = "divide-states"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        default, found = config_of(op).op_config(), False
        if target_of(ctx).wide_results and runtime_of(op) == "default":
            for function in defined_functions(op):
                for index, state in states_of(function).items():
                    if (cache := _cache_of(function, index, state, default)) is not None:
                        name, magnitudes, found = tensor_name(cache.state), cache.divide(), True
                        if isinstance(ctx, QmlirContext):
                            ctx.samples = {k: _divided_in(v, name, magnitudes) for k, v in ctx.samples.items()}
        if default.cache_precision == "int4" and not found:
            _refuse(default)


def _refuse(default: OpConfig) -> NoReturn:
    """Raises QuantizationError: a network has no rows to be stored in 4 bits."""
    static = default.activations == "static"
    raise QuantizationError(
        "cache-precision=int4 stores quotients of rows, in states that the network only moves",
        got="activations=static" if static else "no such state",
        remedy="give activations=dynamic" if static else "leave it out, or name states by --state",
    )


def _divided_in(samples: Iterable[Any], name: str, magnitudes: str) -> Sequence[Any]:
    """Samples in which a state, where it is given by its name, is given as quotients of rows and their magnitudes."""
    made = {name: _quotients, magnitudes: _magnitudes}
    if isinstance(samples, Replayed):
        return samples.computed(name, made)
    return [_divided(sample, name, made) for sample in samples]


def _divided(sample: Any, name: str, made: Mapping[str, Callable[[Array], Array]]) -> Any:
    """A sample in which arrays are made of that of a name, if it has that name."""
    given = cast("Mapping[str, Array]", sample)
    if not isinstance(sample, Mapping) or name not in given:
        return given
    return {**given, **{new: function(given[name]) for new, function in made.items()}}


def _magnitudes(rows: Array) -> Array:
    return np.abs(rows).max(axis=-1, keepdims=True)


def _quotients(rows: Array) -> Array:
    return rows / np.maximum(_magnitudes(rows), LEAST)


@dataclass
class Cache:
    """A state that is only moved.

    function  the network
    state     its argument
    result    the index of its next value among the function's results
    moves     the operations that move rows from the state and from new rows to the next value, in order
    bounds    what was observed of its elements
    limit     the integer that stands for the quotient 1
    """

    function: func.FuncOp
    state: BlockArgument
    result: int
    moves: Sequence[TensorOp]
    bounds: Bounds
    limit: int
    quotients: dict[SSAValue, SSAValue] = field(default_factory=dict[SSAValue, SSAValue])
    magnitudes: dict[SSAValue, SSAValue] = field(default_factory=dict[SSAValue, SSAValue])

    def divide(self) -> str:
        """Divides the rows that enter, moves quotients and magnitudes, and multiplies them for what reads the cache.

        Returns:
            The name of the state of magnitudes.
        """
        most = max(map(abs, self.bounds))
        values = [self.state, *(o.results[0] for o in self.moves)]
        readers = {v: [u for u in v.uses if u.operation not in self.moves] for v in values}
        self.quotients[self.state], self.magnitudes[self.state] = self.state, self._new_state()
        for op in self.moves:
            for value in [v for v in data_operands(op) if v not in self.quotients]:
                self._enter(value, op)
            rows, magnitudes = moved(op, self.quotients, None), moved(op, self.magnitudes, 1)
            observe(rows.results[0], f"{self._name(op)} rows", (-1.0, 1.0))
            observe(magnitudes.results[0], f"{self._name(op)} magnitudes", (0.0, most))
            add_settings(rows, self._format)
            self.quotients[op.results[0]], self.magnitudes[op.results[0]] = rows.results[0], magnitudes.results[0]
        for value in values:
            self._multiply(value, readers[value])
        self._return()
        for op in reversed(self.moves):
            Rewriter.erase_op(op)
        return f"{tensor_name(self.state)}{MAGNITUDES}"

    @property
    def _format(self) -> dict[str, Any]:
        """The format of quotients that are moved."""
        return {**BYTES, "parameters": (1 / self.limit, 0)}

    def _name(self, op: Operation) -> str:
        return tensor_name(op.results[0]) or op.name

    def _new_state(self) -> BlockArgument:
        """Adds the magnitudes of the state's rows to the arguments."""
        block, shape = self.function.body.block, (*shape_of(self.state)[:-1], 1)
        name = f"{tensor_name(self.state)}{MAGNITUDES}"
        held = block.insert_arg(TensorType(f32, shape), len(block.args))
        mark = STATE.entry(StateAttr.of(len(self._end().operands))) | NAME.entry(NameAttr.of(tensors=[name]))
        entries = self.function.arg_attrs or [DictionaryAttr({})] * held.index
        self.function.arg_attrs = ArrayAttr([*entries, DictionaryAttr(mark)])
        self._begin(held)
        Rewriter.insert_op(ObserveOp(held, name, (0.0, max(map(abs, self.bounds)))), InsertPoint.at_start(block))
        return held

    def _begin(self, magnitudes: BlockArgument) -> None:
        """Divides the value before the first call, too."""
        before = reset_value(self.state.type, states_of(self.function)[self.state.index])
        if before.any():
            self.function.update_function_type()
            begin_with(self.function, self.state.index, _quotients(before))
            begin_with(self.function, magnitudes.index, _magnitudes(before))

    def _end(self) -> func.ReturnOp:
        end = self.function.body.block.last_op
        assert isinstance(end, func.ReturnOp)
        return end

    def _enter(self, value: SSAValue, op: Operation) -> None:
        """Divides rows that enter the cache."""
        magnitudes, quotients = RowMagnitudesOp.make([value]), DivideRowsOp.make([value])
        name = f"{tensor_name(self.state)}.new"  # entries of a network know each other's operations by names
        NAME.put(magnitudes, NameAttr.of(tensors=[f"{name}{MAGNITUDES}"]))
        NAME.put(quotients, NameAttr.of(tensors=[name]))
        Rewriter.insert_op([magnitudes, quotients], InsertPoint.before(op))
        observe(magnitudes.y, f"{self._name(op)} magnitudes", (0.0, max(map(abs, self.bounds))))
        observe(quotients.y, f"{self._name(op)} rows", (-1.0, 1.0))
        add_settings(quotients, BYTES)
        if self.limit != ROW_LIMIT:
            add_settings(quotients, self._format)
        self.quotients[value], self.magnitudes[value] = quotients.y, magnitudes.y

    def _multiply(self, value: SSAValue, readers: Sequence[Use]) -> None:
        """Gives what reads the cache the product of both parts, and takes the observers of the value away."""
        others = [u for u in readers if not isinstance(u.operation, ObserveOp | func.ReturnOp)]
        if others:
            product = MultiplyRowsOp.make([self.quotients[value], self.magnitudes[value]])
            NAME.put(product, NameAttr.of(tensors=[f"{tensor_name(self.state)}.rows"]))
            made = self.magnitudes[value].owner
            Rewriter.insert_op(
                product, InsertPoint.after(made) if isinstance(made, Operation) else InsertPoint.at_start(made)
            )
            observe(product.y, f"{tensor_name(self.state)}.rows", self.bounds)
            for use in others:
                use.operation.operands[use.index] = product.y
        for observer in [u.operation for u in readers if isinstance(u.operation, ObserveOp)]:
            Rewriter.erase_op(observer)
        if value is self.state:
            held = ObserveOp(value, tensor_name(value), (-1.0, 1.0))
            add_settings(held, self._format)
            Rewriter.insert_op(held, InsertPoint.at_start(self.state.block))

    def _return(self) -> None:
        """Returns both parts of the next value."""
        end = self._end()
        next_value = end.operands[self.result]
        operands = list(end.operands)
        operands[self.result] = self.quotients[next_value]
        Rewriter.replace_op(end, func.ReturnOp(*operands, self.magnitudes[next_value]))
        if self.function.res_attrs is not None:
            name = NameAttr.of(tensors=[f"{tensor_name(next_value)}{MAGNITUDES}"])
            self.function.res_attrs = ArrayAttr([*self.function.res_attrs, DictionaryAttr(NAME.entry(name))])
        self.function.update_function_type()


def _cache_of(function: func.FuncOp, index: int, state: StateAttr, default: OpConfig) -> Cache | None:
    """The cache that a state is; None if it is none, or stays whole."""
    argument, end = function.body.block.args[index], function.body.block.last_op
    assert isinstance(end, func.ReturnOp)
    shape = shape_of(argument)
    if not is_float(argument) or len(shape) < 2 or shape[-1] < LEAST_ROW:
        return None
    moves = moves_of(function, argument, end.operands[state.index])
    seen = [o for v in (argument, end.operands[state.index]) for o in _observers(v)]
    bounds = [o.bounds for o in seen if o.bounds is not None]
    if not bounds or not moves or not is_dynamic(op_config_of(moves[-1], default)):
        return None
    whole = min(b[0] for b in bounds), max(b[1] for b in bounds)
    return Cache(function, argument, state.index, moves, whole, _limit(argument, op_config_of(moves[-1], default)))


def _limit(state: BlockArgument, op_config: OpConfig) -> int:
    """The largest integer of a quotient, which stands for 1.

    Raises:
        QuantizationError: Rows of 4 bits do not fill their bytes.
    """
    size = shape_of(state)[-1]
    if op_config.cache_precision == "int8":
        return ROW_LIMIT
    if size % 2:
        raise QuantizationError(
            "cache-precision=int4 stores two elements of a row in a byte, and needs an even number of them",
            where=f'state "{tensor_name(state)}"',
            got=str(size),
            remedy="leave it out",
        )
    return NIBBLE_LIMIT


def _observers(value: SSAValue) -> list[ObserveOp]:
    return [o for u in value.uses if isinstance(o := u.operation, ObserveOp)]
