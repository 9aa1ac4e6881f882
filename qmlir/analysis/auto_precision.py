"""`precision=auto`: quantizes to int8, looks at the result, and gives more digits to the operations that need them.

    quantize to int8 → measure → rank the operations by their effect on the outputs → raise the worst → again

until each output has `TARGET` dB and a margin (or `AGREEMENT` of the samples have float's class, of at least `COUNTED`
samples; see target.py), or nothing that is allowed helps. A step raises as many operations as must err less, which the
float network with the errors of all others tells: it is compiled once, so that hundreds of its evaluations take less
time than one quantization. What is raised are the parts of an operation that err: its result or the tensors that it
reads go from 8 to 16 bits, and its weights; what alone errs too much in 16 bits stays float. Layers of more than
`FLOAT_SHARE` of the MACs never become float. A recipe that serves some networks of the kind is tried before. Where most
of the network is to blame, or steps gain little, all data get 16 bits (`WIDE`), and steps follow from there. No
quantization begins that would end behind the seconds that the user allows.

All of it is rules of a policy, with which `quantize` makes the same network again. The user's own rules come after
them, and an operation to which they give a precision is left alone.
"""

import math
import time
import warnings
from bisect import bisect_left
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue

from qmlir.analysis.counts import decided
from qmlir.analysis.culprits import Culprit, Effects, Injected
from qmlir.analysis.own_errors import StoredResults, StoredWeights
from qmlir.analysis.quality import Quality, affordable_samples
from qmlir.analysis.target import AGREEMENT, TARGET, Judge, Verdict, reached
from qmlir.analysis.tensors import source_of
from qmlir.compiler import compile, main_function
from qmlir.devices.model.properties import products
from qmlir.dialects.nn import AddOp, ConstantOp
from qmlir.dialects.nn.base import is_quantized
from qmlir.dialects.nn.contraction import WeightedOp
from qmlir.dialects.nn.quantizable import uniform
from qmlir.dialects.quant.rules import keeps_scale
from qmlir.display import bytes_text
from qmlir.errors import QmlirError, QmlirWarning
from qmlir.ir.decision import DecisionAttr
from qmlir.ir.facts import DECISION
from qmlir.ir.interfaces import shape_of
from qmlir.ir.rewriting import tensor_name
from qmlir.numerics.schemas import is_symmetric
from qmlir.policies.ledger import deciding_operations, decisions
from qmlir.settings.policy import Policy, Rule
from qmlir.settings.recorded import recorded_config
from qmlir.transforms.quantize.prepare.apply_policy import NamedNetwork
from qmlir.transforms.quantize.prepare.recipes import recognized

AUTO = "auto"

SECONDS = 600.0
"""The seconds of processor time that a search may take, unless the user says otherwise: those of other programs on a
busy machine do not change what is found."""

STEPS = 4
"""The most steps that raise single operations, on int8 and on 16 bits for all data each."""

LEAST_GAIN = 1.0
"""The decibels that a step has to gain for another to follow, and that changes have to gain to stay."""

MOST = 0.5
"""The share of the tensors, by their elements, from which on 16 bits for all of them are as good."""

FLOAT_SHARE = 0.05
"""The most of the network's MACs that may become float."""

PINNING = ("precision", "keep_float", "weight_precision", "parameters")
"""Settings of a user's rule that leave nothing for `auto` to choose."""

Quantizer = Callable[[Policy, Mapping[str, Any]], ModuleOp]
"""Quantizes the network by a policy and by options."""


