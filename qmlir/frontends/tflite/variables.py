"""Variables of a TFLite model: values that live from call to call, which become states of the function (ir/states.py).

    variable tensors   a tensor with the mark `is_variable`, which an operator such as SVDF reads and writes
    resources          VAR_HANDLE names a variable, READ_VARIABLE and ASSIGN_VARIABLE read and write it

An import follows the value of each variable from operator to operator. A variable that is read before it is written
becomes an argument of the function, and its value at the end of the walk a result. A variable that no operator writes
is a constant. The subgraph of a CALL_ONCE runs at import: what it assigns are reset values.
"""

from collections.abc import Generator, Hashable, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

import numpy as np
from xdsl.dialects.builtin import TensorType
from xdsl.ir import Attribute, BlockArgument, SSAValue

from qmlir.errors import UnsupportedError
from qmlir.formats.tflite import ASSIGN, HANDLE
from qmlir.frontends.function import Builder, Constant, Dequantized, Value
from qmlir.frontends.quantized import QuantizedNode
from qmlir.frontends.tflite.reader import Model
from qmlir.ir.interfaces import Array
from qmlir.ir.states import StateAttr
from qmlir.ir.types import element_type_of, stored_type

Key = Hashable
"""What tells variables apart: the names of a resource, or the subgraph and the index of a variable tensor."""

RESOURCE = "RESOURCE"
"""The schema's element type of handles."""


class Handle(Constant):
    """The value of a VAR_HANDLE: it says which resource is read or written."""

    def __init__(self, key: Key, name: str):
        super().__init__(np.zeros((), np.int32), name)
        self.key = key


@dataclass
class Variable:
    """A variable during an import.

    name      its name in the model
    value     its value at this point of the walk; None before the first operator that reads or writes it
    argument  its value before the call, if an operator reads that
    reset     its value before the first call; None for zeros
    """

    name: str
    value: Value | None = None
    argument: BlockArgument | None = None
    reset: Array | None = None


@dataclass
class Variables:
    """The variables of a model.

    builder       the function that is built
    written       the resources that are written outside of initialization; None if this is not known
    initializing  whether the walk is in the subgraph of a CALL_ONCE
    """

    builder: Builder
    written: set[Key] | None
    known: dict[Key, Variable] = field(default_factory=dict[Key, Variable])
    initializing: bool = False

    @staticmethod
    def of(model: Model, builder: Builder) -> "Variables":
        """Returns the variables of a model before the first operator."""
        return Variables(builder, _written(model))

    def read_tensor(self, key: Key, name: str, type: Attribute) -> Value:
        """Returns the value of a variable tensor; before the first call, all its elements are the number 0."""
        return self._read(self.known.setdefault(key, Variable(name)), type)

    def write_tensor(self, key: Key, value: SSAValue) -> None:
        """Makes a value that of a variable tensor that was read before."""
        self.known[key].value = value

    def read(self, handle: Handle, type: Attribute) -> Value:
        """Returns the value of a resource.

        Raises:
            UnsupportedError: The resource has no value, as neither a CALL_ONCE nor an earlier operator assigns one, or
                a value of another type.
        """
        variable = self.known.setdefault(handle.key, Variable(handle.name))
        if variable.value is None and variable.reset is None:
            raise UnsupportedError(f'no CALL_ONCE gives its variable "{handle.name}" a value')
        if variable.value is None and self.written is not None and handle.key not in self.written:
            assert variable.reset is not None
            return Constant(variable.reset, variable.name)
        if variable.value is None:
            _check_reset(variable, type)
        return self._read(variable, type)

    def write(self, node: QuantizedNode, handle: Handle, value: Value) -> None:
        """Assigns a value to a resource: its reset value in the subgraph of a CALL_ONCE, else its value from here on.

        Raises:
            UnsupportedError: The value is not of the variable's type, or is not constant where it must be.
        """
        variable = self.known.setdefault(handle.key, Variable(handle.name))
        if self.initializing:
            if not isinstance(value, Constant):
                raise UnsupportedError(f'it initializes its variable "{handle.name}" by a value that is not constant')
            variable.reset = value.stored if isinstance(value, Dequantized) else value.array
            return
        made = node.quantized(value)
        if variable.argument is not None and variable.argument.type != made.type:
            raise UnsupportedError(
                f'it assigns {made.type} to its variable "{handle.name}", which is {variable.argument.type}'
            )
        variable.value = made

    def _read(self, variable: Variable, type: Attribute) -> Value:
        if variable.value is None:
            variable.value = variable.argument = self.builder.argument(variable.name, type)
        return variable.value

    def values(self) -> dict[Key, Value | None]:
        """Returns the values at this point of the walk, for `restore`."""
        return {key: variable.value for key, variable in self.known.items()}

    def restore(self, values: Mapping[Key, Value | None]) -> None:
        """Takes back what was written since, after an operator was refused; arguments that were made since stay."""
        for key, variable in self.known.items():
            before = values.get(key)
            variable.value = variable.argument if before is None else before

    @contextmanager
    def initialization(self) -> Generator[None]:
        """While it is entered, values that are assigned are reset values."""
        outer, self.initializing = self.initializing, True
        try:
            yield
        finally:
            self.initializing = outer

    def states(self) -> list[Variable]:
        """Returns the variables that are read before they are written, in the order of their arguments."""
        read = [v for v in self.known.values() if v.argument is not None]
        return sorted(read, key=lambda v: v.argument.index if v.argument is not None else 0)

    def marks(self, results: int) -> dict[int, StateAttr]:
        """Returns the states of the function by argument; their next values are its last results.

        Args:
            results: The number of results before those of the states.
        """
        arguments = [(v.argument, v.reset) for v in self.states() if v.argument is not None]
        return {a.index: StateAttr.of(results + i, reset) for i, (a, reset) in enumerate(arguments)}


def _check_reset(variable: Variable, type: Attribute) -> None:
    """Refuses a reset value that is not of the type under which the variable is read."""
    assert variable.reset is not None
    found, stored = variable.reset, stored_type(type)
    if not isinstance(stored, TensorType) or stored != TensorType(element_type_of(found.dtype), found.shape):
        raise UnsupportedError(
            f'a CALL_ONCE gives its variable "{variable.name}" {found.dtype.name}{list(found.shape)}, and it reads '
            f"{type}"
        )


def _written(model: Model) -> set[Key] | None:
    """Returns the resources that operators of a model write, other than those that only initialize them.

    Returns:
        Their keys; None if an operator writes a resource whose handle it gets from elsewhere.
    """
    initial = {
        op.options.get("init_subgraph_index")
        for graph in model.subgraphs
        for op in graph.operators
        if op.kind == "CALL_ONCE" and op.options
    }
    found: set[Key] = set()
    for number, graph in enumerate(model.subgraphs):
        handles = {
            op.outputs[0]: key_of(op.options or {}) for op in graph.operators if op.kind == HANDLE and op.outputs
        }
        for op in graph.operators:
            if op.kind != ASSIGN or number in initial or not op.inputs:
                continue
            if op.inputs[0] not in handles:
                return None
            found.add(handles[op.inputs[0]])
    return found


def key_of(options: dict[str, object]) -> Key:
    """Returns what tells the resource of a VAR_HANDLE apart."""
    return options.get("container") or b"", options.get("shared_name") or b""
