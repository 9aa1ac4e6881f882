"""The ledger: the decision about each operation (quantized, float, on a device, …) and its reason.

Passes write a `#qmlir.decision` on every operation they decide about. This module reads the decisions back as rows for
a terminal, for JSON and for tests. An operation without a decision has not been through the quantizer.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import NamedTuple

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation

from qmlir.dialects.inputs import texts_by_name
from qmlir.dialects.nn import ConstantOp
from qmlir.dialects.nn.contraction import WeightedOp
from qmlir.dialects.qmlir import OpaqueOp
from qmlir.dialects.quant.types import UniformType, quantized_element
from qmlir.display import Rows, Table, counted
from qmlir.ir.decision import DecisionAttr
from qmlir.ir.facts import DECISION, METHODS, REMARKS
from qmlir.ir.interfaces import TensorOp
from qmlir.ir.names import names_of
from qmlir.ir.rewriting import node_name
from qmlir.ir.verify import require_module
from qmlir.numerics.schemas import scale_text


class Kind(NamedTuple):
    """What a reason code says, and what would change the decision; empty if the operation is quantized."""

    says: str
    remedy: str = ""


KINDS = {
    "integer": Kind("computed in integers"),
    "moved": Kind("moves integers without arithmetic"),
    "delivered": Kind("moves results of the network that are dequantized already, without arithmetic"),
    "compared": Kind("compares integers"),
    "no-range": Kind("a tensor it reads or writes has no range", "profile the network, or fix a range in the policy"),
    "target": Kind(
        "the target has no integer form of the operation",
        "leave it float, or build it of operations that OPERATORS.md lists as computed in integers",
    ),
    "precision": Kind(
        "the target has an integer form of the operation on other types",
        "choose another precision for it in the policy",
    ),
    "computed-weights": Kind(
        "its weights are computed, so they have no parameters before run time",
        "make its weights a constant of the model",
    ),
    "accumulator": Kind(
        "its sums do not fit the accumulators", "give it or its weights a lower precision in the policy"
    ),
    "factor": Kind("its scales are too far apart for a multiplier", "fix the range of its tensors in the policy"),
    "bias": Kind(
        "its bias is computed, or does not fit the accumulator's scale",
        "make its bias a constant of the model, or give its input a wider range in the policy",
    ),
    "blocked": Kind(
        "its weights have parameters for each block or input channel, for which it has no integer form",
        "give its weights one scale for each output channel",
    ),
    "steep": Kind(
        "rounding what it reads, or its result, would lose the digits of a function that is steep for these data",
        "choose a precision for it in the policy, to have integers all the same",
    ),
    "shared": Kind(
        "its result is read as floats too, which quantizing it would change",
        "quantize the other operations that read its result",
    ),
    "runtime": Kind(
        "the runtime that is followed computes it on floats",
        "follow no runtime: load the model with numerics=default",
    ),
    "policy": Kind("the policy keeps it in floats", "drop the policy's rule"),
    "half": Kind("the policy computes it in floats of 16 bits", "choose a precision of integers for it"),
    "empty": Kind("a tensor it reads or writes has no elements", "drop it from the model: it computes nothing"),
    "neighbours": Kind(
        "no integer operation makes what it reads, or reads what it makes",
        "quantize what it reads from or writes to",
    ),
    "type": Kind("it computes on floats other than f32", "convert the model to float32"),
    "unknown": Kind("the operation is not known to qmlir", "replace it in the model by operations that are known"),
    "device": Kind("the device computes it"),
    "host": Kind(
        "the device does not compute it; its host does",
        "change the network or the key of the device file that the sentence ends with",
    ),
}
"""Reason codes: stable names for programs; the decision's own sentence is for people.

Who decides, in which order, and with which sentence: transforms/quantize/reasons.py.
"""

REMEDIES = {code: kind.remedy for code, kind in KINDS.items() if kind.remedy}
"""Reason code of an operation that stays float, or on the host → what would change the decision."""


CALIBRATION, ROUNDING, RANGE, BRANCHES = "calibration", "rounding", "range", "branches"
"""The keys of `qmlir.methods`: the options of the quantizer that named the plugins, the origin of the range, and what
the scale of a concatenation costs its branches."""

FEWEST_STEPS = 2**4
"""The ledger names an operand of a concatenation that spans fewer steps of its scale."""

DATA_FREE = "statistics of batch normalizations, without data"
"""The origin of a range that no sample showed (analysis/data_free.py)."""

CROSSING = "crossing"
"""The name of the `Entry` field that is a number: the cost of calling the device's host."""


