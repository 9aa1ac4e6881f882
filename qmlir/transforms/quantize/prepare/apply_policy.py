"""`apply-policy`: writes the settings of a policy's rules on the operations that the rules match."""

import re
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cached_property

from xdsl.context import Context
from xdsl.dialects import func
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import BlockArgument, Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter

from qmlir.dialects.calib import ObserveOp
from qmlir.dialects.nn.base import is_float
from qmlir.dialects.nn.contraction import FullyConnectedOp, WeightedOp
from qmlir.dialects.nn.movement import MovementOp
from qmlir.dialects.nn.quantizable import computed_storage, data_values
from qmlir.dialects.qmlir import OpaqueOp
from qmlir.dialects.quant.rules import FixedScale
from qmlir.dialects.target import Target
from qmlir.errors import OptionError, QmlirWarning, near_misses
from qmlir.ir.context import QmlirContext
from qmlir.ir.facts import POLICY
from qmlir.ir.names import names_of
from qmlir.ir.option_parsing import build_options, parse_options
from qmlir.ir.passes import option
from qmlir.ir.rewriting import names_of_value, node_name, tensor_name
from qmlir.ir.signature import defined_functions
from qmlir.numerics.halves import HALVES
from qmlir.numerics.schemas import STORAGE_RANGES, QuantizationError, exponent_of, is_symmetric, quantization_of_range
from qmlir.policies.ledger import Entry, deciding_operations, decisions
from qmlir.policies.legality import target_of
from qmlir.settings.policy import Policy, PolicyError, Rule, rule_of
from qmlir.settings.quant_config import (
    TENSOR_SETTINGS,
    WEIGHT_SETTINGS,
    NetworkConfig,
    OpConfig,
    PlainSettings,
    add_settings,
    config_of,
    op_config_of,
    write_config,
)
from qmlir.transforms.quantize.op_configs import float_input
from qmlir.transforms.quantize.ranges.scale_group import storage_type
from qmlir.transforms.quantize.reasons import carrier_name, computes_in_halves, why_no_groups

# ---------------------------------------------------------------------------------------------------------------
# Finds the operations and inputs of a network that a policy's rule selects: by name, by kind, or by position.


