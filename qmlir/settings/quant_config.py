"""The options of the quantizer, declared once: pass options, flags, keys of a policy and Python's arguments follow.

A `QuantConfig` holds the options in effect for a network. A `OpConfig` is the config of one operation or tensor: the
network's, changed by what the policy says about the operation. The config's settings stand on the operation, or on the
observer of the tensor, as the attribute `qmlir.policy`; settings that are not there stay as the network's config says:

    nn.conv2d … {qmlir.policy = {precision = "int16", weight_precision = "int8"}}
    calib.observe %x {name = "x", qmlir.policy = {range = [-1.0, 1.0]}}

The network's own settings stand on the module while it is quantized, those that differ from the standard values:

    builtin.module attributes {qmlir.config = {schema = "symmetric", calibration = "kl"}} { … }

The attribute is on the module and not on a function, so that passes of modules, of functions and of blocks find it in
the same way (`config_of`). They have no options of their own for what it states.

The settings on an operation apply to its weights, its bias and its result. The settings on an observer apply to its
tensor, and override those of the operation that makes the tensor.
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Annotated, Any, Literal, TypeAlias, TypedDict, cast

from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, FloatAttr, IntegerAttr, ModuleOp, StringAttr
from xdsl.ir import Attribute, Operation

from qmlir.errors import OptionError, near_misses
from qmlir.ir.facts import CONFIG, POLICY
from qmlir.ir.passes import option
from qmlir.numerics.codebooks import Codebook
from qmlir.numerics.groups import Groups
from qmlir.numerics.halves import HALVES, HalfPrecision
from qmlir.numerics.levels import Levels
from qmlir.numerics.schemas import (
    Calibration,
    Precision,
    QuantizationError,
    Schema,
    WeightPrecision,
    is_symmetric,
    quantization_of_range,
    weight_bits,
    weight_precision_beside,
)
from qmlir.plugins import ROUNDINGS, Extensible

BiasPrecision: TypeAlias = Literal["auto", "int8", "int16", "int32", "int64"]

Rounding: TypeAlias = Annotated[Literal["auto", "nearest", "gptq", "adaround"], Extensible(ROUNDINGS)]

ON_DATA = ("gptq", "adaround")
"""The roundings of qmlir's own that need samples."""

Effort: TypeAlias = Literal["fast", "default", "best"]

Granularity: TypeAlias = Literal["channel", "group-32", "group-64", "group-128"]

WeightRange: TypeAlias = Literal["auto", "narrow", "full"]

WeightLevels: TypeAlias = Literal["even", "codebook"]
FITTED: Mapping[str, type[Levels]] = {"codebook": Codebook}
"""Value of `weight_levels` → the form of levels that it asks for; `even` asks for none."""

Residuals: TypeAlias = Literal["outliers", "same", "int16", "auto"]

Attention: TypeAlias = Literal["auto", "stored"]

Rotate: TypeAlias = Literal["none", "residual", "all", "caches", "run-time"]

Activations: TypeAlias = Literal["static", "dynamic"]

CachePrecision: TypeAlias = Literal["int8", "int4"]

RecipeName: TypeAlias = Literal[
    "auto",
    "none",
    "detector",
    "super-resolution",
    "audio-front-end",
    "language-model",
    "text-encoder",
    "decoder",
    "transformer",
]

Format: TypeAlias = tuple[Schema, Precision]

WEIGHT_SETTINGS = (
    "weight_precision",
    "per_channel",
    "granularity",
    "bias",
    "rounding",
    "weight_range",
    "weight_levels",
)
"""Settings that only operations with weights can have."""

TENSOR_SETTINGS = ("range", "parameters")
"""Settings of a tensor, which is an operation's result or an input of the network."""

PlainSettings: TypeAlias = Mapping[str, Any]
"""Some of a config's fields by name, as plain values."""