@dataclass(frozen=True)
class Entry:
    """The decision about one operation.

    node       the source nodes that the operation represents
    operation  its kind, such as `nn.conv2d`
    outcome    `quantized` or `float`
    code       a key of `KINDS`
    reason     one sentence
    scale      scales of its quantized result and of its weights, `2^-7` for a power of two; empty below the nn level
    crossing   offload cost: cycles of the call of the device's host that runs the operation; None without such a call
    """

    node: str
    operation: str
    outcome: str
    code: str
    reason: str
    scale: str = ""
    crossing: int | None = None

    @property
    def remedy(self) -> str:
        """What would change the decision; empty if the operation is quantized and not left to a device's host."""
        return REMEDIES.get(self.code, "") if self.outcome == "float" or self.code == "host" else ""

    @property
    def is_data_free(self) -> bool:
        """Whether the range of its result was estimated without data."""
        return DATA_FREE in self.reason

    @property
    def has_remark(self) -> bool:
        """Whether there is more to say than that it is quantized: it is not, or its reason goes on."""
        return self.outcome != "quantized" or bool(self.remedy) or bool(self.remark)

    @property
    def remark(self) -> str:
        """What follows the first clause of its reason; often empty."""
        return self.reason.partition("; ")[2]

    def as_dict(self) -> dict[str, str | int | None]:
        """The entry for JSON, with the remedy."""
        return asdict(self) | {"remedy": self.remedy}


@dataclass(frozen=True)
class Change:
    """An operation with different entries in two ledgers; an entry is None if its ledger lacks the operation."""

    before: Entry | None
    after: Entry | None

    def as_dict(self) -> dict[str, dict[str, str | int | None] | None]:
        """The change for JSON."""
        return {
            "before": self.before.as_dict() if self.before else None,
            "after": self.after.as_dict() if self.after else None,
        }


def changes(before: Sequence[Entry], after: Sequence[Entry]) -> list[Change]:
    """Returns the differences between two ledgers of one network; operations match by node, kind and order."""
    left, right = _by_operation(before), _by_operation(after)
    pairs = [Change(left.get(key), right.get(key)) for key in dict.fromkeys([*left, *right])]
    return [pair for pair in pairs if pair.before != pair.after]


def _by_operation(entries: Sequence[Entry]) -> dict[tuple[str, str, int], Entry]:
    found: dict[tuple[str, str, int], Entry] = {}
    for entry in entries:
        same = sum((entry.node, entry.operation) == key[:2] for key in found)
        found[entry.node, entry.operation, same] = entry
    return found


def decide(op: Operation, outcome: str, code: str, reason: str) -> None:
    """Records the decision about an operation."""
    assert code in KINDS
    DECISION.put(op, DecisionAttr.of(outcome, code, reason))


def note_method(op: Operation, setting: str, method: str) -> None:
    """Records on an operation what chose its range or its weights; the decision's reason says so later."""
    METHODS.put(op, {**noted_methods(op), setting: method})


def note_branches(op: Operation, ranges: Mapping[str, tuple[float, float]], whole: UniformType) -> None:
    """Records on a concatenation which of its operands span few steps of its scale, and what gives them more.

    Args:
        op: The concatenation.
        ranges: The range of each operand, by the operand's name in messages.
        whole: The type of the result.
    """
    spans = {name: (max(hi, 0.0) - min(lo, 0.0)) / whole.scale for name, (lo, hi) in ranges.items()}
    coarse = [
        f"{name} spans {math.ceil(s)} of its {2**whole.storage_width} steps"
        for name, s in spans.items()
        if 0 < s < FEWEST_STEPS
    ]
    if coarse:
        note_method(op, BRANCHES, f"{', '.join(coarse)}: give it precision int16, or return its operands apart")