@dataclass(frozen=True)
class Widened:
    """A network that `auto` has made.

    quantized  the network
    quality    how far its outputs are from float's
    before     the same for int8
    policy     the policy that makes the network without `auto`
    reasons    tensor → what was changed there, and why
    costs      what it costs beside int8, in words
    ended      the seconds after which the search was ended; None if it ended by itself
    too_large  tensor of a layer that alone errs too much → its part of the MACs, which is too much for float
    """

    quantized: ModuleOp
    quality: Quality
    before: Quality
    policy: Policy
    reasons: Mapping[str, str]
    costs: str
    ended: float | None = None
    too_large: Mapping[str, float] = field(default_factory=dict[str, float])

    def as_dict(self) -> dict[str, Any]:
        """Returns what was changed as plain data for JSON."""
        sqnr = {"before": self.before.sqnr, "after": self.quality.sqnr}
        found: dict[str, Any] = {k: None if v is None or math.isinf(v) else v for k, v in sqnr.items()}
        found |= {"reached": reached(self.quality), "costs": self.costs, "reasons": dict(self.reasons)}
        found |= {"ended": self.ended, "too_large": dict(self.too_large)}
        return found | {"policy": self.policy.as_dict()}

    @property
    def repair(self) -> str:
        """Why `auto` does no more for an output that is below what its bits allow."""
        if self.ended is not None:
            return f"--precision auto was ended after {self.ended:g} s, and --auto-seconds gives it more"
        if reached(self.quality):
            return f"--precision auto goes no further than {TARGET:g} dB or {100 * AGREEMENT:g} % of float's classes"
        return "nothing that --precision auto is allowed to change helps further"

    def lines(self) -> Iterator[str]:
        """Yields what was changed and what it costs, in sentences."""
        if self.quality is self.before and reached(self.quality):
            yield f"auto: int8 reaches the target, {TARGET:g} dB or {100 * AGREEMENT:g} % of float's classes"
            return
        gained = f"{_least(self.before)} in int8, {_least(self.quality)} now, on {self.quality.origin}"
        yield f"auto: {gained}; {self.costs}"
        if ALL_WIDE in self.reasons.values():
            yield f"  all data: {ALL_WIDE.removeprefix('auto: ')}"
        for tensor, reason in self.reasons.items():
            if reason != ALL_WIDE:
                yield f"  {tensor}: {reason.removeprefix('auto: ')}"
        if self.ended is not None:
            yield f"auto: the search was ended after {self.ended:g} s; --auto-seconds gives it more"
        elif not reached(self.quality):
            yield f"auto: nothing that is allowed helps further towards {TARGET:g} dB"
            for tensor, share in self.too_large.items():
                rule = f'--rule "name={tensor} keep-float=true" makes it float'
                yield f"  {tensor}: alone errs too much, but has {100 * share:.0f} % of the MACs; {rule}"
        yield f"auto: {FORBIDDING}"


FORBIDDING = '--precision int8 leaves this out, --rule "name=TENSOR precision=int8" keeps a single tensor as it was'
"""How what `auto` changes is forbidden."""


def _least(quality: Quality) -> str:
    return "no SQNR" if quality.sqnr is None else f"{quality.sqnr:.1f} dB"


def widened(
    module: ModuleOp, make: Quantizer, samples: Sequence[Any], policy: Policy, options: Mapping[str, Any], *,
    held_out: bool, seen: Sequence[Any] = (), seconds: float | None = None, recipe: str | None = None,
) -> Widened:  # fmt: skip
    """Returns the network whose operations have the digits that its outputs need.

    Args:
        module: The float network; it stays unchanged.
        make: Quantizes it.
        samples: The samples to measure on.
        policy: The user's policy, without `auto`.
        options: The user's options, without `auto`.
        held_out: Whether quantization does not see the samples.
        seen: Further samples, which quantization sees: a few that are held out may all be easy.
        seconds: The seconds of processor time after which no further quantization begins; None for `SECONDS`.
        recipe: The recipe of the network's kind to try before operations are raised, if there is one.
    """
    given = list(samples), list(seen), policy, dict(options), held_out, seconds or SECONDS
    search = _Search(module, make, *given, recipe)
    search.run()
    return search.result()


def without_auto(policy: Policy, options: Mapping[str, Any]) -> tuple[Policy, dict[str, Any], bool]:
    """Returns a policy and options without settings that `auto` may choose, and whether the precision is one of them.

    Besides the precision this is the recipe, whose standard value is `auto`.
    """
    chosen = [("precision", AUTO), ("recipe", AUTO)]
    default, rest = ({k: v for k, v in each.items() if (k, v) not in chosen} for each in (policy.default, options))
    asked = AUTO in (policy.default.get("precision"), options.get("precision"))
    return Policy(default, policy.rules, policy.options), rest, asked


@dataclass
class _Level:
    """The digits that a tensor's operation has beyond int8: a wide result, wide weights, or all of them as float."""

    result: bool = False
    weights: bool = False
    is_float: bool = False
    reason: str = ""
    effect: float = 0.0