@dataclass(frozen=True)
class QuantConfig:
    """The options of the quantizer for a whole network; each field is an option of `--quantize` and of its passes."""

    schema: Schema = option("asymmetric", "how a range becomes a scale and a zero point")
    precision: Precision | HalfPrecision | Literal["auto"] = option(
        "int8",
        "storage of activations, and of weights unless said otherwise; or floats of 16 bits to compute in; auto: int8, "
        "and int16 or float for the few operations that cost the outputs too much",
    )
    weight_precision: WeightPrecision = option("same", "storage of weights; same: that of the activations, signed")
    calibration: Calibration = option("auto", "how histograms narrow ranges; auto: mse where there are histograms")
    per_channel: bool = option(True, "one scale for each output channel of weights, instead of one for all")
    granularity: Granularity = option(
        "channel", "group-32: beside a channel's scale, an integer multiplier for each 32 weights of a sum"
    )
    bias: BiasPrecision = option("auto", "storage of biases, by the data's; of 8 and 16 bits with a scale of their own")
    rounding: Rounding = option("auto", "how weights are rounded; auto: together, on data where there are some")
    effort: Effort = option(
        "default",
        "the time for decisions on data; fast: few samples, and weights are rounded to the nearest by default; "
        "default: of convolutional networks as many samples as their size suggests; best: all that fit into memory",
    )
    weight_range: WeightRange = option("auto", "integers of weights; full: all; narrow, the default: all but the least")
    weight_levels: WeightLevels = option(
        "even", "integers of weights of 2 to 6 bits; codebook: entries of a table that is fitted to the layer"
    )
    residuals: Residuals = option(
        "outliers",
        "storage of residual streams and normalizations; outliers: 16 bits where single values are so large that 8 are "
        "too coarse for the rest; auto: where 8 are too coarse for all of a stream; same: as other activations",
    )
    attention: Attention = option(
        "auto", "auto: softmaxes are divided behind the matrix product that reads them; stored: they are stored"
    )
    rotate: Rotate = option(
        "none",
        "rotations of channels, folded into weights before ranges are learned; residual: of residual streams that only "
        "RMS normalizations and layers read; all: also of attention's values, and, at run time, of products, of "
        "results of GELU and its like, and of layer normalizations before layers; "
        "caches: also of keys that states hold, and of queries, at run time; "
        "run-time: of residual streams, at run time, which leaves all weights as they are",
    )
    activations: Activations = option(
        "static",
        "scales of what layers read; dynamic: a scale for each row, computed in integers, and 8 bits; tensors "
        "between layers have 16",
    )
    cache_precision: CachePrecision = option(
        "int8",
        "storage of quotients of rows in states that the network only moves, such as a decoder's keys and values, by "
        "activations=dynamic; int4: two a byte",
    )
    recipe: RecipeName = option(
        "auto",
        "options and rules for a kind of network, which options and rules that are given override; auto: those of the "
        "kind that the graph tells, unless they give more bits than the precision says: with these, precision=auto "
        "begins; those that serve some networks of the kind are tried where outputs have less than 30 dB without them",
    )
    glow_exact: bool = option(False, "Glow's parameters bit for bit; calibrations are minmax and kl")

    def op_config(self) -> "OpConfig":
        """Returns the config of operations that no rule of a policy matches."""
        config = OpConfig(**self.options())
        if config.activations == "static" or config.half is not None or weight_bits(config.integers) > 8:
            return config
        # Under a symmetric schema, files of every format can store 16 bits.
        schema = config.schema if is_symmetric(config.schema) else "symmetric"
        return replace(config, precision="int16", schema=schema, weight_precision=config.stored_weights)

    def options(self) -> dict[str, Any]:
        """Returns the options by name; fields that subclasses add are left out."""
        return {f.name: getattr(self, f.name) for f in fields(QuantConfig)}


@dataclass(frozen=True)
class NetworkConfig(QuantConfig):
    """The settings that a module states: the options of the quantizer, and the samples that it decides on."""

    data: str = option("", "samples: a .npy file of the only input, or an .npz file with one array for each input")


