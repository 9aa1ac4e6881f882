"""Verifies what definitions of operations state, in a fraction of xDSL's time.

A module is verified after each pass. Most of that time went into `OpDef.verify`: for each operation anew, it derives
from the definition how many operands, results, regions and successors there have to be, and asks accessors for them.
`prepared_checks` replaces it by a check that is prepared once for each definition, for as long as qmlir verifies: a
program that imports qmlir keeps xDSL as it was. The prepared check only accepts: what it
does not accept, or is not prepared for (several lists of operands or results, lists of regions or successors), is left
to xDSL's own, so that what is an error, and its text, are xDSL's.

The file is unnecessary once xDSL's verifier prepares its checks itself; patch.py writes the patch that does so.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from xdsl.ir import Attribute, Operation
from xdsl.irdl import (
    AttrConstraint,
    OpDef,
    OptAttributeDef,
    OptionalDef,
    OptPropertyDef,
    ParsePropInAttrDict,
    RangeConstraint,
    SingleBlockRegionDef,
    VariadicDef,
    VerificationContext,
)
from xdsl.utils.exceptions import VerifyException

from qmlir.ir.shared_state import WhileNeeded

interpreted = OpDef.verify
"""xDSL's own verification of a definition."""


def verify(definition: OpDef, op: Operation) -> None:
    """Verifies an operation against its definition, as xDSL does.

    Raises:
        VerifyException: The operation does not satisfy its definition.
    """
    kept = vars(definition)
    try:
        prepared: _Prepared | None = kept[_KEY]
    except KeyError:
        prepared = kept[_KEY] = _prepare(definition)
    if prepared is None or not prepared.accepts(op):
        interpreted(definition, op)
        return
    for trait in definition.traits:
        trait.verify(op)


_KEY = "qmlir.prepared"
"""Where a definition keeps its prepared check; no field of it, so it has no part in comparisons of definitions."""


def _use_prepared_checks() -> Callable[[], None]:
    setattr(OpDef, "verify", verify)
    return lambda: setattr(OpDef, "verify", interpreted)


prepared_checks = WhileNeeded(_use_prepared_checks)
"""Has xDSL verify all definitions by prepared checks, those of its own dialects, too."""


_Named: TypeAlias = tuple[tuple[str, AttrConstraint, bool], ...]
"""Attributes or properties: the name and the constraint of each, and whether it may be missing."""


@dataclass(frozen=True, slots=True)
class _List:
    """How many operands or results there are, and of which types.

    constraints  one for each name in order
    variadic     the position of the name that stands for several values; as many as there are names if none does
    least, most  bounds of the number of values; `most` is -1 for no bound
    """

    constraints: tuple[RangeConstraint, ...]
    variadic: int
    least: int
    most: int

    def accepts(self, types: Sequence[Attribute], context: VerificationContext) -> bool:
        """Whether there are as many types as has to be; raises what a constraint raises."""
        count = len(types)
        if count < self.least or 0 <= self.most < count:
            return False
        begin = 0
        for number, constraint in enumerate(self.constraints):
            end = begin + (count - self.least if number == self.variadic else 1)
            constraint.verify(types[begin:end], context)
            begin = end
        return True


@dataclass(frozen=True, slots=True)
class _Prepared:
    """A definition.

    operands, results       their lists
    regions                 the constraint of each region's arguments, and whether the region is a single block
    successors              how many there are
    properties, attributes  those that it names
    """

    operands: _List
    results: _List
    regions: tuple[tuple[RangeConstraint, bool], ...]
    successors: int
    properties: _Named
    attributes: _Named

    def accepts(self, op: Operation) -> bool:
        """Whether an operation certainly satisfies the definition but for its traits."""
        if len(op.regions) != len(self.regions) or len(op.successor_uses) != self.successors:
            return False
        context = VerificationContext()
        try:
            return (
                self.operands.accepts(tuple(operand.type for operand in op.operands), context)
                and self.results.accepts(tuple(result.type for result in op.results), context)
                and self._accepts_regions(op, context)
                and _present(self.properties, op.properties, context) == len(op.properties)
                and _present(self.attributes, op.attributes, context) >= 0
            )
        except VerifyException:
            return False

    def _accepts_regions(self, op: Operation, context: VerificationContext) -> bool:
        for region, (constraint, single) in zip(op.regions, self.regions, strict=True):
            entry = region.first_block
            if single and (entry is None or entry is not region.last_block):
                return False
            if entry is not None:
                constraint.verify(entry.arg_types, context)
        return True


def _present(defined: _Named, given: Mapping[str, Attribute], context: VerificationContext) -> int:
    """How many of the defined attributes are given, -1 if one is missing; raises what a constraint raises."""
    found = 0
    for name, constraint, optional in defined:
        if (value := given.get(name)) is not None:
            constraint.verify(value, context)
            found += 1
        elif not optional:
            return -1
    return found


def _prepare(definition: OpDef) -> _Prepared | None:
    """The prepared check of a definition; None if it is left to xDSL."""
    sized = any(not isinstance(option, ParsePropInAttrDict) for option in definition.options)
    regions = [one for _, one in definition.regions]
    if sized or any(isinstance(one, VariadicDef) for one in (*regions, *(s for _, s in definition.successors))):
        return None
    lists: list[_List] = []
    for named in (definition.operands, definition.results):
        variadic = [number for number, (_, one) in enumerate(named) if isinstance(one, VariadicDef)]
        if len(variadic) > 1:
            return None
        optional = any(isinstance(one, OptionalDef) for _, one in named)
        constraints = tuple(one.constr for _, one in named)
        least = len(named) - len(variadic)
        most = len(named) if optional or not variadic else -1
        lists.append(_List(constraints, variadic[0] if variadic else len(named), least, most))
    properties = [(name, p.constr, isinstance(p, OptPropertyDef)) for name, p in definition.properties.items()]
    attributes = [(name, a.constr, isinstance(a, OptAttributeDef)) for name, a in definition.attributes.items()]
    operands, results = lists
    return _Prepared(
        operands,
        results,
        tuple((one.entry_args, isinstance(one, SingleBlockRegionDef)) for one in regions),
        len(definition.successors),
        tuple(properties),
        tuple(attributes),
    )