class NamedNetwork:
    """The operations of a module, and the observers of its inputs, by their names."""

    def __init__(self, module: ModuleOp):
        self.operations = [o for o in deciding_operations(module) if not isinstance(o, OpaqueOp)]
        self.inputs: dict[ObserveOp, BlockArgument] = {}
        self.made: list[ObserveOp] = []
        self.arguments: list[BlockArgument] = []
        self._found: dict[tuple[str, object], AbstractSet[Operation]] = {}
        for function in defined_functions(module):
            self._take_inputs(function)
        self.names: dict[Operation, list[str]] = {op: _names_of(op) for op in self.operations}
        self.names.update((o, [_input_name(a), o.tensor.data]) for o, a in self.inputs.items())

    def _take_inputs(self, function: func.FuncOp) -> None:
        """Finds the observer of each float input, or inserts an observer."""
        block = function.body.block
        observed = {o.value: o for o in block.ops if isinstance(o, ObserveOp)}
        first = block.first_op
        assert first is not None
        for argument in block.args:
            if (value := float_input(argument)) is None:
                continue
            self.arguments.append(argument)
            observer = observed.get(value)
            if observer is None:
                observer = ObserveOp(value, _input_name(argument))
                made = value.owner
                where = InsertPoint.after(made) if isinstance(made, Operation) else InsertPoint.before(first)
                Rewriter.insert_op(observer, where)
                self.made.append(observer)
            self.inputs[observer] = argument

    def drop_unused_observers(self) -> None:
        """Removes the observers that were inserted here and that no rule gave a setting."""
        for observer in self.made:
            if not POLICY.on(observer):
                Rewriter.erase_op(observer)

    def carriers(self) -> list[Operation]:
        """The observers and operations that can carry a setting."""
        return [*self.inputs, *self.operations]

    @cached_property
    def _places(self) -> dict[Operation, int]:
        """The place of each carrier among all of them."""
        return {carrier: place for place, carrier in enumerate(self.carriers())}

    def matching(self, rule: Rule) -> list[Operation]:
        """The operations and observers that meet all selectors of a rule.

        What a selector finds is kept for other rules with it, and names are looked up, so that a rule takes time for
        the operations that it matches only.

        Raises:
            PolicyError: A selector matches nothing, or no operation meets all selectors; names near misses.
        """
        found: AbstractSet[Operation] | None = None
        for selector, wanted in rule.selectors.items():
            matched = self._found.get((selector, wanted))
            if matched is None:
                find: Callable[[Rule], AbstractSet[Operation]] = getattr(self, f"_by_{selector}")
                matched = self._found[selector, wanted] = find(rule)
            if not matched:
                shown = " to ".join(rule.between) if selector == "between" else str(wanted)
                raise PolicyError(
                    f"must match an operation or a tensor by {selector}",
                    where=rule.place,
                    got=shown,
                    remedy=near_misses(shown, self._known(selector)),
                )
            found = matched if found is None else found & matched
        if not found:
            raise PolicyError("must match an operation or a tensor by all it says", where=rule.place, got=str(rule))
        return sorted((op for op in found if op in self._places), key=self._places.__getitem__)

    def _known(self, selector: str) -> Iterable[str]:
        """The names that a selector may have, for the remedy of a rule that matches nothing."""
        match selector:
            case "name" | "glob" | "regex":
                return self._named
            case "kind":
                return self._kinds
            case _:
                return ()

    @cached_property
    def _named(self) -> dict[str, set[Operation]]:
        """The operations and observers of each name."""
        found: dict[str, set[Operation]] = {}
        for op, names in self.names.items():
            for name in names:
                found.setdefault(name, set()).add(op)
        return found

    @cached_property
    def _kinds(self) -> dict[str, set[Operation]]:
        """The operations of each kind."""
        found: dict[str, set[Operation]] = {}
        for op in self.operations:
            found.setdefault(op.name.partition(".")[2], set()).add(op)
        return found

    def _by_name(self, rule: Rule) -> AbstractSet[Operation]:
        return self._named.get(rule.name, set())

    def _by_glob(self, rule: Rule) -> AbstractSet[Operation]:
        return _of_fitting(self._named, lambda name: fnmatchcase(name, rule.glob))

    def _by_regex(self, rule: Rule) -> AbstractSet[Operation]:
        pattern = re.compile(rule.regex)
        return _of_fitting(self._named, lambda name: pattern.fullmatch(name) is not None)

    def _by_kind(self, rule: Rule) -> AbstractSet[Operation]:
        wanted = rule.kind.removeprefix("nn.")
        return _of_fitting(self._kinds, lambda kind: fnmatchcase(kind, wanted))

    def _by_layer(self, rule: Rule) -> AbstractSet[Operation]:
        weighted = [op for op in self.operations if isinstance(op, WeightedOp)]
        return set(weighted[:1] if rule.layer == "first" else weighted[-1:])

    @cached_property
    def _tensors(self) -> dict[str, SSAValue]:
        """The results of operations and the inputs of the network by name."""
        tensors: dict[str, SSAValue] = {tensor_name(r): r for op in self.operations for r in op.results}
        return tensors | {_input_name(a): a for a in self.arguments}

    def _by_between(self, rule: Rule) -> AbstractSet[Operation]:
        start, end = (self._tensor(name, self._tensors, rule) for name in rule.between)
        after = _reached([start], lambda v: [u.operation for u in v.uses], lambda op: op.results)
        before = _reached([end], lambda v: [v.owner] if isinstance(v.owner, Operation) else [], lambda op: op.operands)
        return after & before & self._places.keys()

    def _tensor(self, name: str, tensors: Mapping[str, SSAValue], rule: Rule) -> SSAValue:
        if name not in tensors:
            raise PolicyError(
                "must be between tensors of the network", where=rule.place, got=name, remedy=near_misses(name, tensors)
            )
        return tensors[name]


def _of_fitting(found: Mapping[str, set[Operation]], fits: Callable[[str], bool]) -> set[Operation]:
    """The operations of all names that fit."""
    return {op for name, operations in found.items() if fits(name) for op in operations}


def _reached(
    values: list[SSAValue],
    neighbours: Callable[[SSAValue], Iterable[Operation]],
    onward: Callable[[Operation], Iterable[SSAValue]],
) -> set[Operation]:
    """The operations met on the way from some values, forwards or backwards."""
    found: set[Operation] = set()
    waiting = list(values)
    while waiting:
        for op in neighbours(waiting.pop()):
            if op not in found:
                found.add(op)
                waiting += onward(op)
    return found