def config_of(op: Operation) -> NetworkConfig:
    """Returns the settings of the network that an operation belongs to; standard values if its module states none."""
    while (parent := op.parent_op()) is not None:
        op = parent
    stated = CONFIG.of(op)
    return NetworkConfig() if stated is None else NetworkConfig(**settings_of(stated))


def write_config(module: ModuleOp, config: QuantConfig, data: str = "") -> None:
    """States the settings of a network on its module, in place of what it stated before."""
    standard = NetworkConfig()
    settings = {**config.options(), "data": data}
    changed = {name: value for name, value in settings.items() if value != getattr(standard, name)}
    CONFIG.set(module, policy_attribute(changed) if changed else None)


class QuantOptions(TypedDict, total=False):
    """The fields of `QuantConfig` as arguments of functions, which check the texts; None is the same as not given."""

    schema: str | None
    precision: str | None
    weight_precision: str | None
    calibration: str | None
    per_channel: bool | None
    granularity: str | None
    bias: str | None
    rounding: str | None
    effort: str | None
    weight_range: str | None
    weight_levels: str | None
    residuals: str | None
    attention: str | None
    rotate: str | None
    activations: str | None
    cache_precision: str | None
    recipe: str | None
    glow_exact: bool | None


@dataclass(frozen=True)
class OpConfig(QuantConfig):
    """The options in effect for one operation or tensor: those of the network, and those that only a rule can give.

    keep_float        whether the operation stays float
    range             the real range of the tensor, which overrides the observed range; None for the observed range
    parameters        (scale, zero point) of the tensor, which override its range; None to choose them
    """

    keep_float: bool = False
    range: tuple[float, float] | None = None
    parameters: tuple[float, int] | None = None

    @property
    def half(self) -> HalfPrecision | None:
        """The floats of 16 bits that the operation computes in; None if it is quantized, or stays f32."""
        return next((name for name in HALVES if name == self.precision and not self.keep_float), None)

    @property
    def integers(self) -> Precision:
        """The precision of integers: int8 where an operation computes in floats of 16 bits, for its integer readers."""
        p = self.precision
        return "int8" if p == "float16" or p == "bfloat16" or p == "auto" else p

    @property
    def format(self) -> Format:
        """The schema and precision, which values of one quantized type share."""
        return self.schema, self.integers

    def in_format(self, format: Format) -> "OpConfig":
        """Returns the config with another schema and precision."""
        return replace(self, schema=format[0], precision=format[1])

    @property
    def searches_exponents(self) -> bool:
        """Whether the quantizer searches the power-of-two scales with the least error."""
        searched = self.calibration in ("auto", "mse") and not self.glow_exact
        return searched and self.schema == "symmetric_with_power2_scale"

    @property
    def rounds_to_nearest(self) -> bool:
        """Whether each weight is rounded by itself."""
        return self.rounding == "nearest" or (self.rounding == "auto" and self.effort == "fast")

    @property
    def narrow_weights(self) -> bool:
        """Whether the integers of weights leave out the least of their storage type: -127 to 127, not -128 to 127."""
        return not self.glow_exact if self.weight_range == "auto" else self.weight_range == "narrow"

    @property
    def stored_weights(self) -> WeightPrecision:
        """The storage of weights; by default that of the activations, but always signed."""
        return weight_precision_beside(self.integers) if self.weight_precision == "same" else self.weight_precision

    @property
    def blocks_bits(self) -> int | None:
        """The bits in which weights are stored beside floats of 16 bits; None for the 16 bits of the floats."""
        named = self.half is not None and self.weight_precision not in ("same", "int16")
        return weight_bits(self.weight_precision) if named else None

    @property
    def group(self) -> int | None:
        """The weights of a group that has a multiplier; None if channels have a scale and no more."""
        return None if self.granularity == "channel" else int(self.granularity.removeprefix("group-"))

    def check(self, where: str) -> None:
        """Checks that the options go together, for any network.

        Raises:
            QuantizationError: The schema and the precision do not go together, or the weights have no room for groups
                or a codebook; or the precision is `auto`, which needs a float network beside the quantized network.
        """
        if self.precision == "auto":
            remedy = "give int8, or quantize by qmlir quantize or qmlir.quantize, which have both"
            need = "must be measured on samples, on the float and the quantized network"
            raise QuantizationError(f"precision=auto {need}", where=where, got="one network", remedy=remedy)
        quantization_of_range(0.0, 0.0, self.schema, self.integers, where=where)
        self.check_few_bits(where)

    @property
    def _forms(self) -> dict[type[Levels], str]:
        """The forms of levels that the options ask for, each with the option."""
        if self.keep_float or self.half is not None:
            return {}
        asked = dict[type[Levels], str]()
        if self.group is not None:
            asked[Groups] = f"granularity={self.granularity}"
        if self.weight_levels != "even":
            asked[FITTED[self.weight_levels]] = f"weight-levels={self.weight_levels}"
        return asked

    @property
    def form(self) -> type[Levels] | None:
        """The form of the levels that weights are fitted to; None for all integers of their storage type."""
        return next(iter(self._forms), None)

    def check_few_bits(self, where: str) -> None:
        """Checks that weights may have groups or a codebook, if they have.

        Raises:
            QuantizationError: The options of the weights leave no room for them.
        """
        bits, stored = weight_bits(self.stored_weights), f"weight-precision={self.stored_weights}"
        for form, what in self._forms.items():
            instead = "granularity=channel" if form is Groups else "weight-levels=even"
            other = None if form is Groups else self._forms.get(Groups)
            for holds, need, got, remedy in (
                (bits in form.BITS, f"needs weights of 2 to {max(form.BITS)} bits", stored,
                 f"ask for weight-precision=int4, or {instead}"),
                (form is not Groups or self.per_channel, "needs a scale for each channel", "per-channel=false",
                 "leave out per-channel=false"),
                (other is None, "has no multipliers of groups", other, "leave out one of the two"),
                (not self.glow_exact, "has no form in Glow", "glow-exact=true", "leave out glow-exact=true"),
            ):  # fmt: skip
                if not holds:
                    raise QuantizationError(f"{what} {need}", where=where, got=got, remedy=remedy)

    def added_bias(self, data_bits: int, sum_bits: int) -> int:
        """Returns the bits of an added bias, for data of `data_bits` on a target with sums of up to `sum_bits`."""
        if self.bias in ("int32", "int64"):
            return int(self.bias.removeprefix("int"))
        return 64 if data_bits > 8 and sum_bits > 32 else 32

    def with_settings(self, settings: PlainSettings) -> "OpConfig":
        """Returns the config with some fields changed.

        Raises:
            OptionError: A config has no such field.
        """
        names = [f.name for f in fields(self)]
        for name in settings:
            if name not in names:
                raise OptionError(POLICY.key, f"has no field {name}", remedy=near_misses(name, names))
        return replace(self, **settings)


def op_config_of(op: Operation, default: OpConfig) -> OpConfig:
    """Returns the config of an operation: the default, changed by the fields that the operation carries."""
    policy = POLICY.of(op)
    return default if policy is None else default.with_settings(settings_of(policy))


def add_settings(carrier: Operation, settings: PlainSettings) -> None:
    """Adds settings to an operation or an observer, in place of earlier settings of the same names."""
    before = POLICY.of(carrier)
    POLICY.put(carrier, DictionaryAttr({**({} if before is None else before.data), **policy_attribute(settings).data}))


def settings_of(policy: DictionaryAttr) -> dict[str, Any]:
    """Returns the plain values of a `qmlir.policy` attribute."""
    return {name: _plain(value) for name, value in policy.data.items()}


def policy_attribute(settings: PlainSettings) -> DictionaryAttr:
    """Returns the `qmlir.policy` attribute that holds some of a config's fields."""
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
            raise OptionError(POLICY.key, "holds strings, numbers, booleans and lists of them", got=str(value))


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
            raise OptionError(POLICY.key, "holds strings, numbers, booleans and lists of them", got=repr(value))
