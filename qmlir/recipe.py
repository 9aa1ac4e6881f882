"""How one operation is to be quantized: the options of `--quantize`, as a rule of the policy may change them for it.

The options of the pass are the recipe of every operation. An operation, or the observer of a tensor, may carry some
of a recipe's fields in its `qmlir.policy` attribute; those it does not name stay as the options say:

    nn.conv2d … {qmlir.policy = {precision = "int16", weight_precision = "int8"}}
    calib.observe %x {name = "x", qmlir.policy = {range = [-1.0, 1.0]}}

What an operation says holds for its weights, its bias and its result; what an observer says, for its tensor, and
before what the tensor's operation says.
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, Literal, TypeAlias, cast

from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, FloatAttr, IntegerAttr, StringAttr
from xdsl.ir import Attribute, Operation

from qmlir.dialects.quant.schemas import (
    Calibration,
    Precision,
    Schema,
    WeightPrecision,
    quantization_of_range,
    weight_precision_beside,
)
from qmlir.errors import OptionError
from qmlir.near_misses import near_misses

POLICY = "qmlir.policy"
"""The attribute key of the fields of a recipe that an operation or an observer has for itself."""

BiasPrecision: TypeAlias = Literal["auto", "int8", "int16", "int32", "int64"]

Rounding: TypeAlias = Literal["auto", "nearest"]

Format: TypeAlias = tuple[Schema, Precision]

Settings: TypeAlias = Mapping[str, Any]
"""Some of a recipe's fields by name, as plain values."""


@dataclass(frozen=True)
class Recipe:
    """The options in effect for one operation or tensor.

    schema            how a range becomes a scale and a zero point
    precision         storage of activations, and of weights unless weight_precision says otherwise
    weight_precision  storage of weights; `same` is that of the activations
    calibration       how a histogram becomes a range
    per_channel       whether weights have a scale for each output channel
    bias              storage of biases; `auto` is int32, or int64 beside data of 16 bits where the target sums in more;
                      int8 and int16 biases have a scale of their own, not that of the sums
    rounding          how weights are rounded; `auto` is together, on data where there are some (round_weights.py)
    glow_exact        whether parameters are Glow's bit for bit, its corners too
    keep_float        whether the operation stays float
    range             the real range of the tensor, whatever was observed; None for the observed one
    parameters        (scale, zero point) of the tensor, whatever its range; None to choose them
    """

    schema: Schema = "asymmetric"
    precision: Precision = "int8"
    weight_precision: WeightPrecision = "same"
    calibration: Calibration = "auto"
    per_channel: bool = True
    bias: BiasPrecision = "auto"
    rounding: Rounding = "auto"
    glow_exact: bool = False
    keep_float: bool = False
    range: tuple[float, float] | None = None
    parameters: tuple[float, int] | None = None

    @property
    def format(self) -> Format:
        """What values that share one quantized type have in common."""
        return self.schema, self.precision

    def in_format(self, format: Format) -> "Recipe":
        """The recipe with another schema and precision."""
        return replace(self, schema=format[0], precision=format[1])

    @property
    def searches_exponents(self) -> bool:
        """Whether scales are powers of two, those with the least error."""
        searched = self.calibration in ("auto", "mse") and not self.glow_exact
        return searched and self.schema == "symmetric_with_power2_scale"

    @property
    def stored_weights(self) -> WeightPrecision:
        """The storage of weights: that of the activations, but always signed, unless it is said."""
        return weight_precision_beside(self.precision) if self.weight_precision == "same" else self.weight_precision

    def check(self, where: str) -> None:
        """Refuses a schema and a precision that do not go together, whatever the network.

        Raises:
            QuantizationError: They do not.
        """
        quantization_of_range(0.0, 0.0, self.schema, self.precision, where=where)

    def added_bias(self, data_bits: int, sum_bits: int) -> int:
        """In how many bits a bias is added beside data of `data_bits`, on a target whose sums have up to `sum_bits`."""
        if self.bias in ("int32", "int64"):
            return int(self.bias.removeprefix("int"))
        return 64 if data_bits > 8 and sum_bits > 32 else 32

    def with_settings(self, settings: Settings) -> "Recipe":
        """The recipe with some fields changed.

        Raises:
            OptionError: A recipe has no such field.
        """
        names = [f.name for f in fields(self)]
        for name in settings:
            if name not in names:
                raise OptionError(POLICY, f"has no field {name}", remedy=near_misses(name, names))
        return replace(self, **settings)


def recipe_of(op: Operation, default: Recipe) -> Recipe:
    """The recipe of an operation: the default, changed by what the operation carries."""
    policy = op.attributes.get(POLICY)
    return default.with_settings(settings_of(policy)) if isinstance(policy, DictionaryAttr) else default


def settings_of(policy: DictionaryAttr) -> dict[str, Any]:
    """The plain values of a `qmlir.policy` attribute."""
    return {name: _plain(value) for name, value in policy.data.items()}


def policy_attribute(settings: Settings) -> DictionaryAttr:
    """The `qmlir.policy` attribute that holds some of a recipe's fields."""
    return DictionaryAttr({name: _attribute(value) for name, value in settings.items()})


def _plain(value: Attribute) -> Any:
    match value:
        case StringAttr():
            return value.data
        case IntegerAttr() if value.type == IntegerAttr.from_bool(True).type:
            return bool(value.value.data)
        case IntegerAttr() | FloatAttr():
            return value.value.data
        case ArrayAttr():
            return tuple(_plain(v) for v in value)
        case _:
            raise OptionError(POLICY, "holds strings, numbers, booleans and lists of them", got=str(value))


def _attribute(value: Any) -> Attribute:
    match value:
        case bool():
            return IntegerAttr.from_bool(value)
        case str():
            return StringAttr(value)
        case int():
            return IntegerAttr(value, 64)
        case float():
            return FloatAttr(value, 64)
        case tuple():
            return ArrayAttr([_attribute(v) for v in cast(tuple[Any, ...], value)])
        case _:
            raise OptionError(POLICY, "holds strings, numbers, booleans and lists of them", got=repr(value))