def _names_of(op: Operation) -> list[str]:
    """All names of an operation: of its source nodes and of the tensors that it makes or has absorbed."""
    names = names_of(op)
    return [*names.nodes, *names.tensors, *names.absorbed] or [node_name(op)]


def _input_name(argument: BlockArgument) -> str:
    names = names_of_value(argument).tensors
    return names[0] if names else argument.name_hint or f"arg{argument.index}"


# ---------------------------------------------------------------------------------------------------------------
# Leaves: `qmlir.policy` attributes. Each holds some fields of a config, the quantization config of one operation
# (policy.py). The quantization passes read them instead of their options. The settings of a network input stand on the
# input's observer.
#
# A rule that matches nothing is an error that names near misses. A rule that no matched operation can honour is an
# error too. If a pattern matches several operations, each takes the settings that apply to it: a setting about weights
# applies only to operations with weights. A warning names the operations that cannot honour their settings, with the
# reasons.


OF_INTEGERS = {"precision", *WEIGHT_SETTINGS}
"""Settings that only an integer operation can have."""


@dataclass(frozen=True)
class ApplyPolicyPass(ModulePass):
    """Writes the rules of a policy on the operations they match, as `qmlir.policy`.

    ```mlir
    %0 = nn.conv2d %x, %w {qmlir.name = #qmlir.name<nodes ["conv1"]>} : …
    // becomes, by the rule {name: conv1, precision: int16}
    %0 = nn.conv2d %x, %w {qmlir.name = #qmlir.name<nodes ["conv1"]>, qmlir.policy = {precision = "int16"}} : …
    ```

    With `settings` it states the settings of the whole network on the module, as `qmlir.config`, for passes that run by
    themselves; `quantize` does so for its own passes.
    """

    name = "apply-policy"
    file: str = option("", "the policy, in YAML")
    rules: str = option("", "more rules, with ; between them: {name=conv1 precision=int16; layer=last keep-float=true}")
    settings: str = option("", "state these settings of the network for later passes: {schema=symmetric data=x.npy}")

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        if self.settings:
            config = build_options(parse_options(self.name, self.settings), NetworkConfig)
            write_config(op, config, config.data)
            if not self.file and not self.rules:
                return
        chosen = ctx.policy if isinstance(ctx, QmlirContext) else None  # by `quantize`, which has merged the default
        policy = chosen if isinstance(chosen, Policy) else self._policy()
        applied = apply_policy(
            op, policy, target_of(ctx), base=config_of(op).op_config(), spread_default=chosen is None
        )
        if isinstance(ctx, QmlirContext):
            ctx.applied = applied

    def _policy(self) -> Policy:
        if not self.file and not self.rules.strip():
            remedy = 'give one: --apply-policy="file=net.yaml"'
            raise OptionError("apply-policy", "needs a file or rules", remedy=remedy)
        return policy_of(self.file, self.rules)


def policy_of(file: str, rules: str) -> Policy:
    """The policy in a file, followed by the rules in an option's text; either text may be empty."""
    policy = Policy.load(file) if file else Policy()
    return policy.with_rules([rule_of(text) for text in rules.split(";") if text.strip()])


@dataclass(frozen=True)
class Applied:
    """A rule, and the names of the operations that carry its settings; `carriers` has those of inputs besides."""

    rule: Rule
    nodes: frozenset[str]
    carriers: frozenset[str] = frozenset()


def apply_policy(
    module: ModuleOp, policy: Policy, target: Target, *, base: OpConfig | None = None, spread_default: bool = False
) -> list[Applied]:
    """Writes a policy on the operations of a module.

    Args:
        module: Changed in place.
        policy: The default and the rules to write.
        target: The target that the network is compiled for.
        base: The options in effect where no rule applies.
        spread_default: Whether to write the policy's default on every operation, before the rules.

    Returns:
        Each rule with the operations that carry its settings.

    Raises:
        PolicyError: A rule matches nothing, or no operation that it matches can honour it.
    """
    network = NamedNetwork(module)
    base = (base or OpConfig()).with_settings(policy.default)
    if spread_default and policy.default:
        for carrier in network.carriers():
            add_settings(carrier, policy.default)
    applied: list[Applied] = []
    for rule in policy.rules:
        carriers = _carriers(rule, network.matching(rule), base, target)
        for op, settings in carriers.items():
            add_settings(op, settings)
        nodes = frozenset(node_name(op) for op in carriers if not isinstance(op, ObserveOp))
        applied.append(Applied(rule, nodes, frozenset(map(carrier_name, carriers))))
    network.drop_unused_observers()
    return applied


