"""What a fact is: an attribute that an operation can do without, and what becomes of it. facts.py lists all of them.

The passes that move operations ask `moved` which facts they pass on.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Generic, TypeAlias, cast

from typing_extensions import TypeVar
from xdsl.dialects.builtin import (
    ArrayAttr,
    DenseArrayBase,
    DictionaryAttr,
    IntegerAttr,
    IntegerType,
    StringAttr,
    UnitAttr,
    i32,
    i64,
)
from xdsl.ir import Attribute, Operation

V = TypeVar("V")


class Movement(Enum):
    """What can become of an operation; the value is the head of a column in docs/architecture.md."""

    REPLACED = "replaced, or split"
    FUSED = "fused into its reader"
    FOLDED = "folded to a constant"
    UNUSED = "erased, unused"
    TO_INTEGERS = "lowered to integers"
    TO_LOOPS = "lowered to loops"


class Heir(Enum):
    """Which operation takes over a fact; the value is the text in docs/architecture.md."""

    RESULT = "kept by what gives the result"
    KIND = "kept by each of its kind"
    JOINED = "joined with other names"
    BUFFER = "kept by the result's buffer"
    DATA = "kept by the constant's buffer"
    CALLS = "kept by each call"


Moves: TypeAlias = Mapping[Movement, Heir | str]
"""Movement → who takes over a fact, or the reason why it is dropped."""


@dataclass(frozen=True)
class Form(Generic[V]):
    """How the value of a fact is written as an attribute.

    says   the attribute in words, for docs/architecture.md
    write  makes the attribute
    read   returns the value of an attribute; None if the attribute is of another form
    """

    says: str
    write: Callable[[V], Attribute]
    read: Callable[[Attribute], V | None]


def _integer(type: IntegerType) -> Form[int]:
    def read(attribute: Attribute) -> int | None:
        return attribute.value.data if isinstance(attribute, IntegerAttr) else None

    return Form(str(type), lambda value: IntegerAttr(value, type), read)


def _numbers(type: Any) -> "Form[Sequence[Any]]":
    def read(attribute: Attribute) -> Sequence[Any] | None:
        dense = isinstance(attribute, DenseArrayBase)
        return cast("DenseArrayBase[Any]", attribute).get_values() if dense else None

    return Form(f"array of {type}", lambda values: DenseArrayBase.from_list(type, [*values]), read)


def typed(name: str, says: str = "") -> Form[Any]:
    """The attribute with this name itself."""
    says = says or f"`#{name}`"
    return Form(says, lambda value: value, lambda attribute: attribute if attribute.name == name else None)


def _texts(attribute: Attribute) -> Mapping[str, str] | None:
    if not isinstance(attribute, DictionaryAttr):
        return None
    texts = {name: text.data for name, text in attribute.data.items() if isinstance(text, StringAttr)}
    return texts if len(texts) == len(attribute.data) else None


def _elements(attribute: Attribute) -> Sequence[Attribute]:
    return cast("ArrayAttr[Attribute]", attribute).data if isinstance(attribute, ArrayAttr) else ()


MARK: Form[bool] = Form("mark", lambda _: UnitAttr(), lambda _: True)
TEXT: Form[str] = Form("text", StringAttr, lambda a: a.data if isinstance(a, StringAttr) else None)
WORD: Form[str] = Form("text", StringAttr, lambda a: a.data if isinstance(a, StringAttr) else str(a))
"""Text that must be one of some names; an attribute of another form reads as what it prints, which is none of them."""

INTEGER, INTEGER_32 = _integer(i64), _integer(i32)
INTEGERS = _numbers(i64)
TEXTS: Form[Mapping[str, str]] = Form(
    "dictionary of texts", lambda texts: DictionaryAttr({n: StringAttr(text) for n, text in texts.items()}), _texts
)
NAMES: Form[Sequence[str]] = Form(
    "array of texts",
    lambda names: ArrayAttr([StringAttr(name) for name in names]),
    lambda a: [each.data for each in _elements(a) if isinstance(each, StringAttr)],
)
DICTIONARY: Form[DictionaryAttr] = typed(DictionaryAttr.name, "dictionary")
ARRAY: Form[ArrayAttr[Attribute]] = typed(ArrayAttr.name, "array")
ANY: Form[Attribute] = Form("attribute", lambda value: value, lambda attribute: attribute)


FACTS: "dict[str, Fact[Any]]" = {}
"""All facts, by key, in the order of facts.py."""


@dataclass(frozen=True, eq=False)
class Fact(Generic[V]):
    """A fact: its key, the form of its value, what it says, and what becomes of it.

    key    the attribute's key
    form   how its value is written
    where  what it stands on
    moves  for a fact on operations, who takes it over in each movement, or why it is dropped
    says   what it says, in a sentence
    ends   for a fact on functions or modules, the pass that takes it away; empty if it stays
    """

    key: str
    form: Form[V]
    where: str
    moves: Moves
    says: str
    ends: str = ""

    def __post_init__(self) -> None:
        FACTS[self.key] = self

    def __str__(self) -> str:
        return self.key

    def of(self, holder: Operation | None) -> V | None:
        """Returns the value on an operation; None without the fact, or with an attribute of another form."""
        return None if holder is None else self.among(holder.attributes)

    def among(self, attributes: Mapping[str, Attribute]) -> V | None:
        """Returns the value among attributes, such as those of an argument; None as in `of`."""
        attribute = attributes.get(self.key)
        return None if attribute is None else self.form.read(attribute)

    def required(self, op: Operation) -> V:
        """Returns the value on an operation that an earlier pass has written it on."""
        value = self.of(op)
        assert value is not None, f"{op.name} has no {self.key}"
        return value

    def attribute(self, op: Operation) -> Attribute | None:
        """Returns the attribute itself, whatever its form, for who checks it."""
        return op.attributes.get(self.key)

    def on(self, op: Operation) -> bool:
        """Whether an operation has the fact."""
        return self.key in op.attributes

    def put(self, op: Operation, value: V) -> None:
        """Writes the fact on an operation, in place of an earlier value."""
        op.attributes[self.key] = self.form.write(value)

    def drop(self, op: Operation) -> V | None:
        """Takes the fact from an operation, and returns its value."""
        attribute = op.attributes.pop(self.key, None)
        return None if attribute is None else self.form.read(attribute)

    def set(self, op: Operation, value: V | None) -> None:
        """Writes the fact, or takes it from the operation if the value is None."""
        op.attributes.pop(self.key, None) if value is None else self.put(op, value)

    def entry(self, value: V) -> dict[str, Attribute]:
        """Returns the fact as an entry of a dictionary of attributes."""
        return {self.key: self.form.write(value)}

    def without(self, attributes: Mapping[str, Attribute]) -> dict[str, Attribute]:
        """Returns attributes but the fact's."""
        return {key: value for key, value in attributes.items() if key != self.key}


class Mark(Fact[bool]):
    """A fact that says all by being there."""

    def __init__(self, key: str, where: str, moves: Moves, says: str):
        super().__init__(key, MARK, where, moves, says)

    def put(self, op: Operation, value: bool = True) -> None:
        super().put(op, value)


def moved(op: Operation, movement: Movement, heir: Heir) -> dict[str, Attribute]:
    """Returns the attributes of the facts that such an heir takes over from an operation.

    Attributes that are no facts stay behind: nobody knows whether they hold for another operation.
    """
    return {
        key: attribute
        for key, attribute in op.attributes.items()
        if (fact := FACTS.get(key)) is not None and fact.moves.get(movement) is heir
    }


def end(holder: Operation, name: str) -> None:
    """Takes from a function or a module the facts that end with the pass of this name."""
    for fact in FACTS.values():
        if fact.ends == name:
            holder.attributes.pop(fact.key, None)


def restated(op: Operation, *, but: Fact[Any] | None = None) -> dict[str, Attribute]:
    """Returns the attributes of an operation that is made again, on other types or operands: all, or all but a fact."""
    return {key: value for key, value in op.attributes.items() if but is None or key != but.key}
