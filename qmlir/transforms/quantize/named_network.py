"""Finds the operations and inputs of a network that a policy's rule selects: by name, by kind, or by position."""

import re
from collections.abc import Callable, Iterable, Mapping
from fnmatch import fnmatchcase

from xdsl.dialects import func
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import BlockArgument, Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from qmlir.dialects.calib import ObserveOp
from qmlir.dialects.nn.contraction import WeightedOp
from qmlir.dialects.qmlir import OpaqueOp
from qmlir.errors.near_misses import near_misses
from qmlir.ir.names import names_of
from qmlir.ir.rewriting import names_of_value, node_name, tensor_name
from qmlir.policies.ledger import deciding_operations
from qmlir.policies.policy import PolicyError, Rule
from qmlir.policies.recipe import POLICY
from qmlir.transforms.quantize.inputs import float_input


class NamedNetwork:
    """The operations of a module, and the observers of its inputs, by their names."""

    def __init__(self, module: ModuleOp):
        self.operations = [o for o in deciding_operations(module) if not isinstance(o, OpaqueOp)]
        self.inputs: dict[ObserveOp, BlockArgument] = {}
        self.made: list[ObserveOp] = []
        self.arguments: list[BlockArgument] = []
        for function in (f for f in module.walk() if isinstance(f, func.FuncOp) and not f.is_declaration):
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
            if POLICY not in observer.attributes:
                Rewriter.erase_op(observer)

    def carriers(self) -> list[Operation]:
        """The observers and operations that can carry a setting."""
        return [*self.inputs, *self.operations]

    def matching(self, rule: Rule) -> list[Operation]:
        """The operations and observers that meet all selectors of a rule.

        Raises:
            PolicyError: A selector matches nothing, or no operation meets all selectors; names near misses.
        """
        found = self.carriers()
        for selector, wanted in rule.selectors.items():
            find: Callable[[Rule], tuple[set[Operation], Iterable[str]]] = getattr(self, f"_by_{selector}")
            matched, known = find(rule)
            if not matched:
                shown = " to ".join(rule.between) if selector == "between" else str(wanted)
                raise PolicyError(
                    f"must match an operation or a tensor by {selector}",
                    where=rule.place,
                    got=shown,
                    remedy=near_misses(shown, known),
                )
            found = [op for op in found if op in matched]
        if not found:
            raise PolicyError("must match an operation or a tensor by all it says", where=rule.place, got=str(rule))
        return found

    def _by_name(self, rule: Rule) -> tuple[set[Operation], Iterable[str]]:
        return self._named(lambda name: name == rule.name)

    def _by_glob(self, rule: Rule) -> tuple[set[Operation], Iterable[str]]:
        return self._named(lambda name: fnmatchcase(name, rule.glob))

    def _by_regex(self, rule: Rule) -> tuple[set[Operation], Iterable[str]]:
        pattern = re.compile(rule.regex)
        return self._named(lambda name: pattern.fullmatch(name) is not None)

    def _named(self, fits: Callable[[str], bool]) -> tuple[set[Operation], Iterable[str]]:
        known = {name for names in self.names.values() for name in names}
        return {op for op, names in self.names.items() if any(map(fits, names))}, known

    def _by_kind(self, rule: Rule) -> tuple[set[Operation], Iterable[str]]:
        kinds = {op: op.name.partition(".")[2] for op in self.operations}
        wanted = rule.kind.removeprefix("nn.")
        return {op for op, kind in kinds.items() if fnmatchcase(kind, wanted)}, kinds.values()

    def _by_layer(self, rule: Rule) -> tuple[set[Operation], Iterable[str]]:
        weighted = [op for op in self.operations if isinstance(op, WeightedOp)]
        return set(weighted[:1] if rule.layer == "first" else weighted[-1:]), ()

    def _by_between(self, rule: Rule) -> tuple[set[Operation], Iterable[str]]:
        tensors: dict[str, SSAValue] = {tensor_name(r): r for op in self.operations for r in op.results}
        tensors.update({_input_name(a): a for a in self.arguments})
        start, end = (self._tensor(name, tensors, rule) for name in rule.between)
        after = _reached([start], lambda v: [u.operation for u in v.uses], lambda op: op.results)
        before = _reached([end], lambda v: [v.owner] if isinstance(v.owner, Operation) else [], lambda op: op.operands)
        return {op for op in self.operations if op in after and op in before}, ()

    def _tensor(self, name: str, tensors: Mapping[str, SSAValue], rule: Rule) -> SSAValue:
        if name not in tensors:
            raise PolicyError(
                "must be between tensors of the network", where=rule.place, got=name, remedy=near_misses(name, tensors)
            )
        return tensors[name]


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