def _carriers(
    rule: Rule, matched: Sequence[Operation], base: OpConfig, target: Target
) -> dict[Operation, PlainSettings]:
    """The settings that each matched operation takes from a rule; warns of operations that cannot honour theirs.

    Raises:
        PolicyError: No operation can honour the rule, or no operation has the thing that a setting is about.
    """
    foreign = {op: _foreign(op, rule.settings) for op in matched}
    if nobodys := [name for name in rule.settings if all(name in reasons for reasons in foreign.values())]:
        raise _unhonoured(rule, {carrier_name(op): reasons[nobodys[0]] for op, reasons in foreign.items()})
    found: dict[Operation, PlainSettings] = {}
    refusals: dict[str, str] = {}
    for op in matched:
        own = {name: value for name, value in rule.settings.items() if name not in foreign[op]}
        if not own:
            continue
        if (why := _refusal(op, own, op_config_of(op, base), target)) is None:
            found[op] = own
        else:
            refusals[carrier_name(op)] = why
    if not found:
        raise _unhonoured(rule, refusals)
    _warn_of(rule, refusals, len(found))
    return found


def refuse_unhonoured(applied: Sequence[Applied], module: ModuleOp, idle: Mapping[tuple[str, str], str]) -> None:
    """Refuses a policy with a rule that no operation honours after quantization; warns if only some do not honour it.

    Args:
        applied: The rules, each with the operations that carry its settings.
        module: The quantized network; its recorded decisions tell which operations stayed float.
        idle: Why a setting of a tensor has no effect, by the carrier's name and the setting; without an entry it has.

    Raises:
        PolicyError: A rule gives settings of integer operations, but all operations that carry them stayed float; or no
            carrier of a setting heeds it.
    """
    for each in applied if idle else ():
        for name in each.rule.settings:
            reasons = {c: idle[c, name] for c in sorted(each.carriers) if (c, name) in idle}
            if reasons and len(reasons) == len(each.carriers):
                raise _unhonoured(each.rule, reasons)
    entries: dict[str, list[Entry]] = {}
    decided: Sequence[Entry] = decisions(module) if applied else []
    for entry in decided:
        entries.setdefault(entry.node, []).append(entry)
    places = {node: place for place, node in enumerate(entries)}
    for each in (a for a in applied if OF_INTEGERS & a.rule.settings.keys()):
        others = {"policy"} if each.rule.settings.get("precision") in HALVES else {"policy", "half"}  # of later rules
        nodes = sorted((node for node in each.nodes if node in places), key=places.__getitem__)
        decided = [e for node in nodes for e in entries[node] if e.code not in others]
        left = [e for e in decided if e.outcome == "float" and e.code != "half"]
        reasons = {f'{e.operation} "{e.node}"': e.reason for e in left}
        honoured = len(decided) - len(left)
        if reasons and not honoured:
            raise _unhonoured(each.rule, reasons)
        _warn_of(each.rule, reasons, honoured)


def _unhonoured(rule: Rule, reasons: Mapping[str, str]) -> PolicyError:
    """The error for a rule that no matched operation can honour; `reasons` maps each operation's name to its reason."""
    (first, why), *others = reasons.items()
    more = f", nor can {len(others)} others" if others else ""
    return PolicyError(
        f"{first} cannot have {_said(rule.settings)}: {why}{more}",
        where=rule.place,
        remedy="drop the rule, or say something else in it",
    )


MOST_NAMED = 6
"""The largest number of operations that a warning names."""


def _warn_of(rule: Rule, reasons: Mapping[str, str], honoured: int) -> None:
    """Warns of a rule that some of the operations it matches cannot honour."""
    if not reasons:
        return
    named = "; ".join(f"{name}: {why}" for name, why in list(reasons.items())[:MOST_NAMED])
    more = f"; and {len(reasons) - MOST_NAMED} more" if len(reasons) > MOST_NAMED else ""
    count = f"{len(reasons)} of the {honoured + len(reasons)} that it matches"
    text = f"{rule.place}: {count} cannot have {_said(rule.settings)}: {named}{more}"
    warnings.warn(text, QmlirWarning, stacklevel=3)