@dataclass(frozen=True, eq=False)
class Attempt:
    """A network that the search has made, what makes it, and how good it is.

    quantized  the network
    policy     the policy that makes it
    extra      the options for the whole network beyond the user's
    levels     the levels of single tensors
    verdict    how good it is
    """

    quantized: ModuleOp
    policy: Policy
    extra: Mapping[str, Any]
    levels: "Mapping[str, _Level]"
    verdict: Verdict

    @property
    def reaches(self) -> bool:
        """Whether the outputs are good enough, without a margin."""
        return self.verdict.lacking <= 0

    @property
    def is_enough(self) -> bool:
        """Whether the outputs are good enough for other samples too."""
        return self.verdict.missing <= 0

    @property
    def rank(self) -> float:
        """The order of attempts: that of a better attempt is larger."""
        return -self.verdict.missing


class _Parts:
    """Which parts of operations err: the stored result, the weights, or else the data that the operation reads.

    Args:
        effects: The errors of the network.
        quantized: The network.
        names: The tensors of the operations.
        share: The noise over the signal of the worst output that each operation may keep.
    """

    def __init__(self, effects: Effects, quantized: ModuleOp, names: Sequence[str], share: float):
        whole = {name: effects.noise([name]) for name in names}
        self._least = {name: min(share, each / 2) / 2 for name, each in whole.items()}
        self._result = effects.noises_of(StoredResults(quantized, names))
        self._weights = effects.noises_of(StoredWeights(quantized, names))
        self._read = {
            name: each - self._result.get(name, 0) - self._weights.get(name, 0) for name, each in whole.items()
        }

    def result(self, name: str) -> bool:
        """Whether the result of an operation errs as it is stored."""
        return self._result.get(name, 0) > self._least[name]

    def weights(self, name: str) -> bool:
        """Whether the weights of an operation err."""
        return self._weights.get(name, 0) > self._least[name]

    def inputs(self, name: str) -> bool:
        """Whether the data that an operation reads err; where its weights err, they are read in as many bits."""
        return self._read[name] > self._least[name] or self.weights(name)


