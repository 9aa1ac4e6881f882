"""Imports a subgraph in one walk, subgraphs of control flow included."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
from xdsl.ir import Operation, SSAValue

from qmlir.dialects.quant.types import UniformType
from qmlir.errors import FileError, UnsupportedError
from qmlir.formats.tflite import ASSIGN, HANDLE, OPERATORS, READ
from qmlir.formats.unknown import hint
from qmlir.frontends.converters import Converter, Table, row_table
from qmlir.frontends.counted import refuse_constants
from qmlir.frontends.function import LARGEST, Builder, Constant, Dequantized, Value, Wide, computed
from qmlir.frontends.quantized import folded
from qmlir.frontends.tflite import (
    contraction,
    detection,
    elementwise,
    mediapipe,
    movement,
    recurrent,
    reduction,
    scatter,
    svdf,
)
from qmlir.frontends.tflite.converters import (
    fused,
    import_own,
    one_operation,
    options,
    options_ir,
    reason_against,
    tensor_ir,
)
from qmlir.frontends.tflite.delegate import declines, mark_undelegated
from qmlir.frontends.tflite.node import TFLiteNode
from qmlir.frontends.tflite.reader import ABSENT, CUSTOM, Model, Operator, Subgraph, Tensor
from qmlir.frontends.tflite.variables import RESOURCE, Handle, Variables, key_of
from qmlir.frontends.walk import Budgeted, imported
from qmlir.ir.interfaces import Array
from qmlir.ir.own_operators import own_operator
from qmlir.ir.types import element_type_of

# ---------------------------------------------------------------------------------------------------------------
# Moves the stored integers of quantized constants at import, as LiteRT's operators of movement do.
#
# Such an operator copies bytes and leaves the meaning of the result to the result's own scales. So weights behind a
# TRANSPOSE of a constant are constants, with a scale for each channel along the axis that the file states.


MOVING = frozenset(
    """CONCATENATION DENSIFY DEPTH_TO_SPACE EXPAND_DIMS GATHER GATHER_ND PACK RESHAPE REVERSE_V2 SLICE SPACE_TO_DEPTH
    SPLIT SPLIT_V SQUEEZE STRIDED_SLICE TRANSPOSE UNPACK""".split()
)
"""Operators that put no new elements into their result, and none more than once but by an index."""

JOINING = frozenset({"CONCATENATION", "PACK"})
"""Those of them that change the scale of parts whose type is not the result's."""


def moves_stored(kind: str, inputs: Sequence[Value | None], outputs: Sequence[Tensor]) -> bool:
    """Whether an operator only moves the stored integers of quantized constants."""
    types = [t.type for t in outputs]
    found: list[UniformType] = [x.type for x in inputs if isinstance(x, Dequantized)]
    if kind not in MOVING or not found or not all(x is None or isinstance(x, Constant) for x in inputs):
        return False
    if kind in JOINING:
        return len(found) == len(inputs) and all(type == types[0] and type.axis is None for type in found)
    return all(type is not None and type.storage == found[0].storage for type in types)


def as_stored(inputs: Sequence[Value | None]) -> list[Value | None]:
    """Returns an operator's inputs with the stored integers in the place of quantized constants."""
    return [Constant(x.stored, x.name) if isinstance(x, Dequantized) else x for x in inputs]


def as_plain(outputs: Sequence[Tensor]) -> list[Tensor]:
    """Returns an operator's outputs as tensors of plain integers."""
    return [replace(t, type=None) for t in outputs]


def restored(arrays: Sequence[Array], outputs: Sequence[Tensor], names: Sequence[str]) -> list[Value]:
    """Returns moved integers as quantized constants of the types that the file states for the outputs."""
    found = list[Value]()
    for array, tensor, name in zip(arrays, outputs, names, strict=True):
        assert tensor.type is not None
        found.append(Dequantized(array, tensor.type, name))
    return found


# ---------------------------------------------------------------------------------------------------------------
# Walks over the operators of a subgraph; each operator is converted, computed at import, or kept as opaque.
#
#     converted  by the operator's converter (converters.py)
#     computed   if all inputs are small constants
#     opaque     if the operator has no converter, or the converter refuses it; with the reason (opaque.py)
#
# A called subgraph gets a walk of its own if the converter of the calling operator knows that the subgraph runs
# (control.py). The operations of that walk belong to the calling operator. If an operator of the subgraph is refused,
# the calling operator is refused as a whole. Tensors of the subgraph are named `<output>.<name in the subgraph>`.


DEEPEST = 32
"""The deepest nesting of subgraph calls; deeper nesting is taken for recursion, which is an error."""