# ---------------------------------------------------------------------------------------------------------------
# Which settings an operation can honour


def _foreign(op: Operation, settings: PlainSettings) -> dict[str, str]:
    """Setting → reason, for each setting about something that an operation or an input lacks, such as weights."""
    half = settings.get("precision") if settings.get("precision") in HALVES else None
    if isinstance(op, ObserveOp):
        foreign = (*WEIGHT_SETTINGS, "keep_float", *(["precision"] if half else []))
        return {s: f"it is an input of the network, which has no {_spelled(s)}" for s in settings if s in foreign}
    if not any(map(is_float, data_values(op))):
        return dict.fromkeys(settings, "it is no operation on floats, so there is nothing to choose")
    found: dict[str, str] = {}
    if half and not computes_in_halves(op):
        moves = "it only moves values, in the type of the operations beside it"
        found["precision"] = moves if isinstance(op, MovementOp) else f"it does not compute in {half}"
    if not isinstance(op, WeightedOp):
        found.update((s, f"it has no weights, so no {_spelled(s)}") for s in settings if s in WEIGHT_SETTINGS)
    elif op.b is None and "bias" in settings:
        found["bias"] = "it has no bias"
    if isinstance(op, WeightedOp) and settings.get("granularity", "channel") != "channel":
        size = OpConfig().with_settings({"granularity": settings["granularity"]}).group
        if (reason := why_no_groups(op, size or 0)) is not None:
            found["granularity"] = reason
    if any(rule.bounded for rule in op.get_traits_of_type(FixedScale)):
        found.update((s, f"the function itself fixes its {s}") for s in settings if s in TENSOR_SETTINGS)
    return found


def _refusal(op: Operation, settings: PlainSettings, op_config: OpConfig, target: Target) -> str | None:
    """Why an operation or an input cannot have some settings; None if it can."""
    wanted = op_config.with_settings(settings)
    if wanted.keep_float:
        return _contradicted(settings, "keep_float", "stays float")
    if wanted.half is not None and not isinstance(op, ObserveOp):
        stored = isinstance(op, FullyConnectedOp) and wanted.blocks_bits is not None
        others = {s: v for s, v in settings.items() if not stored or s not in ("weight_precision", "granularity")}
        return _contradicted(others, "precision", f"computes in {wanted.half}")
    if "precision" in settings and not isinstance(op, ObserveOp):
        reason = target.why_float(op, computed_storage(storage_type(wanted.integers)))
        if reason is not None:
            return reason
    return _refused_parameters(wanted, settings)


def _contradicted(settings: PlainSettings, own: str, what: str) -> str | None:
    """Why a rule cannot give settings of integers beside its own setting, by which an operation has none; or None."""
    others = [_spelled(name) for name in settings if name != own]
    return f"what {what} has no {', '.join(others)}" if others else None


def _refused_parameters(op_config: OpConfig, settings: PlainSettings) -> str | None:
    """Why a config's schema, precision, fixed range and fixed parameters do not fit together; None if they do."""
    lo, hi = op_config.range or (0.0, 0.0)
    try:
        quantization_of_range(lo, hi, op_config.schema, op_config.integers)
    except QuantizationError as error:
        return f"{error.need}, got {error.got}"
    if op_config.parameters is None or not {"parameters", "range", "schema", "precision"} & settings.keys():
        return None
    scale, zero_point = op_config.parameters
    low, high = STORAGE_RANGES[op_config.integers]
    if not low <= zero_point <= high:
        return f"zero point {zero_point} is no {op_config.integers}, which is {low} to {high}"
    if is_symmetric(op_config.schema) and zero_point != 0:
        return f"schema {op_config.schema} has zero point 0"
    if op_config.schema == "symmetric_with_power2_scale" and exponent_of(scale) is None:
        return f"schema {op_config.schema} has scales that are powers of two"
    if op_config.range is not None:
        return "it has a fixed range and fixed parameters, of which one has to go"
    return None


def _said(settings: PlainSettings) -> str:
    return ", ".join(f"{_spelled(name)} {value}" for name, value in settings.items())


def _spelled(setting: str) -> str:
    return setting.replace("_", "-")
