"""`#qmlir.levels`: which integers the weights of a constant are, and in how few bits they are stored.

    #qmlir.levels<even, bits = 4>                                    integers of 4 bits
    #qmlir.levels<groups, bits = 4, size = 32, multipliers = W>      multiples of integers of 4 bits, by groups of 32
    #qmlir.levels<codebook, bits = 4, table = W>                     entries of a table of 16, with W a `#qmlir.weights`
    #qmlir.levels<affine, bits = 4, least = 0, size = 32, scales = W, offsets = W>
                                                                     floats that are integers of 4 bits, by blocks
    #qmlir.levels<blocks, size = 32>                                 floats that the source model stores in blocks

The attribute states a fact about a constant and changes no meaning: the constant holds the plain integers (or floats),
and whoever ignores the attribute computes the same. Who stores weights asks `levels_of` and gets the plain data of
numerics/levels.py. A form is a class there and an entry of `FORMS` here; the text form follows from its fields.

A layer whose blocks have no common scale is no plain layer with an attribute: `nn.blocked_fully_connected` and
`qint.blocked_fully_connected` stay operations. Their scales and multipliers change what is computed, and a pass that
does not know them must refuse the layer and not multiply its integers alone. As plain weights, the products of
multipliers and integers need 25 bits, so the constants of such a network would take four times the memory.
"""

from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any, cast

from xdsl.dialects.builtin import DictionaryAttr, IntAttr, StringAttr
from xdsl.ir import Attribute, Operation, ParametrizedAttribute
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

from qmlir.ir.fact import restated
from qmlir.ir.facts import LEVELS
from qmlir.ir.weights import WeightsAttr
from qmlir.numerics.affine import Affine
from qmlir.numerics.codebooks import Codebook
from qmlir.numerics.groups import Groups
from qmlir.numerics.levels import Blocks, Even, Levels

FORMS: Mapping[str, type[Levels]] = {
    "even": Even,
    "groups": Groups,
    "codebook": Codebook,
    "affine": Affine,
    "blocks": Blocks,
}
"""The name of each form of levels."""

_NAMES: Mapping[type[Levels], str] = {form: name for name, form in FORMS.items()}


@irdl_attr_definition
class LevelsAttr(ParametrizedAttribute):
    """The levels of a constant: `#qmlir.levels<groups, bits = 4, size = 32, multipliers = #qmlir.weights<…>>`.

    form    a name of `FORMS`
    values  the fields of the form: whole numbers and constant data

    (C1) the form is known, and has exactly these fields, each of its kind
    (C2) the fields are what the form needs (`Levels.need`)
    """

    name = "qmlir.levels"
    form: StringAttr
    values: DictionaryAttr

    @staticmethod
    def of(levels: Levels) -> "LevelsAttr":
        """Builds the attribute from levels."""
        values = {name: kind(getattr(levels, name)) for name, kind in _fields(type(levels)).items()}
        return LevelsAttr(StringAttr(_NAMES[type(levels)]), DictionaryAttr(values))

    @property
    def levels(self) -> Levels:
        """The levels as plain data."""
        values = cast("Mapping[str, IntAttr[int] | WeightsAttr]", self.values.data)
        return FORMS[self.form.data](
            **{k: v.array if isinstance(v, WeightsAttr) else v.data for k, v in values.items()}
        )

    def verify(self) -> None:
        form = FORMS.get(self.form.data)
        if form is None:  # C1
            raise VerifyException(f"levels are {', '.join(FORMS)}, got {self.form.data}")
        if {name: type(value) for name, value in self.values.data.items()} != _fields(form):  # C1
            needed = ", ".join(
                f"{name}{' as #qmlir.weights' * (k is WeightsAttr)}" for name, k in _fields(form).items()
            )
            raise VerifyException(f"levels of the form {self.form.data} have {needed}")
        if need := self.levels.need():  # C2
            raise VerifyException(need)

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        with parser.in_angle_brackets():
            form, values = parser.parse_identifier(), dict[str, Attribute]()
            while parser.parse_optional_punctuation(","):
                key = parser.parse_identifier()
                parser.parse_punctuation("=")
                number = parser.parse_optional_integer(allow_boolean=False)
                values[key] = parser.parse_attribute() if number is None else IntAttr(number)
        return StringAttr(form), DictionaryAttr(values)

    def print_parameters(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            printer.print_string(self.form.data)
            for key, value in self.values.data.items():
                printer.print_string(f", {key} = ")
                if isinstance(value, WeightsAttr):
                    printer.print_attribute(value)
                else:
                    printer.print_string(str(cast("IntAttr[int]", value).data))


def _fields(form: type[Levels]) -> dict[str, type[IntAttr[int] | WeightsAttr]]:
    """The names of a form's fields, and the attributes that hold them."""
    return {f.name: IntAttr if f.type is int else WeightsAttr for f in fields(cast(Any, form)) if f.init}


def levels_of(constant: Operation) -> Levels | None:
    """The levels that a constant states; None if its numbers may be any of their type."""
    found = LEVELS.of(constant)
    return None if found is None else found.levels


def stating(levels: Levels | None) -> dict[str, Attribute]:
    """The attributes of a constant that states levels; none for None."""
    return {} if levels is None else LEVELS.entry(LevelsAttr.of(levels))


def with_other_values(constant: Operation) -> dict[str, Attribute]:
    """The attributes of a constant that is made again with other values, of which levels of its floats say nothing."""
    levels = levels_of(constant)
    return restated(constant, but=LEVELS if levels is not None and levels.OF_FLOATS else None)
