"""`#qmlir.state`: marks an argument of a function whose value lives from call to call.

    func.func @main(%x: tensor<1x4xf32>, %s: tensor<1x8xf32> {qmlir.state = #qmlir.state<1>})
        -> (tensor<1x2xf32>, tensor<1x8xf32>)

The function itself keeps nothing: a state is one more argument and one more result, and the result of a call is the
argument of the next. Passes, back ends and exporters therefore treat a state as any other tensor. What calls the
function holds the value between calls (callable_network.py, and the C header of compiled code).

Before the first call, and after a reset, a state is its `reset` value: `#qmlir.state<1, reset = #qmlir.weights<…>>`, in
the integers or floats in which the argument is stored, either one element for all or an array of the argument's shape.
Without `reset`, all elements are the number 0, which is the zero point of a quantized argument.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import cast

import numpy as np
from xdsl.dialects import func
from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, IntegerAttr, NoneAttr, TensorType, i64
from xdsl.ir import Attribute, Block, BlockArgument, ParametrizedAttribute, SSAValue
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser
from xdsl.printer import Printer

from qmlir.errors import OptionError, near_misses
from qmlir.ir.facts import STATE
from qmlir.ir.types import IntegerElement, dtype_of, element_type, stored_type
from qmlir.ir.weights import WeightsAttr
from qmlir.numerics import Array


@irdl_attr_definition
class StateAttr(ParametrizedAttribute):
    """Marks an argument as a state: `#qmlir.state<1, reset = #qmlir.weights<tensor<f32>, [0.5]>>`.

    result  the index of the function's result that is the state's next value
    reset   the value before the first call; `NoneAttr` for the number 0
    """

    name = "qmlir.state"
    result: IntegerAttr
    reset: WeightsAttr | NoneAttr

    @staticmethod
    def of(result: int, reset: Array | None = None) -> "StateAttr":
        """Builds the attribute from plain values."""
        held = NoneAttr() if reset is None else WeightsAttr(np.asarray(reset))
        return StateAttr(IntegerAttr(result, i64), held)

    @property
    def index(self) -> int:
        """The index of the result that is the state's next value."""
        return self.result.value.data

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        with parser.in_angle_brackets():
            result = parser.parse_integer(allow_boolean=False, allow_negative=False)
            reset: Attribute = NoneAttr()
            if parser.parse_optional_punctuation(","):
                parser.parse_keyword("reset")
                parser.parse_punctuation("=")
                at = parser.pos
                reset = parser.parse_attribute()
                if not isinstance(reset, WeightsAttr):
                    parser.raise_error("the reset value of a state must be #qmlir.weights", at)
            return (IntegerAttr(result, i64), reset)

    def print_parameters(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            printer.print_string(str(self.index))
            if isinstance(self.reset, WeightsAttr):
                printer.print_string(", reset = ")
                printer.print_attribute(self.reset)


def states_of(function: func.FuncOp) -> dict[int, StateAttr]:
    """Returns the states of a function by the index of their argument."""
    found = ((i, STATE.among(entry.data)) for i, entry in enumerate(function.arg_attrs or ()))
    return {i: state for i, state in found if state is not None}


def state_values(block: Block) -> list[tuple[BlockArgument, SSAValue]]:
    """Returns the states of a function, given its body: each argument with its value in the next call."""
    function, end = block.parent_op(), block.last_op
    if not isinstance(function, func.FuncOp) or not isinstance(end, func.ReturnOp):
        return []
    return [(block.args[i], end.operands[state.index]) for i, state in states_of(function).items()]


def set_state(function: func.FuncOp, argument: int, state: StateAttr | None) -> None:
    """Marks an argument of a function as a state; None takes the mark away."""
    entries = list(function.arg_attrs or [DictionaryAttr({})] * len(function.function_type.inputs))
    kept = STATE.without(entries[argument].data)
    entries[argument] = DictionaryAttr(kept if state is None else kept | STATE.entry(state))
    function.arg_attrs = ArrayAttr(entries)


def reset_value(type: Attribute, state: StateAttr) -> Array:
    """Returns the value of a state before the first call, as the array that is given for an argument of this type."""
    element, shape = element_type(type), cast("TensorType[Attribute]", type).get_shape()
    quantized = element if isinstance(element, IntegerElement) else None
    dtype = dtype_of(element) if quantized is None else quantized.numpy_dtype
    if isinstance(state.reset, WeightsAttr):
        held = state.reset.array
    else:
        held = np.array([0] if quantized is None else quantized.zero_points)
        if quantized is not None and quantized.axis is not None:
            held = held.reshape([-1 if axis == quantized.axis else 1 for axis in range(len(shape))])
    return np.ascontiguousarray(np.broadcast_to(held.astype(dtype), shape))


def begin_with(function: func.FuncOp, argument: int, value: Array) -> None:
    """Gives a state of a function another value before the first call, an array of the argument's shape."""
    state, type = states_of(function)[argument], function.function_type.inputs.data[argument]
    plain = StateAttr.of(state.index)
    alike = value.size and (value == value.flat[0]).all()
    if not np.array_equal(value, reset_value(type, plain)):
        plain = StateAttr.of(state.index, value.flat[0] if alike else value)
    set_state(function, argument, plain)


def stored_state(type: Attribute, state: StateAttr) -> StateAttr:
    """Returns the mark of a state for an argument of its stored integers, where the number 0 is no longer its default.

    Args:
        type: The type of the argument so far.
        state: Its mark.
    """
    reset = reset_value(type, state)
    if isinstance(state.reset, WeightsAttr) or not reset.any():
        return state
    alike = reset.size and (reset == reset.flat[0]).all()
    return StateAttr.of(state.index, reset.flat[0] if alike else reset)


# ---------------------------------------------------------------------------------------------------------------
# Verification, on behalf of verify.py: xDSL's function operation does not know the attribute.


def misplaced_states(function: func.FuncOp) -> Iterator[str]:
    """Yields what is wrong with the states of a function, a sentence each.

    (C1) the attribute is a `#qmlir.state`
    (C2) the function has the result that a state names, and no other state names it
    (C3) a state and its next value have the same type, a tensor
    (C4) a reset value has the argument's shape or is one element, and is of the type in which the argument is stored
    """
    inputs, outputs = function.function_type.inputs.data, function.function_type.outputs.data
    taken: dict[int, int] = {}
    for i, entry in enumerate(function.arg_attrs or ()):
        if (given := entry.data.get(STATE.key)) is None:
            continue
        if (state := STATE.among(entry.data)) is None:  # C1
            yield f"argument {i} must have a #qmlir.state as {STATE}, got {given}"
            continue
        if state.index >= len(outputs):  # C2
            yield f"state {i} needs result {state.index}, and there are {len(outputs)} results"
            continue
        if (other := taken.setdefault(state.index, i)) != i:
            yield f"states {other} and {i} must have results of their own, got result {state.index} for both"
        if inputs[i] != outputs[state.index] or not isinstance(inputs[i], TensorType):  # C3
            yield f"state {i} and result {state.index} must be tensors of one type, got {inputs[i]} and " + str(
                outputs[state.index]
            )
        elif isinstance(state.reset, WeightsAttr):
            yield from _unfit(i, inputs[i], state.reset)


def _unfit(argument: int, type: Attribute, reset: WeightsAttr) -> Iterator[str]:
    stored, shape = element_type(stored_type(type)), cast("TensorType[Attribute]", type).get_shape()
    if reset.array.shape not in ((), shape) or reset.type.element_type != stored:  # C4
        yield (
            f"the reset value of state {argument} must be tensor<{stored}> or of the shape of {type}, got {reset.type}"
        )


# ---------------------------------------------------------------------------------------------------------------
# States that a user binds: pairs of an input and an output, as exporters write caches and recurrent states.


def bind_states(function: func.FuncOp, inputs: Sequence[str], outputs: Sequence[str], pairs: Mapping[str, str]) -> None:
    """Makes states of a network's inputs.

    Args:
        function: The network.
        inputs: The names in the model of the function's arguments, in order.
        outputs: The same of its results.
        pairs: Input → the output that is its value in the next call, by these names.

    Raises:
        OptionError: There is no such input or output, an output is bound twice, or the two are of different types.
    """
    for past, present in pairs.items():
        option = f"state {past}={present}"
        for name, known, what in ((past, inputs, "an input"), (present, outputs, "an output")):
            if name not in known:
                remedy = near_misses(name, known) or ("it has none" if not known else None)
                raise OptionError(option, f"must name {what} of the network", got=name, remedy=remedy)
        argument, result = inputs.index(past), outputs.index(present)
        before, after = function.function_type.inputs.data[argument], function.function_type.outputs.data[result]
        if before != after:
            raise _different(option, before, after)
        if any(state.index == result and i != argument for i, state in states_of(function).items()):
            raise OptionError(option, "must name an output that is no state's yet", got=present)
        bound = states_of(function).get(argument)
        if bound is None or bound.index != result:  # a file may name the state, with its value before the first call
            set_state(function, argument, StateAttr.of(result))


def _different(option: str, before: Attribute, after: Attribute) -> OptionError:
    need = "must bind tensors of one type"
    remedy = "bind the output that replaces the input"
    tensors = [cast("TensorType[Attribute]", t) for t in (before, after) if isinstance(t, TensorType)]
    if len({t.element_type for t in tensors}) == 1 and len(tensors) == 2:
        old, new = (t.get_shape() for t in tensors)
        if len(old) == len(new) and sum(a != b for a, b in zip(old, new, strict=True)) == 1:
            need += ": a state that grows has no place of fixed size"
            remedy = (
                "export the model with a cache of fixed size, into which each call writes at a position "
                "(ScatterND or ScatterElements; a static cache in transformers)"
            )
    return OptionError(option, need, got=f"{before} and {after}", remedy=remedy)
