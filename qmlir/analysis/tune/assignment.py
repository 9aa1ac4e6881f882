"""An assignment: what a search chooses, the precision of each layer's weights and of each operation's data.

An assignment becomes a policy: the precision that most weights have is the default, and a rule says what differs.

The bits of a weight are those that it takes in store. 4 is int4 with a scale for each output channel; 4.25 is int4 with
an integer multiplier of 8 bits, too, for each group of 32 weights (numerics/groups.py). If the settings ask for
codebooks, weights of few bits without groups have one.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from qmlir.analysis.own_errors import INPUT
from qmlir.dialects.nn.contraction import WeightedOp
from qmlir.ir.interfaces import shape_of
from qmlir.numerics.codebooks import Codebook
from qmlir.settings.policy import Policy, Rule
from qmlir.settings.quant_config import PlainSettings
from qmlir.transforms.quantize.reasons import why_no_groups

WIDE = "int16"
"""The precision of the data of a promoted operation."""

GROUP = 32
"""The weights of a group that has a multiplier."""

MULTIPLIER = 8 / GROUP
"""The bits that the multipliers of groups add to each weight."""

PLAIN, GROUPED = "channel", f"group-{GROUP}"
"""The granularity of weights without multipliers, and with a multiplier for each group."""

LEVELS, EVEN, CODEBOOK = "weight_levels", "even", "codebook"
"""The setting that says which integers weights of few bits are, and its values."""


def precision_of(bits: float) -> str:
    """Returns the precision of weights that take so many bits each: int4 for 4 and for 4.25."""
    return f"int{int(bits)}"


def has_groups(bits: float) -> bool:
    """Whether weights that take so many bits each have multipliers of groups."""
    return bits != int(bits)


def has_codebook(bits: float, settings: PlainSettings) -> bool:
    """Whether weights that take so many bits each are entries of a codebook, if they have settings."""
    return settings.get(LEVELS) == CODEBOOK and bits in Codebook.BITS


def spelled(bits: float) -> str:
    """Returns the precision of weights in words: `int4`, or `int4 in groups of 32`."""
    return precision_of(bits) + (f" in groups of {GROUP}" if has_groups(bits) else "")


@dataclass(frozen=True)
class Layer:
    """An operation that a search can change.

    tensor   name of its result; of the input, for an input of the network
    kind     its kind, such as `nn.conv2d`; `input` for an input of the network
    weights  number of its weights; 0 without weights
    groups   number of the groups of 32 weights that can have multipliers; 0 if the operation takes none
    outputs  number of output channels of weights, each of which has a bias
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
    groups: int = 0
    outputs: int = 0

    def bytes(self, bits: float, settings: PlainSettings | None = None) -> int:
        """Returns the most bytes of the weights, packed, with what else their constants take more than with 8 bits.

        These are the multipliers of their groups, the table of a codebook, and biases of 64 bits, which weights of 16
        bits may need.
        """
        more = (self.groups if has_groups(bits) else 0) + (4 * self.outputs if bits > 8 else 0)
        more += 1 << int(bits) if has_codebook(bits, settings or {}) else 0
        return -(-self.weights * int(bits) // 8) + more

    def able(self, bits: float) -> float:
        """Returns the bits that each weight takes: without those of multipliers if the operation takes no groups."""
        return bits if self.groups else int(bits)

    @property
    def promoted(self) -> frozenset[str]:
        """The operations whose data must have 16 bits so that the result has, wherever it is read."""
        own = () if self.kind == INPUT else (self.tensor,)
        return frozenset((*own, *self.readers))


@dataclass(frozen=True)
class Assignment:
    """The precision of each layer's weights, and the operations whose data have 16 bits.

    bits      result of a layer → bits of each of its weights in store
    wide      results of the operations whose data have 16 bits
    settings  other options of the quantizer, for the whole network
    """

    bits: tuple[tuple[str, float], ...]
    wide: frozenset[str] = frozenset()
    settings: PlainSettings = field(default_factory=dict[str, Any])

    @classmethod
    def uniform(
        cls, layers: Sequence[Layer], bits: float, settings: PlainSettings, *, wide: bool = False
    ) -> "Assignment":
        """Returns the assignment of one precision to all weights, and of 8 or 16 bits to all data.

        Weights have multipliers of groups if `bits` says so and their operation takes them.
        """
        names = frozenset(layer.tensor for layer in layers if layer.widens) if wide else frozenset[str]()
        return cls(tuple((layer.tensor, layer.able(bits)) for layer in layers if layer.weights), names, settings)

    def with_bits(self, tensor: str, bits: float) -> "Assignment":
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
        own: dict[str, Any] = {"granularity": GROUPED} if has_groups(most) else {}
        if LEVELS in self.settings:
            own[LEVELS] = self._levels(most)
        return {**self.settings, "weight_precision": precision_of(most), **own}

    def _levels(self, bits: float) -> str:
        """The levels of weights that take so many bits each."""
        return CODEBOOK if has_codebook(bits, self.settings) else EVEN

    def rules(self) -> dict[str, dict[str, Any]]:
        """Result of an operation → the settings that differ from the default's."""
        default, known = self.default, dict(self.bits)
        usual, grouped = default.get("weight_precision"), default.get("granularity") == GROUPED
        given = "granularity" in self.settings
        found: dict[str, dict[str, Any]] = {}
        for name in dict.fromkeys([*known, *sorted(self.wide - known.keys())]):
            own: dict[str, Any] = {"precision": WIDE} if name in self.wide else {}
            if name in known and precision_of(known[name]) != usual:
                own["weight_precision"] = precision_of(known[name])
            if name in known and not given and has_groups(known[name]) != grouped:
                own["granularity"] = PLAIN if grouped else GROUPED
            if name in known and LEVELS in default and self._levels(known[name]) != default[LEVELS]:
                own[LEVELS] = self._levels(known[name])
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


def outputs_of(op: object) -> int:
    """The number of output channels of an operation's weights; 0 if it has none."""
    return op.output_channels() if isinstance(op, WeightedOp) else 0


def groups_of(op: object) -> int:
    """The number of groups of 32 weights of an operation; 0 if its weights cannot have multipliers of groups."""
    if not isinstance(op, WeightedOp) or why_no_groups(op, GROUP) is not None:
        return 0
    outputs = shape_of(op.w)[0]
    return outputs * -(-weights_of(op) // outputs // GROUP)


WeightNoises = Mapping[str, Mapping[float, float]]
"""Result of a layer → bits of each of its weights in store → relative noise power at the output."""

DataNoises = Mapping[str, Mapping[int, float]]
"""Result or input of the network → its bits, 8 or 16 → relative noise power at the output."""
