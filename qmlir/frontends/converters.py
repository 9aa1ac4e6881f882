"""How a frontend knows its operators: a table of converters, each a function whose signature is the operator's.

    converts = Table()

    @converts("DepthToSpace")
    def depth_to_space(node: ONNXNode, x: Value, *, blocksize: int, mode: Literal["DCR", "CRD"] = "DCR") -> Value: ...

Positional parameters are inputs: an optional input defaults to None, `*inputs` is variadic, and `*inputs: Value | None`
may have gaps. Keyword-only parameters are attributes, with the format's defaults; the annotation of a parameter says
which values the attribute may have (`KINDS`, or a `Literal` of texts). A parameter whose type is an `AttributeGroup`
stands for several attributes that operators have together, such as those of a window. The results are the outputs, in
order.

Nodes are checked against the signature before the function runs. If a node has an attribute that the signature lacks,
the node is refused and becomes opaque, so that no attribute is ever ignored in silence.

An operator may have several entries: a model uses the newest whose `since` is not above its operator set. A function
also serves an older version that has some inputs as attributes:

    @converts("Squeeze", since=13, attributes=["axes"])
    def squeeze(node: ONNXNode, x: Value, axes: Value | None = None) -> Value: ...

Operators that are one operation on their inputs have no function: they are rows in formats/.
"""

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields
from functools import cache, partial, wraps
from types import NoneType, UnionType
from typing import Any, Literal, Self, TypeVar, Union, cast, get_args, get_origin

import numpy as np

from qmlir.errors import UnsupportedError
from qmlir.formats.rows import Operator
from qmlir.frontends.builder import Node
from qmlir.frontends.function import Constant, Floats, Ints, Value
from qmlir.ir.interfaces import Array
from qmlir.ir.memory import shortage
from qmlir.ir.types import UnknownElementError

F = TypeVar("F", bound=Callable[..., object])

Strings = tuple[str, ...]

# ---------------------------------------------------------------------------------------------------------------
# Attributes, as the parameters of converters declare them.


@dataclass(frozen=True)
class Kind:
    """What values an attribute may have.

    words  the values in an error
    read   makes the value that a converter takes of the one in the file; None if the attribute may not have that value
    """

    words: str
    read: Callable[[Any], Any]


def _text(value: Any) -> str | None:
    try:
        return value.decode() if isinstance(value, bytes) else value if isinstance(value, str) else None
    except UnicodeDecodeError:
        return None


