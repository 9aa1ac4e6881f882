"""Imports the operators of a net, those of its init net before them, in one walk.

    converted  by the operator's converter (converters.py)
    computed   if all inputs are small constants
    opaque     if the operator has no converter, or the converter refuses it; with the reason

Operators run in their order, and an operator may overwrite a tensor that it reads: `Relu` often does. A name then
stands for several tensors. The last of them keeps the name, the others get the name with a number.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from xdsl.dialects.builtin import NoneType, StringAttr, UnrankedTensorType
from xdsl.ir import Attribute, SSAValue

from qmlir.errors import FileError, UnsupportedError, near_misses
from qmlir.formats.caffe2 import OPERATORS
from qmlir.formats.rows import Operator as Row
from qmlir.formats.unknown import hint
from qmlir.frontends.caffe2 import (
    contraction,
    elementwise,
    fills,
    movement,
    normalization,
    reduction,
    sparse,
)
from qmlir.frontends.caffe2.contraction import LOADED_OFFSETS, LOADED_SCALES
from qmlir.frontends.caffe2.node import Caffe2Node
from qmlir.frontends.caffe2.reader import Operator
from qmlir.frontends.converters import Table, row_table
from qmlir.frontends.function import Builder, Value
from qmlir.frontends.opaque import attribute_ir
from qmlir.frontends.quantized import folded
from qmlir.frontends.walk import imported

# ---------------------------------------------------------------------------------------------------------------
# Operators of Caffe2 that have no converter, each with the reason that its `qmlir.opaque` gives.


RANDOM = "its result is random"
SHAPELESS = "the shape of its result is known only when it runs"
SUBNETS = "it runs another net, and qmlir imports nets without branches and loops"
STRINGS = "it works on strings, for which qmlir has no type"
BOXES = "it computes on boxes, as many as the data say"
STATE = "it reads or writes what lives from call to call"

_BY_REASON: Mapping[str, str] = {
    RANDOM: "RandomFill UniformIntFill UniqueUniformFill",
    SHAPELESS: "BatchSparseToDenseV2 BooleanMask BoxWithNMSLimit CollectAndDistributeFpnRpnProposals "
    "CollectRpnProposals DistributeFpnProposals Find GenerateProposals NonZero Unique Where2",
    BOXES: "BBoxTransform RoIAlign RoIAlignRotated RoIPool",
    SUBNETS: "AsyncIf Do For If ONNXWhile RecurrentNetwork While",
    STRINGS: "GivenTensorStringFill StringEndsWith StringEquals StringJoin StringPrefix StringStartsWith StringSuffix",
    STATE: "AtomicIter BlobsQueue CreateCounter CreateMutex DequeueBlobs EnqueueBlobs Iter Load Print Save",
}

UNCONVERTED: Mapping[str, str] = {o: reason for reason, operators in _BY_REASON.items() for o in operators.split()}
"""Operator → the reason why it has no converter."""


def reason_against(operator: str) -> str:
    """Returns the reason why an operator has no converter."""
    return UNCONVERTED.get(operator, f"qmlir knows no {operator}")


# ---------------------------------------------------------------------------------------------------------------
# The walk


FAMILIES = (contraction, elementwise, fills, movement, normalization, reduction, sparse)
"""The files of converters, each with a table of its own."""


def _one_operation(row: Row, node: Caffe2Node, *inputs: Value, **given: Any) -> Value:
    properties = {own: given.get(name, default) for name, (own, default) in row.attributes.items()}
    if row.on_integers:
        node.require_quantized(*inputs)
        node.stated_type()
        return node.pointwise(row.operation, inputs, properties)
    return node.compute(row.operation, [node.real(x) for x in inputs], properties)


CONVERTERS = Table.of(*(family.converts for family in FAMILIES), rows=row_table(OPERATORS, _one_operation))
"""The converters of all operators; the row of an operator in formats/caffe2.py counts if no family has a converter."""


@dataclass(frozen=True)
class Step:
    """An operator that an output needs.

    operator  the operator
    used      the outputs that a later operator reads, or that are results
    """

    operator: Operator
    used: frozenset[str]


def needed(
    operators: Sequence[Operator], outputs: Iterable[str], begins: frozenset[str] = frozenset()
) -> tuple[list[Step], set[str]]:
    """Returns the operators that the outputs depend on, in order, and the tensors that come from outside.

    The tensors of `begins` come from outside, whatever operator makes them in the net.
    """
    live, steps = set(outputs), list[Step]()
    for operator in reversed(operators):
        used = frozenset(live.intersection(operator.outputs) - {""} - begins)
        if used:
            steps.append(Step(operator, used))
            live = (live - (set(operator.outputs) - begins)) | set(reads(operator))
    return steps[::-1], live - {""}


def reads(operator: Operator) -> list[str]:
    """Returns the names of the tensors that an operator reads."""
    if operator.arguments.get("quantize_groupwise") and len(operator.inputs) > 1:
        weights = operator.inputs[1]
        return [*operator.inputs, weights + LOADED_SCALES, weights + LOADED_OFFSETS]
    return list(operator.inputs)


def unconverted(kinds: Iterable[str]) -> list[str]:
    """Returns the operators that have no converter, each with the reason, as text."""
    return [f"{kind} ({_reason_against(kind)})" for kind in dict.fromkeys(kinds) if CONVERTERS.get(kind) is None]


def _reason_against(operator: str) -> str:
    """Returns the reason why an operator has no converter, with operators of similar names."""
    reason = reason_against(operator)
    known = [("", name) for name in CONVERTERS.operators()]
    return reason if operator in UNCONVERTED else reason + hint("Caffe2", operator, known)


@dataclass
class Walk:
    """The walk over the operators of a net.

    builder   the function that is built
    file      the net's file, for errors
    values    the tensor that each name stands for now
    versions  how many more tensors each name will stand for
    taken     the names that tensors have
    given     the names of the function's arguments, which their tensors keep
    """

    builder: Builder
    file: str
    values: dict[str, Value] = field(default_factory=dict[str, Value])
    versions: Counter[str] = field(default_factory=Counter[str])
    taken: set[str] = field(default_factory=set[str])
    given: Sequence[str] = ()

    def run(self, steps: Sequence[Step]) -> None:
        """Imports operators in their order."""
        self.versions = Counter(name for step in steps for name in step.operator.outputs)
        self.taken |= set(self.versions)
        for number, step in enumerate(steps, 1):
            self._import(step, number)

    def value(self, name: str, reader: str) -> Value:
        """Returns the tensor that a name stands for."""
        if name not in self.values:
            raise FileError(
                self.file, f'{reader} reads the tensor "{name}", which must be defined before it', got="none",
                remedy=near_misses(name, self.values) or "save the net again",
            )  # fmt: skip
        return self.values[name]

    def _called(self, name: str) -> str:
        """Returns the name of a tensor that an operator defines: its own if it is the last of that name."""
        self.versions[name] -= 1
        if self.versions[name] == 0 and name not in self.given:
            return name
        number = 1
        while (numbered := f"{name}.{number}") in self.taken:
            number += 1
        self.taken.add(numbered)
        return numbered

    def _import(self, step: Step, number: int) -> None:
        """Imports an operator and records its outputs."""
        operator = step.operator
        outputs = [self._called(o) if o in step.used or not i else "" for i, o in enumerate(operator.outputs)]
        while outputs and not outputs[-1]:
            outputs.pop()
        node = Caffe2Node(
            operator.kind, operator.name, outputs, self.builder, self.file, arguments=operator.arguments,
            lookup=self.values.get, given=self.given, position=number,
        )  # fmt: skip
        inputs = [self.value(n, f'{node.kind} "{node.called()}"') for n in operator.inputs]

        def opaque(reason: str) -> list[Value]:
            attributes = {name or "_": attribute_ir(v, most=MOST_SHOWN, other=_other)
                          for name, v in operator.arguments.items()}  # fmt: skip
            types = [UnrankedTensorType(NoneType())] * len(node.outputs)
            return node.add_opaque(f"caffe2.{node.kind}", inputs, operator.inputs, attributes, 1, types, reason)

        results = imported(node, lambda: self._results(node, inputs), opaque, self.builder.block.add_ops)
        for name, result in zip(operator.outputs, results, strict=False):
            if name in step.used or name not in self.given:  # a cut network begins at tensors that the net makes
                self.values[name] = result

    def _results(self, node: Caffe2Node, inputs: Sequence[Value]) -> list[Value]:
        """Converts an operator and returns its outputs, at least up to the last that is used."""
        converter = CONVERTERS.get(node.kind)
        if converter is None:
            raise UnsupportedError(_reason_against(node.kind))
        for x in inputs:
            if isinstance(x, SSAValue):
                node.shape(x)
        if node.kind.startswith("Int8") and node.kind not in WIDE:
            node.state()
        results = folded(node, inputs, converter(node, inputs, node.arguments))
        if len(results) < len(node.outputs):
            missing = next(o for o in node.outputs[len(results) :] if o)
            raise UnsupportedError(f'its output "{missing}" is used, which qmlir does not give')
        return results


WIDE = frozenset({"Int8GivenIntTensorFill"})
"""Integer operators whose result is not stored as uint8."""

MOST_SHOWN = 64
"""The most elements of an argument that an opaque operation records."""


def _other(value: Any) -> Attribute:
    """Describes an argument that is neither numbers nor text: values of a tensor, or a message."""
    return StringAttr(f"{value.size} values" if isinstance(value, np.ndarray) else type(value).__name__)