@dataclass
class _Shared(Budgeted):
    """The data that all walks of an import share; calls count as operators of called subgraphs."""

    model: Model
    builder: Builder
    variables: Variables


@dataclass
class Walk:
    """The walk over the operators of one subgraph.

    add      receives the operations of each imported operator
    values   the value of each tensor, by tensor index
    prefix   the prefix of tensor names
    depth    the number of calls that lead to the subgraph; 0 for the imported function
    """

    shared: _Shared
    graph: Subgraph
    add: Callable[[Sequence[Operation]], object]
    values: dict[int, Value] = field(default_factory=dict[int, Value])
    prefix: str = ""
    depth: int = 0

    @staticmethod
    def of(model: Model, graph: Subgraph, builder: Builder) -> "Walk":
        """Returns the walk over the subgraph that becomes the function."""
        return Walk(_Shared(model, builder, Variables.of(model, builder)), graph, builder.block.add_ops)

    @property
    def variables(self) -> Variables:
        """The variables of the model."""
        return self.shared.variables

    def run(self) -> None:
        """Imports every operator that an output needs."""
        numbers = {id(operator): number for number, operator in enumerate(self.graph.operators, 1)}
        for operator in needed(self.graph, self.shared.model):
            self._import(operator, numbers.get(id(operator), 0))

    def value(self, index: int) -> Value:
        """Returns the value of a tensor: computed before, or a constant of the file.

        Raises:
            UnsupportedError: The tensor is a variable or a constant of a type that is not supported.
            FileError: The tensor is neither constant nor computed by an earlier operator.
        """
        if index not in self.values:
            tensor = self.graph.tensors[index]
            if tensor.variable:
                if tensor.dtype is None:
                    raise UnsupportedError(f'its state "{tensor.name}" is of type {tensor.kind.lower()}')
                return self.variables.read_tensor(self._key(index), self.prefix + tensor.name, tensor_ir(tensor))
            if tensor.constant is None:
                raise FileError(
                    self.shared.model.file, f'tensor "{tensor.name}" must be constant or computed before it is used',
                    got="neither", remedy="convert the model again",
                )  # fmt: skip
            constant = tensor.constant
            if constant.shape != tensor.shape:
                raise UnsupportedError(f'its constant "{tensor.name}" is sparse or of type {tensor.kind.lower()}')
            name = self.prefix + tensor.name
            if tensor.type is not None:
                self.values[index] = Dequantized(constant, tensor.type, name)
            else:
                self.values[index] = Wide(constant, tensor.scales, name) if tensor.scales else Constant(constant, name)
        return self.values[index]

    def node(self, kind: str, tensors: Sequence[Tensor]) -> TFLiteNode:
        """Returns the node that a converter gets for an operator with these outputs."""
        outputs = [self.prefix + t.name for t in tensors]
        node = TFLiteNode(kind, "", outputs, self.shared.builder, self.shared.model.file, tensors=tensors)
        node.call, node.variables = partial(self._call, node), self.variables
        return node

    def _key(self, index: int) -> tuple[int, int]:
        """What tells a variable tensor apart from those of other subgraphs."""
        return id(self.graph), index

    def _import(self, operator: Operator, number: int) -> None:
        """Imports an operator, the `number`th of its subgraph, and records the values of its outputs."""
        if self.depth:
            self.shared.count("operators")
        tensors = [self.graph.tensors[i] for i in operator.outputs]
        node = self.node(operator.kind, tensors)
        node.position = number
        node.inner = [None if i == ABSENT else self.graph.tensors[i] for i in operator.intermediates]
        inputs: list[Value | None] = []
        before = self.variables.values()

        def refuses(_: UnsupportedError) -> bool:
            node.updates.clear()
            self.variables.restore(before)
            return bool(self.depth)

        def opaque(reason: str) -> list[Value]:
            names = ["" if i == ABSENT else self.graph.tensors[i].name for i in operator.inputs]
            types = [tensor_ir(t) for t in tensors]
            kind = f"tflite.{operator.kind}"
            return node.add_opaque(kind, inputs, names, options_ir(operator), operator.version, types, reason)

        results = imported(
            node, lambda: self._results(node, operator, inputs), opaque, self.add, within=bool(self.depth),
            refuses=refuses,
        )  # fmt: skip
        for index, result in zip(operator.outputs, results, strict=False):
            if index not in self.graph.inputs:  # a cut network begins at tensors that the file computes
                self.values[index] = result
        for position, value in node.updates.items():
            self.variables.write_tensor(self._key(operator.inputs[position]), value)

    def _results(self, node: TFLiteNode, operator: Operator, inputs: list[Value | None]) -> list[Value]:
        """Returns an operator's outputs.

        The function appends the input values to `inputs` one by one. If an input is refused, the caller knows the
        inputs before it.
        """
        for index in operator.inputs:
            inputs.append(None if index == ABSENT else self.value(index))
        converter = CONVERTERS.get(operator.kind)
        if converter is None:
            own = own_operator("tflite", operator.kind.removeprefix(CUSTOM))
            if own is None or not operator.kind.startswith(CUSTOM):
                raise UnsupportedError(reason_against(operator.kind) + _hint(operator.kind))
            return import_own(node, own, operator, inputs)
        if moves_stored(operator.kind, inputs, node.tensors):
            results = self._moved(node, operator, converter, inputs)
        else:
            results = converter(node, inputs, options(node, operator, converter))
        for position in node.updates:
            if not (state := self.graph.tensors[operator.inputs[position]]).variable:
                raise UnsupportedError(f'its state "{state.name}" is no variable tensor')
        if len(results) < len(node.tensors):
            raise node.error(f"it must have at most {len(results)} outputs", len(node.tensors))
        if operator.kind != "RANK":
            refuse_constants(inputs, results, node.builder.counted)
        results = folded(node, inputs, results)
        for tensor, result in zip(node.tensors, results, strict=False):
            check(node, f'its output "{tensor.name}"', tensor, result)
        if declines(operator, self.graph):
            mark_undelegated(node.pending)
        return results

    def _moved(
        self, node: TFLiteNode, operator: Operator, converter: Converter, inputs: Sequence[Value | None]
    ) -> list[Value]:
        """Returns the outputs of an operator that moves the stored integers of quantized constants, as constants."""
        plain = self.node(operator.kind, as_plain(node.tensors))
        made = converter(plain, as_stored(inputs), options(node, operator, converter))
        known = computed(plain.pending)
        plain.discard()
        if known is None:
            return converter(node, inputs, options(node, operator, converter))
        return restored([known[x] if isinstance(x, SSAValue) else x.array for x in made], node.tensors, node.outputs)

    def _call(self, node: TFLiteNode, index: int, arguments: Sequence[Value], step: str = "") -> list[Value]:
        """Imports a called subgraph in the place of an operator and returns its outputs.

        Args:
            node: The node of the calling operator, which gets the operations.
            index: The subgraph.
            arguments: The values of the subgraph's inputs.
            step: A part of the tensors' prefix that tells several runs of a subgraph apart.
        """
        self.shared.count("operators")
        subgraphs = self.shared.model.subgraphs
        if not 0 <= index < len(subgraphs):
            raise node.error(f"it must call one of {len(subgraphs)} subgraphs", str(index))
        if self.depth >= DEEPEST:
            raise node.error("subgraphs must not call themselves", f"more than {DEEPEST} calls in one another")
        graph, first = subgraphs[index], next(filter(None, node.outputs), "")
        if len(arguments) != len(graph.inputs):
            raise node.error(f"subgraph {index} must take its {len(arguments)} inputs", len(graph.inputs))
        walk = Walk(self.shared, graph, node.pending.extend, {}, f"{first}.{step}", self.depth + 1)
        for tensor, value in zip(graph.inputs, arguments, strict=True):
            check(node, f"its argument of subgraph {index}", graph.tensors[tensor], value)
            walk.values[tensor] = value
        walk.run()
        return [walk.value(i) for i in graph.outputs]


