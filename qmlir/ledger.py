"""The ledger: what became of each operation, and why.

Passes write a `#qmlir.decision` on every operation they decide about; this module reads them back as rows for a
terminal, for JSON and for tests. An operation without a decision has not been through the quantizer.
"""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation

from qmlir.dialects.interfaces import TensorOp
from qmlir.dialects.nn import ConstantOp
from qmlir.dialects.nn.contraction import WeightedOp
from qmlir.dialects.npu.layers import HostOp
from qmlir.dialects.qmlir import DECISION, DecisionAttr, OpaqueOp
from qmlir.dialects.quant.schemas import scale_text
from qmlir.dialects.quant.types import quantized_element
from qmlir.rewriting import node_name
from qmlir.verify import require_module

CODES = {
    "integer": "computed in integers",
    "moved": "moves integers without arithmetic",
    "compared": "compares integers",
    "no-range": "a tensor it reads or writes has no range",
    "target": "the target has no integer form of the operation",
    "precision": "the target has an integer form of the operation on other types",
    "computed-weights": "its weights are computed, so they have no parameters before run time",
    "accumulator": "its sums do not fit 32 bits",
    "factor": "its scales are too far apart for a multiplier",
    "bias": "its bias is computed, or does not fit the accumulator's scale",
    "blocked": "its weights have parameters for each block, which sums over blocks cannot share",
    "shared": "its result is read as floats too, which quantizing it would change",
    "runtime": "the runtime that is followed computes it on floats",
    "policy": "the policy keeps it in floats",
    "empty": "a tensor it reads or writes has no elements",
    "neighbours": "it moves values that only float operations read and write",
    "type": "it computes on floats other than f32",
    "unknown": "the operation is not known to qmlir",
    "device": "the device computes it",
    "host": "the device does not compute it; its host does",
}
"""Reason codes: stable names for programs; the decision's own sentence is for people."""

REMEDIES = {
    "no-range": "profile the network, or fix a range in the policy",
    "target": "leave it float, or build it of operations that OPERATORS.md lists as computed in integers",
    "precision": "choose another precision for it in the policy",
    "computed-weights": "make its weights a constant of the model",
    "accumulator": "give it or its weights a lower precision in the policy",
    "factor": "fix the range of its tensors in the policy",
    "bias": "make its bias a constant of the model, or give its input a wider range in the policy",
    "blocked": "give its weights one scale for each channel",
    "shared": "quantize the other operations that read its result",
    "runtime": "follow no runtime: load the model with numerics=default",
    "policy": "drop the policy's rule",
    "empty": "drop it from the model: it computes nothing",
    "neighbours": "quantize what it reads from or writes to",
    "type": "convert the model to float32",
    "unknown": "replace it in the model by operations that are known",
    "host": "change the network or the key of the device file that the sentence ends with",
}
"""Reason code of an operation that stays float, or on the host → what would change that."""


CROSSING = "crossing"
"""The field of an entry that is a number."""


@dataclass(frozen=True)
class Entry:
    """One operation's decision.

    node       the source nodes it stands for
    operation  its kind, such as `nn.conv2d`
    outcome    `quantized` or `float`
    code       a key of `CODES`
    reason     one sentence
    scale      of its quantized result, and of its weights: `2^-7` for a power of two; empty below the nn level
    crossing   cycles of the call of a device's host in which it runs; None where there is none
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
        """What would change the decision; empty where it is one for integers on the target itself."""
        return REMEDIES.get(self.code, "") if self.outcome == "float" or self.code == "host" else ""

    def as_dict(self) -> dict[str, str | int]:
        """The entry for JSON, without what there is none of."""
        return {name: value for name, value in asdict(self).items() if value is not None} | {"remedy": self.remedy}


@dataclass(frozen=True)
class Change:
    """An operation that two ledgers say different things of; one of them may not know it."""

    before: Entry | None
    after: Entry | None

    def as_dict(self) -> dict[str, dict[str, str | int] | None]:
        """The change for JSON."""
        return {
            "before": self.before.as_dict() if self.before else None,
            "after": self.after.as_dict() if self.after else None,
        }


def changes(before: Sequence[Entry], after: Sequence[Entry]) -> list[Change]:
    """Where two ledgers of one network differ: operations are the same by node and kind, in order where several are."""
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
    assert code in CODES
    op.attributes[DECISION] = DecisionAttr.of(outcome, code, reason)


def decision_of(op: Operation) -> DecisionAttr | None:
    """The decision recorded on an operation."""
    decision = op.attributes.get(DECISION)
    return decision if isinstance(decision, DecisionAttr) else None


def decisions(module: ModuleOp) -> list[Entry]:
    """The decisions in a module, in program order."""
    require_module(module)
    return [
        Entry(node_name(op), op.name, d.outcome.data, d.code.data, d.reason.data, _scale(op), _crossing(op))
        for op in deciding_operations(module)
        if (d := decision_of(op)) is not None
    ]


def _crossing(op: Operation) -> int | None:
    """What the call of the host costs in which an operation runs."""
    part = op.parent_op()
    return part.cycles.value.data if isinstance(part, HostOp) and part.cycles is not None else None


def _scale(op: Operation) -> str:
    """The scales of an operation's result and weights."""
    values = {"": op.results[0], "weights ": op.w} if isinstance(op, WeightedOp) else {"": op.results[0]}
    types = {what: quantized_element(value.type) for what, value in values.items()}
    return ", ".join(what + _range_text(type.scales) for what, type in types.items() if type is not None)


def _range_text(scales: Sequence[float]) -> str:
    """One scale, or the least and the greatest of several."""
    return "…".join(dict.fromkeys(map(scale_text, (min(scales), max(scales)))))


def deciding_operations(module: ModuleOp) -> Iterator[Operation]:
    """The operations that deserve a decision: all that compute or move data."""
    for op in module.walk():
        if isinstance(op, TensorOp | OpaqueOp) and not isinstance(op, ConstantOp):
            yield op
