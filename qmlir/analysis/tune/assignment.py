"""An assignment: what a search chooses, the precision of each layer's weights and of each operation's data.

An assignment becomes a policy: the precision that most weights have is the default, and a rule says what differs.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from qmlir.analysis.own_errors import INPUT
from qmlir.dialects.nn.contraction import WeightedOp
from qmlir.ir.interfaces import shape_of
from qmlir.policies.policy import Policy, Rule
from qmlir.policies.quant_config import Settings

WIDE = "int16"
"""The precision of the data of a promoted operation."""


@dataclass(frozen=True)
class Layer:
    """An operation that a search can change.

    tensor   name of its result; of the input, for an input of the network
    kind     its kind, such as `nn.conv2d`; `input` for an input of the network
    weights  number of its weights; 0 without weights
    macs     products of a call
    readers  results of the operations that read its result, directly or moved; of those that compute
    widens   whether its data can have 16 bits
    """

    tensor: str
    kind: str
    weights: int
    macs: int
    readers: tuple[str, ...]
    widens: bool = False

    @property
    def promoted(self) -> frozenset[str]:
        """The operations whose data must have 16 bits so that the result has, wherever it is read."""
        own = () if self.kind == INPUT else (self.tensor,)
        return frozenset((*own, *self.readers))


@dataclass(frozen=True)
class Assignment:
    """The precision of each layer's weights, and the operations whose data have 16 bits.

    bits      result of a layer → bits of its weights
    wide      results of the operations whose data have 16 bits
    settings  other options of the quantizer, for the whole network
    """

    bits: tuple[tuple[str, int], ...]
    wide: frozenset[str] = frozenset()
    settings: Settings = field(default_factory=dict[str, Any])

    @classmethod
    def uniform(cls, layers: Sequence[Layer], bits: int, settings: Settings, *, wide: bool = False) -> "Assignment":
        """Returns the assignment of one precision to all weights, and of 8 or 16 bits to all data."""
        names = frozenset(layer.tensor for layer in layers if layer.widens) if wide else frozenset[str]()
        return cls(tuple((layer.tensor, bits) for layer in layers if layer.weights), names, settings)

    def with_bits(self, tensor: str, bits: int) -> "Assignment":
        """Returns the assignment with another precision for one layer's weights."""
        changed = tuple((name, bits if name == tensor else old) for name, old in self.bits)
        return Assignment(changed, self.wide, self.settings)

    def with_wide(self, tensors: frozenset[str]) -> "Assignment":
        """Returns the assignment with 16 bits for the data of more operations."""
        return Assignment(self.bits, self.wide | tensors, self.settings)

    @property
    def default(self) -> dict[str, Any]:
        """The settings of a policy that hold where no rule does."""
        if not self.bits:
            return dict(self.settings)
        (most, _), *_ = Counter(bits for _, bits in self.bits).most_common(1)
        return {**self.settings, "weight_precision": f"int{most}"}

    def rules(self) -> dict[str, dict[str, Any]]:
        """Result of an operation → the settings that differ from the default's."""
        usual, known = self.default.get("weight_precision"), dict(self.bits)
        found: dict[str, dict[str, Any]] = {}
        for name in dict.fromkeys([*known, *sorted(self.wide - known.keys())]):
            own: dict[str, Any] = {"precision": WIDE} if name in self.wide else {}
            if name in known and f"int{known[name]}" != usual:
                own["weight_precision"] = f"int{known[name]}"
            if own:
                found[name] = own
        return found

    def policy(self) -> Policy:
        """Returns the policy that quantizes a network so."""
        return Policy(self.default, [Rule(settings, name=name) for name, settings in self.rules().items()])


def weights_of(op: object) -> int:
    """The number of weights of an operation; 0 if it has none."""
    if not isinstance(op, WeightedOp):
        return 0
    count = 1
    for extent in shape_of(op.w):
        count *= extent
    return count


Noises = Mapping[str, Mapping[int, float]]
"""Tensor → bits → relative noise power at the output."""