def noted_methods(op: Operation) -> Mapping[str, str]:
    """Returns the methods that an operation was quantized by, such as `{"calibration": "clip-tails of mine 1.0"}`."""
    return METHODS.of(op) or {}


def decision_of(op: Operation) -> DecisionAttr | None:
    """Returns the decision recorded on an operation; None if there is none."""
    return DECISION.of(op)


class Decisions(Rows[Entry]):
    """The decisions about a network's operations: a list that shows itself as a table."""

    def table(self) -> Table:
        quantized = sum(entry.outcome == "quantized" for entry in self)
        rows = [(e.node, e.operation, e.outcome, e.scale, e.reason) for e in self]
        title = f"{counted(len(self), 'operation')}, {quantized} quantized"
        return Table(title, ("node", "operation", "outcome", "scale", "reason"), rows)


def decisions(module: ModuleOp) -> Decisions:
    """Returns the decisions in a module, in program order; the list shows itself as a table.

    Args:
        module: A module that has been through the quantizer; the list is empty for others.

    Raises:
        OptionError: The argument is no module.
    """
    return Decisions(entry for _, entry in decided_operations(module))


def decided_operations(module: ModuleOp) -> Iterator[tuple[Operation, Entry]]:
    """Yields each operation that has a decision, with its entry in the ledger, in program order."""
    require_module(module)
    remarks = _remarks(module)
    for op in deciding_operations(module):
        if (d := decision_of(op)) is not None:
            reason = "; ".join([d.reason.data, *remarks.get(op, ())])
            yield op, Entry(node_name(op), op.name, d.outcome.data, d.code.data, reason, _scale(op), _crossing(op))


def _remarks(module: ModuleOp) -> dict[Operation, list[str]]:
    """Returns the importer's remarks by operation; one on an operation without a decision is the operand's."""
    found: dict[Operation, list[str]] = {}
    if not (known := remarks_of(module)):
        return found
    for op in deciding_operations(module):
        if not (said := remark_on(op, known)):
            continue
        decided = op
        while decision_of(decided) is None and decided.operands and isinstance(decided.operands[0].owner, Operation):
            decided = decided.operands[0].owner
        found.setdefault(decided, []).append(said)
    return found


def remarks_of(module: ModuleOp) -> Mapping[str, str]:
    """Returns the remarks of a module by the names of tensors.

    Raises:
        PipelineError: The attribute is not a dictionary of texts.
    """
    return texts_by_name(module, REMARKS, "texts by tensor")


def remark_on(op: Operation, remarks: Mapping[str, str]) -> str:
    """Returns the remarks about the tensors that an operation gives or has absorbed, joined; empty without any."""
    if not remarks:
        return ""
    names = names_of(op)
    return "; ".join(dict.fromkeys(remarks[n] for n in (*names.tensors, *names.absorbed) if n in remarks))


def _crossing(op: Operation) -> int | None:
    """Returns the cycles of the host call that contains an operation; None without such a call or figure."""
    part = op.parent_op()
    if part is None or part.dialect_name() != "npu":
        return None
    from qmlir.dialects.npu.layers import HostOp  # not imported for networks without a device

    return part.cycles.value.data if isinstance(part, HostOp) and part.cycles is not None else None


def _scale(op: Operation) -> str:
    """The scales of an operation's result and weights."""
    values = {"": op.results[0], "weights ": op.w} if isinstance(op, WeightedOp) else {"": op.results[0]}
    types = {what: quantized_element(value.type) for what, value in values.items()}
    return ", ".join(what + _range_text(type.scales) for what, type in types.items() if type is not None)


def _range_text(scales: Sequence[float]) -> str:
    """Returns a scale as text, or the least and the greatest of several scales."""
    return "…".join(dict.fromkeys(map(scale_text, (min(scales), max(scales)))))


def deciding_operations(module: ModuleOp) -> Iterator[Operation]:
    """Yields the operations that get a decision: all that compute or move data, except constants."""
    for op in module.walk():
        if isinstance(op, TensorOp | OpaqueOp) and not isinstance(op, ConstantOp):
            yield op