def check(node: TFLiteNode, what: str, tensor: Tensor, value: Value) -> None:
    """Checks that a value has the shape and type that the file states for its tensor; `what` names it in errors."""
    if isinstance(value, Handle) and tensor.kind == RESOURCE:
        return
    if np.prod([float(d) for d in node.shape(value)]) > LARGEST:
        raise UnsupportedError(f"its result is of shape {list(node.shape(value))}")
    own, stated = list(node.shape(value)), list(tensor.shape)
    counted = node.builder.counted.get(value) if isinstance(value, SSAValue) else None
    if counted is not None and len(own) == len(stated):  # how many elements there are, the file cannot know
        stated[counted.axis] = own[counted.axis]
    if not tensor.dynamic and own != stated:
        raise node.error(f"{what} must have shape {list(node.shape(value))}", tensor.shape)
    type = node.type_of(value)
    if tensor.dtype is None:
        raise node.error(f"{what} must be of a type that qmlir has", tensor.kind.lower())
    expected = tensor.type if type is not None else element_type_of(tensor.dtype)
    found: Any = type if type is not None else node.element(value)
    if str(expected) != str(found):
        raise node.error(f"{what} must be {found}", str(tensor.type or expected))


def needed(graph: Subgraph, model: Model) -> list[Operator]:
    """Returns the operators that the subgraph's outputs, and variables behind the call, depend on, in order.

    None of them computes an input of the subgraph.
    """
    assigning = any(op.kind == ASSIGN for g in model.subgraphs[1:] for op in g.operators)
    always = {ASSIGN, *(("CALL_ONCE", "CALL", "IF", "WHILE") if assigning else ())}
    wanted, found = set(graph.outputs), list[Operator]()
    inputs = set(graph.inputs)
    for operator in reversed(graph.operators):
        if wanted & set(operator.outputs) - inputs or operator.kind in always:
            found.append(operator)
            wanted |= set(operator.inputs)
    return found[::-1]