def _listed(of: type | tuple[type, ...], make: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def read(value: Any) -> Any:
        items = cast(tuple[Any, ...], value)
        return tuple(map(make, items)) if isinstance(value, tuple) and all(isinstance(v, of) for v in items) else None

    return read


_INT = Kind("an integer", lambda value: int(value) if isinstance(value, int) else None)
_FLOAT = Kind("a number", lambda value: float(value) if isinstance(value, int | float) else None)
_INTS, _FLOATS = Kind("integers", _listed(int, int)), Kind("numbers", _listed((int, float), float))
_STRINGS = Kind("texts", _listed(str, str))

KINDS: Mapping[Any, Kind] = {
    int: _INT,
    float: _FLOAT,
    bool: Kind("0 or 1", lambda value: bool(value) if isinstance(value, int) else None),
    str: Kind("text", _text),
    **dict.fromkeys((Ints, Sequence[int]), _INTS),
    **dict.fromkeys((Floats, Sequence[float]), _FLOATS),
    **dict.fromkeys((Strings, Sequence[str]), _STRINGS),
    Array: Kind("a tensor", lambda value: cast(Array, value) if isinstance(value, np.ndarray) else None),
    Any: Kind("a value", lambda value: value),
}
"""Annotation of a parameter → what its attribute may be; the same holds for a parameter that may also be None."""


@cache
def kind_of(annotation: Any) -> Kind:
    """Returns what an attribute may be whose parameter has an annotation; of a class of its own, its instances."""
    if (known := KINDS.get(annotation)) is not None:
        return known
    if get_origin(annotation) in (Union, UnionType):
        (other,) = (each for each in get_args(annotation) if each is not NoneType)
        return kind_of(other)
    if get_origin(annotation) is Literal:
        texts = get_args(annotation)
        *first, last = filter(None, texts)
        return Kind(f"{', '.join(first)} or {last}", lambda value: t if (t := _text(value)) in texts else None)
    assert isinstance(annotation, type), f"no attribute is of type {annotation}"
    return Kind(f"a {annotation.__name__}", lambda value: value if isinstance(value, annotation) else None)


@dataclass(frozen=True)
class Attribute:
    """An attribute that a converter takes: what it may be, and whether a node must have it."""

    kind: Kind
    required: bool = False


class AttributeGroup:
    """Attributes that several operators have together; a subclass is a dataclass whose fields are the attributes."""

    @classmethod
    def attributes(cls) -> Mapping[str, Attribute]:
        """Returns the attributes by name."""
        declared = fields(cast(Any, cls))
        return {f.name: Attribute(kind_of(f.type), f.default is MISSING) for f in declared}

    @classmethod
    def of(cls, node: Any, given: Mapping[str, Any]) -> Self:
        """Makes the group of the attributes that a node has."""
        return cls(**given)


# ---------------------------------------------------------------------------------------------------------------
# Converters


@dataclass(frozen=True)
class Converter:
    """A function that translates an operator, with what it takes.

    function    called with the node, the inputs, and the attributes by name
    inputs      the names of the inputs, without the variadic input
    required    how many of these inputs must be there
    variadic    whether more inputs may follow
    gaps        whether inputs may be left out among the variadic ones
    attributes  the attributes, and what they may be
    groups      parameter → the group of attributes that it gets, and their names
    since       the first operator set version that the function serves
    layout      the names of the attributes of a custom operator whose file lists them without names
    """

    function: Callable[..., Any]
    inputs: tuple[str, ...]
    required: int
    variadic: bool = False
    gaps: bool = False
    attributes: Mapping[str, Attribute] = field(default_factory=dict[str, Attribute])
    groups: Mapping[str, tuple[type[AttributeGroup], frozenset[str]]] = field(
        default_factory=dict[str, tuple[type[AttributeGroup], frozenset[str]]]
    )
    since: int = 1
    layout: Strings = ()

    @staticmethod
    def of(function: Callable[..., Any], since: int = 1, layout: Strings = ()) -> "Converter":
        """Reads a function's parameters, leaving out the first: the node, or the budget of a fold."""
        parameters = list(inspect.signature(function).parameters.values())[1:]
        inputs = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
        further = [p for p in parameters if p.kind is p.VAR_POSITIONAL]
        attributes, groups = dict[str, Attribute](), dict[str, tuple[type[AttributeGroup], frozenset[str]]]()
        for p in parameters:
            if p.kind is not p.KEYWORD_ONLY:
                continue
            declared: Any = p.annotation
            if isinstance(declared, type) and issubclass(declared, AttributeGroup):
                attributes |= (own := declared.attributes())
                groups[p.name] = declared, frozenset(own)
            else:
                attributes[p.name] = Attribute(kind_of(p.annotation), p.default is p.empty)
        return Converter(
            function, tuple(p.name for p in inputs), sum(p.default is p.empty for p in inputs), bool(further),
            any(p.annotation == (Value | None) for p in further), attributes, groups, since, layout,
        )  # fmt: skip

    def before(self, since: int, names: Sequence[str], value: Callable[[Array], object]) -> "Converter":
        """Returns the converter of an older version, which has some inputs, and no input after them, as attributes.

        Args:
            since: The first operator set version of the older form.
            names: The names of these inputs.
            value: Makes the input of the values that an attribute has.
        """
        index = min(self.inputs.index(name) for name in names)

        @wraps(self.function)
        def convert(first: object, *inputs: object, **given: Any) -> Any:
            listed = [given.pop(name, None) for name in names]
            read = [None if v is None else value(np.asarray(v, None if v else np.int64)) for v in listed]
            return self.function(first, *inputs, *read, **given)

        moved = {name: Attribute(kind_of(Any), self.inputs.index(name) < self.required) for name in names}
        required = min(self.required, index)
        return Converter(convert, self.inputs[:index], required, attributes={**moved, **self.attributes}, since=since)

    def __call__(
        self, node: Node, inputs: Sequence[Any], attributes: Mapping[str, Any], first: object = None
    ) -> list[Any]:
        """Checks a node against the signature, calls the function, and returns the outputs.

        Args:
            node: The node.
            inputs: Its inputs; None stands for one that is left out.
            attributes: Its attributes, as they stand in the file.
            first: What the function gets in the place of the node, if that is something else.

        Raises:
            NodeError: The node lacks an input or an attribute, an attribute has a value that it may not have, or the
                inputs do not fit each other.
            UnsupportedError: The node has an input or an attribute that qmlir does not know, or the function refuses.
        """
        self._check_inputs(node, inputs)
        given = self._read(node, attributes)
        try:
            taken = inputs if self.variadic else inputs[: len(self.inputs)]
            results = self.function(node if first is None else first, *taken, **given)
        except MemoryError:
            raise shortage(f"{node.file}: {node.kind}", node.called()) from None
        except UnknownElementError as error:
            raise UnsupportedError(f"it reads elements of a type that qmlir does not have: {error.args[0]}") from None
        except (TypeError, AttributeError):
            if any(map(_is_text, inputs)):
                raise UnsupportedError("it reads texts, for which qmlir has no type") from None
            raise
        except node.MISFITS as error:
            need = f"its inputs and {node.ATTRIBUTE}s must fit"
            raise node.error(need, " ".join(str(error).split())) from None
        return list(cast(tuple[Any, ...], results)) if isinstance(results, tuple) else [results]

    def _check_inputs(self, node: Node, inputs: Sequence[Any]) -> None:
        for i, name in enumerate(self.inputs[: self.required]):
            if i >= len(inputs) or inputs[i] is None:
                if node.NAMES_INPUTS:
                    raise node.error(f'needs its input "{name}"', "none")
                raise node.error(f"it needs {self.required} inputs", f"{len([x for x in inputs if x is not None])}")
        further = inputs[len(self.inputs) :]
        if not self.variadic and any(x is not None for x in further):
            raise UnsupportedError(f"it has {len(inputs)} inputs and qmlir knows {len(self.inputs)}")
        if self.variadic and not self.gaps and any(x is None for x in further):
            raise node.error("it needs all of its inputs", "some that are left out")

    def _read(self, node: Node, attributes: Mapping[str, Any]) -> dict[str, Any]:
        """Returns the arguments of the function, of the attributes that the node has."""
        given: dict[str, Any] = {}
        for name, attribute in self.attributes.items():
            if attribute.required and name not in attributes:
                raise node.error(f"it needs its {node.ATTRIBUTE} {name}, {attribute.kind.words}", "none")
        for name, value in attributes.items():
            if (known := self.attributes.get(name)) is None:
                if not node.ignores(name, value):
                    raise UnsupportedError(f"qmlir does not know its {node.attribute(name, value)}")
                continue
            given[name] = known.kind.read(value)
            if given[name] is None and value is not None:
                raise node.error(f"its {node.ATTRIBUTE} {name} must be {known.kind.words}", shown(value))
        for parameter, (group, names) in self.groups.items():
            own = {name: given.pop(name) for name in names & given.keys()}
            given[parameter] = group.of(node, own)
        return given


def _is_text(x: Any) -> bool:
    """Whether an input is a constant of texts, with which numpy does not compute."""
    array: object = x.array if isinstance(x, Constant) else x
    return isinstance(array, np.ndarray) and cast(Array, array).dtype.kind == "O"


def shown(value: Any) -> str:
    """Returns an attribute's value for an error."""
    text = _text(value)
    return " ".join((repr(value) if text is None else text).split())[:80]


# ---------------------------------------------------------------------------------------------------------------
# Tables of converters


NEWEST = 1 << 30
"""A version above those of all operator sets."""


class Table:
    """Converters by (domain, operator), with several versions of each operator."""

    def __init__(self, value: Callable[[Array], object] = Constant) -> None:
        """value: Makes an input of the values of an attribute."""
        self._entries: dict[tuple[str, str], list[Converter]] = {}
        self._value = value

    @staticmethod
    def of(*families: "Table", rows: "Table | None" = None) -> "Table":
        """Returns a table with the entries of all families, of which none may have another's operator and version.

        Of the table `rows`, it has the entries whose operator and version no family has.
        """
        table = Table()
        for family in families:
            for (domain, operator), entries in family._entries.items():
                for converter in entries:
                    table.enter(operator, converter, domain)
        for (domain, operator), entries in (rows or Table())._entries.items():
            own = {e.since for e in table._entries.get((domain, operator), ())}
            for converter in entries:
                if converter.since not in own:
                    table.enter(operator, converter, domain)
        return table

    def __call__(
        self, *operators: str, since: int = 1, domain: str = "", attributes: Sequence[str] = (), before: int = 1,
        layout: Strings = (),
    ) -> Callable[[F], F]:  # fmt: skip
        """Registers the decorated function for `operators` from version `since` of their domain's operator set on.

        If `attributes` names inputs, these were attributes from version `before` until `since`. `layout` names the
        options of a custom operator if its file has them as numbers in order.
        """

        def register(function: F) -> F:
            converter = Converter.of(function, since, layout)
            for operator in operators:
                self.enter(operator, converter, domain)
                if attributes:
                    self.enter(operator, converter.before(before, attributes, self._value), domain)
            return function

        return register

    def enter(self, operator: str, converter: Converter, domain: str = "") -> None:
        """Registers the converter of an operator from a version of its domain's operator set on."""
        entries = self._entries.setdefault((domain, operator), [])
        assert all(e.since != converter.since for e in entries), f"{operator}: {converter.since} is registered twice"
        entries.append(converter)

    def select(self, domain: str, operator: str, version: int) -> Converter | None:
        """Returns the newest entry for an operator in a given operator set; None if the operator has no entry."""
        eligible = [e for e in self._entries.get((domain, operator), ()) if e.since <= version]
        return max(eligible, key=lambda e: e.since, default=None)

    def get(self, operator: str) -> Converter | None:
        """Returns the newest converter of an operator, or None if the table has none."""
        return self.select("", operator, NEWEST)

    def operators(self) -> list[str]:
        """Returns the operators that have a converter, sorted."""
        return sorted({operator for _, operator in self._entries})

    def versions(self) -> list[tuple[str, str, list[int]]]:
        """Lists (domain, operator, first versions of its entries) for every operator, sorted."""
        return sorted((d, o, sorted(e.since for e in entries)) for (d, o), entries in self._entries.items())


def attributes_of(row: Operator) -> dict[str, Attribute]:
    """Returns the attributes of an operator that is a row of formats/, which are what their defaults are."""
    return {name: Attribute(kind_of(type(default))) for name, (_, default) in row.attributes.items()}


def row_table(
    rows: Iterable[Operator],
    convert: Callable[..., Any],
    further: Callable[[Operator], Mapping[str, Attribute]] = lambda row: {},
) -> Table:
    """Returns the converters of operators that are rows of formats/.

    Args:
        rows: The operators.
        convert: Converts such an operator: (row, node, *inputs, **attributes) → its output.
        further: Returns attributes that an operator has beside those of its row.
    """
    table = Table()
    for row in rows:
        known = {**attributes_of(row), **further(row)}
        converter = Converter(partial(convert, row), row.inputs, len(row.inputs), attributes=known, since=row.since)
        table.enter(row.kind, converter, row.domain)
    return table