@dataclass
class _Search:
    module: ModuleOp
    make: Quantizer
    samples: list[Any]
    seen: list[Any]
    policy: Policy
    options: dict[str, Any]
    held_out: bool
    seconds: float
    recipe: str | None = None
    levels: dict[str, _Level] = field(default_factory=dict[str, _Level])
    refused: set[tuple[str, str]] = field(default_factory=set[tuple[str, str]])
    too_large: dict[str, float] = field(default_factory=dict[str, float])

    def run(self) -> None:
        """Raises operations step by step: on int8, then on 16 bits for all data."""
        self.started, self.longest, self.ended = time.process_time(), 0.0, False
        self.extra: dict[str, Any] = {}
        groups = [(samples, held) for samples, held in ((self.samples, self.held_out), (self.seen, False)) if samples]
        self.judges = [Judge(self.module, samples, held_out=held) for samples, held in groups]
        self.injected = Injected()
        self.best = self.current = self.first = self._attempt(())
        if self.first.is_enough:
            return
        operations = main_function(self.first.quantized).body.block.ops
        self.kinds = {tensor_name(r): op for op in operations for r in op.results}
        self.macs = {name: products(op) for name, op in self.kinds.items() if isinstance(op, WeightedOp)}
        self.pinned = self._pinned()
        fixed = {*self.options, *self.policy.default}
        self.may_widen = fixed.isdisjoint(WIDE[0])
        if self.recipe is not None:
            self._try_everywhere({"recipe": self.recipe}, fixed)
        kind = recognized(self.module)
        widens = kind is not None and kind.recipe.widens and self._try_everywhere({"recipe": kind.name}, fixed)
        if not widens and any(isinstance(op, AddOp) for op in operations):
            self._try_everywhere({"residuals": AUTO}, fixed)
        self._raise_in_steps()
        for extra in WIDE if self.may_widen else ():
            if not self.best.is_enough and self._try_everywhere(extra, fixed):
                self.may_widen = extra is not WIDE[-1]
                self._raise_in_steps()
        if self.best.is_enough and self.best.levels:
            self._take_back()

    def _try_everywhere(self, extra: Mapping[str, Any], fixed: Container[str]) -> bool:
        """Quantizes with other options for the whole network, unless the user gave them; returns whether it is better.

        What was raised before is taken back: it was chosen for another network.
        """
        if self.best.reaches or any(name in fixed for name in extra):
            return False
        levels, before, self.levels, self.extra = self.levels, self.extra, {}, dict(extra)
        found = self._carried_out({})
        if found is None or found.rank <= self.best.rank:
            self.levels, self.extra = levels, before
            return False
        self.best = self.current = found
        return True

    def _raise_in_steps(self) -> None:
        """Raises operations until the outputs are good enough, or a step gains little."""
        for _ in range(STEPS):
            before = {name: replace(level) for name, level in self.levels.items()}
            if self.current.is_enough or not self._affords() or not self._raise_worst():
                break
            found = self._carried_out(before)
            if found is None:  # the refused part is not asked for again
                continue
            gained = found.rank - self.current.rank
            if gained > 0:
                self.current = found
            else:
                self.levels = before
            self.best = max(self.best, found, key=lambda each: each.rank)
            if gained < LEAST_GAIN:
                break

    def _affords(self) -> bool:
        """Whether one more quantization ends in time, if it takes no longer than the longest so far."""
        spent = time.process_time() - self.started
        self.ended = self.ended or spent + self.longest > self.seconds
        return not self.ended

    def _take_back(self) -> None:
        """Takes back changes that the outputs do not need, those of the least effect first."""
        self.levels, count = dict(self.best.levels), len(self.best.levels) // 2
        self.extra = dict(self.best.extra)
        for _ in range(MOST_TAKEN_BACK):
            if not count or not self._affords():
                break
            before = dict(self.levels)
            for name in sorted(before, key=lambda name: -before[name].effect)[:count]:
                del self.levels[name]
            found = self._carried_out(before)
            if found is not None and found.is_enough and found.rank > self.best.rank - LEAST_GAIN:
                self.best, count = found, len(self.levels) // 2
            else:
                self.levels, count = before, count // 2

    def _attempt(self, rules: Sequence[Rule]) -> Attempt:
        started = time.process_time()
        policy = Policy(self.policy.default, (*rules, *self.policy.rules)).with_default(self.extra)
        with warnings.catch_warnings():
            if self.levels or self.extra:
                warnings.simplefilter("ignore", QmlirWarning)  # what is to be said was said of int8
            quantized = self.make(policy, self.options)
        found = max((judge.verdict(quantized) for judge in self.judges), key=lambda each: each.missing)
        self.longest = max(self.longest, time.process_time() - started)
        return Attempt(quantized, policy, dict(self.extra), dict(self.levels), found)

    def _carried_out(self, before: Mapping[str, _Level]) -> Attempt | None:
        """Quantizes with the levels as they are; if a rule is refused, that part of it is never asked for again."""
        if not self._affords():
            return None
        try:
            return self._attempt(self._rules())
        except QmlirError as error:
            place = str(error.where or "")
            name = next((n for n in self.levels if place == _place(n)), None)
            changed = [n for n in self.levels if self.levels[n] != before.get(n, _Level())]
            for each in [name] if name is not None else changed:
                self._refuse(each, before)
            return None

    def _refuse(self, name: str, before: Mapping[str, _Level]) -> None:
        old, new = before.get(name, _Level()), self.levels[name]
        for part in ("result", "weights", "is_float"):
            if getattr(old, part) != getattr(new, part):
                self.refused.add((name, part))
        if name in before:
            self.levels[name] = before[name]
        else:
            del self.levels[name]

    def _rules(self) -> list[Rule]:
        """The rules that give the tensors their levels."""
        config = recorded_config(self.current.quantized)
        found: list[Rule] = []
        for name, level in self.levels.items():
            settings: dict[str, Any] = {"keep_float": True}
            if not level.is_float:
                settings = {"precision": "int16"} if level.result else {}
                if level.result and not is_symmetric(config.schema):
                    settings["schema"] = "symmetric"
                if isinstance(self.kinds.get(name), WeightedOp):
                    settings["weight_precision"] = "int16" if level.weights else config.stored_weights
            found.append(Rule(settings, name=name, place=_place(name)))
        return found

    def _pinned(self) -> set[str]:
        """The tensors whose precision the user's own rules give."""
        rules = [rule for rule in self.policy.rules if any(setting in rule.settings for setting in PINNING)]
        if not rules:
            return set()
        network = NamedNetwork(self.first.quantized.clone())
        matched = [op for rule in rules for op in network.matching(rule)]
        return {name for op in matched for name in network.names[op]}

    def _raise_worst(self) -> bool:
        """Raises the operations that must err less if the outputs are to reach the target; returns whether any.

        They are the first of those with the largest effects behind which the errors of all others together are small
        enough. Where these are most of the network, none is raised.
        """
        self.too_large = {}
        quantized, verdict = self.current.quantized, self.current.verdict
        some = verdict.worst_samples(max(1, min(SAMPLES, affordable_samples(self.module) // 8)))
        effects = Effects(*self.judges[0].with_logits(quantized), some, compiled=self.injected)
        total = effects.noise(effects.names)
        allowed = min(10 ** (-TARGET / 10), total * 10 ** (-verdict.missing / 10)) / 2
        worst = effects.worst(MOST_RAISED, EVALUATIONS, least=allowed / MOST_RAISED)
        ranked = [each.tensor for each in worst]
        count = bisect_left(
            range(len(ranked)),
            True,
            key=lambda k: effects.noise([n for n in effects.names if n not in ranked[:k]]) <= allowed,
        )
        if self.may_widen and (count == len(ranked) == MOST_RAISED or self._is_most(ranked[:count])):
            return False
        makers = {tensor_name(r): op for op in main_function(quantized).body.block.ops for r in op.results}
        blamed = worst[: max(1, count)]
        parts = _Parts(effects, quantized, [each.tensor for each in blamed], allowed / max(1, count))
        # In 16 bits, an operation errs little: floats are for those that alone err too much all the same.
        raised = [self._raise(each, parts, makers, floats=10 ** (-each.effect / 10) > allowed) for each in blamed]
        return any(raised)

    def _is_most(self, names: Sequence[str]) -> bool:
        """Whether tensors are most of what the network computes in 8 bits, so that 16 bits for all are as good."""
        sizes = {
            name: math.prod(shape_of(op.results[0])) for name, op in self.kinds.items() if is_quantized(op.results[0])
        }
        return sum(sizes.get(name, 0) for name in names) > MOST * sum(sizes.values())

    def _raise(self, culprit: Culprit, parts: "_Parts", makers: Mapping[str, Operation], *, floats: bool) -> bool:
        """Gives the parts of an operation that err a level more, floats if allowed; returns whether there was one."""
        op, name = makers[culprit.tensor], culprit.tensor
        share = self.macs.get(name, 0) / max(1, sum(self.macs.values()))
        if floats and share > FLOAT_SHARE:
            self.too_large[name] = share
        asked: list[tuple[str, str]] = []
        if parts.result(name):
            asked.append((name, "result"))
        if parts.inputs(name):
            asked += [(read, "result") for read in _read(op, makers)]
        if parts.weights(name):
            asked.append((name, "weights"))
        if any([self._set(each, part, makers, culprit) for each, part in asked]):
            return True
        if isinstance(op, WeightedOp) and self._set(name, "weights", makers, culprit):
            return True
        return floats and self._set(name, "is_float", makers, culprit)

    def _set(self, name: str, part: str, makers: Mapping[str, Operation], culprit: Culprit) -> bool:
        """Raises the level of a tensor's operation; returns whether it may be raised and was not."""
        level, op = self.levels.get(name, _Level()), makers.get(name)
        if name in self.pinned or (name, part) in self.refused or getattr(level, part) or level.is_float:
            return False
        if part == "result" and ("precision" in self.extra or (op is not None and _is_wide(op.results[0]))):
            return False
        if part == "weights" and isinstance(op, WeightedOp) and _is_wide(op.w):
            return False
        if part == "is_float":
            floats = sum(self.macs.get(other, 0) for other, each in self.levels.items() if each.is_float)
            if op is None or floats + self.macs.get(name, 0) > FLOAT_SHARE * sum(self.macs.values()):
                return False
        left = "no number" if culprit.effect == -math.inf else f"{culprit.effect:.1f} dB"
        bits, said = {
            "result": ("8", "int16"), "weights": ("8", "int16, weights too"), "is_float": ("its", "float"),
        }[part]  # fmt: skip
        where = "" if name == culprit.tensor else f" of {culprit.tensor}"
        reason = f"auto: {said}, since {bits} bits{where} alone leave {left} at the outputs"
        self.levels[name] = replace(level, **{part: True}, reason=reason, effect=culprit.effect)
        if part == "weights":
            self.levels[name].result = True
        return True

    def result(self) -> Widened:
        """Returns the best network, with the reasons in its ledger."""
        best, first = self.best, self.first
        reasons = {name: level.reason for name, level in best.levels.items() if level.reason}
        if best.extra in WIDE:
            reasons = {**dict.fromkeys(self.kinds, ALL_WIDE), **reasons}
        _tell(best.quantized, reasons)
        costs = _costs(first.quantized, best.quantized, None if best is first else (self.seen or self.samples)[0])
        qualities = best.verdict.quality, first.verdict.quality
        ended = self.seconds if self.ended else None
        return Widened(best.quantized, *qualities, best.policy, reasons, costs, ended, self.too_large)


WIDE: tuple[Mapping[str, str], ...] = ({"precision": "int16", "weight_precision": "int8"}, {"precision": "int16"})
"""Options that are tried for the whole network where single operations do not suffice, the cheaper first."""

ALL_WIDE = "auto: int16 like the whole network, since no few operations are to blame"

MOST_TAKEN_BACK = 2
"""The most quantizations that try to do with fewer changes."""

MOST_RAISED = 48
"""The most operations that a step ranks."""

EVALUATIONS = 400
"""The most evaluations of a step's ranking."""

SAMPLES = 4
"""The most samples on which operations are ranked."""

CALLS = 0.2
"""The seconds in which calls are timed, `LEAST_CALLS` at least."""

LEAST_CALLS = 3


def _is_wide(value: SSAValue) -> bool:
    return is_quantized(value) and uniform(value).storage_width > 8


def _place(name: str) -> str:
    return f'rule of auto for "{name}"'


def _read(op: Operation, makers: Mapping[str, Operation]) -> Iterable[str]:
    """The tensors of 8 bits that an operation reads, by the operation that makes them or as inputs of the network."""
    for value in op.operands:
        while (owner := source_of(value).owner) and isinstance(owner, Operation) and keeps_scale(owner):
            value = owner.operands[0]
        source = source_of(value)
        if not isinstance(source.owner, ConstantOp) and (name := tensor_name(source)):
            yield name


def _tell(quantized: ModuleOp, reasons: Mapping[str, str]) -> None:
    """Adds to the ledger why operations are not in int8."""
    for op in deciding_operations(quantized):
        decision = DECISION.of(op)
        said = next((reasons[tensor_name(r)] for r in op.results if tensor_name(r) in reasons), None)
        if decision is not None and said is not None:
            outcome, code, reason = (each.data for each in (decision.outcome, decision.code, decision.reason))
            DECISION.put(op, DecisionAttr.of(outcome, code, f"{reason}; {said}"))


def _costs(before: ModuleOp, after: ModuleOp, sample: Any) -> str:
    """What a network costs beside another: bytes of constants, time, and the MACs in float and on data of 16 bits."""
    old, new = (sum(int(each.figures["weight_bytes"]) for each in decided(net)) for net in (before, after))
    entries = decided(after)
    macs = max(1, sum(int(each.figures["macs"]) for each in entries))
    floats = sum(int(each.figures["macs"]) for each in entries if each.entry.outcome == "float")
    wide = sum(int(each.figures["macs"]) for each in entries if each.precision.startswith("int16"))
    left = sum(entry.outcome == "float" for entry in decisions(after))
    text = f"constants of {bytes_text(new)} ({bytes_text(old)} in int8)"
    times = [None if sample is None else milliseconds(net, sample) for net in (before, after)]
    if times[0] is not None and times[1] is not None:
        text += f", {times[1]:.3g} ms a call on this CPU ({times[0]:.3g} ms)"
    text += f", {100 * wide / macs:.1f} % of the MACs in int16"
    return f"{text}, {100 * floats / macs:.1f} % in float ({left} of {len(entries)} operations)"


def milliseconds(network: ModuleOp, sample: Any) -> float | None:
    """Returns the least time of a call on this CPU; None if the network cannot be compiled for it."""
    try:
        executable = compile(network)
        given = next(iter(executable.taken([sample])))
    except QmlirError:
        return None
    spent: list[float] = []
    while len(spent) < LEAST_CALLS or sum(spent) < CALLS:
        started = time.perf_counter()
        executable.advance(given)
        spent.append(time.perf_counter() - started)
    return 1000 * min(spent)