# ---------------------------------------------------------------------------------------------------------------
# Converters of IF, WHILE and CALL, whose conditions must be known at import: only the subgraphs that run are imported.
#
# An IF becomes the branch that is taken, a WHILE becomes its body as often as it runs.


Values = tuple[Value, ...]

converts = Table()


@converts("IF")
def if_(
    node: TFLiteNode, condition: Value, *inputs: Value, then_subgraph_index: int, else_subgraph_index: int
) -> Values:
    """The outputs of the subgraph that the condition selects."""
    taken = then_subgraph_index if node.truth(condition, "condition") else else_subgraph_index
    return tuple(node.called_subgraph(taken, inputs))


@converts("WHILE")
def while_(node: TFLiteNode, *inputs: Value, cond_subgraph_index: int, body_subgraph_index: int) -> Values:
    """Unrolled loop: the body's outputs become its next inputs for as long as the condition holds."""
    values, run = list(inputs), 0
    while node.truth(_one(node, node.called_subgraph(cond_subgraph_index, values, f"{run}.condition.")), "condition"):
        values = node.called_subgraph(body_subgraph_index, values, f"{run}.")
        run += 1
        if len(values) != len(inputs):
            raise node.error(f"its body must have {len(inputs)} outputs", len(values))
    return tuple(values)


def _one(node: TFLiteNode, values: list[Value]) -> Value:
    if len(values) != 1:
        raise node.error("the subgraph of its condition must have one output", len(values))
    return values[0]


@converts("CALL")
def call(node: TFLiteNode, *inputs: Value, subgraph: int) -> Values:
    """The outputs of the called subgraph."""
    return tuple(node.called_subgraph(subgraph, inputs))


# ---------------------------------------------------------------------------------------------------------------
# Converters of variables (variables.py).


@converts("CALL_ONCE")
def call_once(node: TFLiteNode, *, init_subgraph_index: int) -> Values:
    """Nothing: the subgraph's assignments become the values of variables before the first call."""
    with node.resources().initialization():
        node.called_subgraph(init_subgraph_index, ())
    return ()


@converts(HANDLE)
def var_handle(node: TFLiteNode, *, container: bytes, shared_name: bytes) -> Value:
    """The handle of a variable."""
    key = key_of({"container": container, "shared_name": shared_name})
    return Handle(key, (shared_name or b"").decode(errors="replace") or node.tensors[0].name)


def _handle(value: Value) -> Handle:
    if not isinstance(value, Handle):
        raise UnsupportedError("its handle comes from no VAR_HANDLE")
    return value


@converts(READ)
def read_variable(node: TFLiteNode, handle: Value) -> Value:
    """The value of a variable."""
    return node.resources().read(_handle(handle), tensor_ir(node.tensors[0]))


@converts(ASSIGN)
def assign_variable(node: TFLiteNode, handle: Value, value: Value) -> Values:
    """Assigns a value to a variable; it returns no value, and later reads of the variable get the assigned one."""
    node.resources().write(node, _handle(handle), value)
    return ()


# ---------------------------------------------------------------------------------------------------------------
# All converters.


CONVERTERS = Table.of(
    *(
        f.converts
        for f in (contraction, detection, elementwise, mediapipe, movement, recurrent, reduction, scatter, svdf)
    ),
    converts,
    rows=row_table(OPERATORS, one_operation, fused),
)
"""The converters of all operators; the row of an operator in formats/tflite.py counts if no file has a converter."""


def _hint(kind: str) -> str:
    """What may be done about an operator without a converter; empty for operators of TFLite's schema."""
    if not kind.startswith(CUSTOM):
        return ""
    custom = CUSTOM.removesuffix(".")
    known = [(custom if o.startswith(CUSTOM) else "", o.removeprefix(CUSTOM)) for o in CONVERTERS.operators()]
    return hint("TFLite", kind.removeprefix(CUSTOM), known, custom)
