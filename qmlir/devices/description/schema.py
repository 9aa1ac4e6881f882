"""The tables of a device file that its description is made of: values with units, operations, waits; and their keys."""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Annotated, Any, Literal, cast, get_args

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StringConstraints
from pydantic.fields import FieldInfo
from pydantic_core import PydanticCustomError, PydanticKnownError

from qmlir.errors import near_misses

# ---------------------------------------------------------------------------------------------------------------
# Value types of a device file: numbers with units, names, and tables that reject unknown keys.
#
# Every number has bounds, far beyond those of any device: rates are neither infinite nor so small that a count of
# cycles would be.


def _count(unit: str, least: int = 1, most: int = 1 << 31) -> object:
    return Field(strict=True, ge=least, le=most, json_schema_extra={"unit": unit})


def _rate(unit: str, most: float = 1e12) -> object:
    return Field(strict=True, allow_inf_nan=False, gt=0, le=most, json_schema_extra={"unit": unit})


LEAST_RATE = 1e-6


def _countable(rate: float) -> float:
    """Checks that a rate is not so small that counts of cycles would be beyond all numbers."""
    if rate < LEAST_RATE:
        raise PydanticKnownError("greater_than_equal", {"ge": LEAST_RATE})
    return rate


Bytes = Annotated[int, _count("bytes", most=1 << 40)]
Cycles = Annotated[int, _count("cycles", 0)]
Lanes = Annotated[int, _count("lanes", most=1 << 20)]
Elements = Annotated[int, _count("elements")]
TileElements = Annotated[int, _count("elements", most=1 << 12)]
Steps = Annotated[int, _count("steps")]
Bits = Annotated[int, _count("bits", 0, 63)]
FewBits = Annotated[int, _count("bits", 2, 7)]
MultiplierBits = Annotated[int, _count("bits", 8, 32)]
Count = Annotated[int, _count("count")]
BytesPerCycle = Annotated[float, _rate("bytes/cycle"), AfterValidator(_countable)]
ElementsPerCycle = Annotated[float, _rate("elements/cycle"), AfterValidator(_countable)]
MacsPerCycle = Annotated[float, _rate("MACs/cycle"), AfterValidator(_countable)]
Share = Annotated[float, _rate("share of the peak", 1), AfterValidator(_countable)]
MHz = Annotated[int, _count("MHz", most=1_000_000)]
Flag = Annotated[bool, Field(strict=True)]
Name = Annotated[str, StringConstraints(strict=True, max_length=64, pattern=r"^[a-z][a-z0-9_-]*$")]
Line = Annotated[
    str,
    StringConstraints(strict=True, max_length=200, pattern=r"^[^\x00-\x1f\x7f]*$"),
    Field(json_schema_extra={"unit": "text"}),
]

Storage = Literal["i8", "i16"]
Accumulator = Literal["i24", "i32", "i40", "i48", "i64"]
Addend = Literal["i8", "i16", "i24", "i32", "i40", "i48", "i64"]
Role = Literal["ifm", "ofm", "weights", "acc", "bias", "scales", "lut"]


class Table(BaseModel):
    """A table of the file: it rejects keys that its class does not have, and is immutable."""

    model_config = ConfigDict(extra="forbid", frozen=True)


def broken(sentence: str) -> PydanticCustomError:
    """The error for a rule of the file that is about more than a single key."""
    return PydanticCustomError("rule", "{sentence}", {"sentence": sentence})


# ---------------------------------------------------------------------------------------------------------------
# [ops] and [fallback] of a device file: what the device computes with which limits, and where the rest runs.


Pair = tuple[Elements, Elements]


class Window(Table):
    """Limits of an operation with a sliding window; a key that is left out sets no limit."""

    kernel_max: Pair | None = Field(default=None, description="rows, columns of the window")
    kernel_area_max: Elements | None = Field(default=None, description="rows · columns of the window")
    stride_max: Steps | None = Field(default=None, description="of both axes")
    dilation_max: Steps | None = Field(default=None, description="of both axes")
    padding_max: Elements | None = Field(default=None, description="on each side")


class Convolution(Window):
    """Limits of convolutions."""

    groups: Flag = Field(default=False, description="whether channels may fall into groups")
    channels_multiple: Elements | None = Field(default=None, description="input channels are a multiple of this")


class DepthwiseConvolution(Window):
    """Limits of depthwise convolutions, which have one output channel for each input channel on every device."""


class Contraction(Table):
    """Limits of matrix products."""

    terms_max: Elements | None = Field(default=None, description="products in one sum")


class Sum(Table):
    """Limits of the sum of two tensors."""

    operand_scale: Literal["same", "independent", "rounded"] = Field(
        description="whether each operand has a scale of its own; rounded: operands are rounded to the result's scale "
        "before they are added"
    )
    multiplier_bits: MultiplierBits | None = Field(
        default=None,
        description="of each operand's own multiplier, sign included, beside one of quant.multiplier_bits that both "
        "share; unless given, operands share none",
    )
    ratio: Literal["any", "shift-add"] = Field(
        default="any",
        description="of the larger of these own multipliers to the other one; shift-add: it is the other one, shifted "
        "left, plus or minus a power of two",
    )


class Plain(Table):
    """An operation without limits of its own."""


class MaxPool(Window):
    """Limits of maximum pools."""


class AveragePool(Window):
    """Limits of average pools."""

    divisor: Literal["any", "pow2"] = Field(default="any", description="by how many elements it can divide")


class Lookup(Table):
    """Limits of lookup tables, which compute functions of one element."""

    entries: Literal[256, 512, 513] = Field(description="how many entries")
    type: Storage = Field(description="type of the entries")


class Rows(Table):
    """Limits of an operation on rows, each element of whose result depends on all elements of its row."""

    row_max: Elements | None = Field(default=None, description="elements of a row")


class Softmax(Rows):
    """Limits and speed of softmax."""

    passes: Count = Field(
        default=3, description="over each row, at the queue's elements_per_cycle: greatest element, sum, quotients"
    )


class Normalization(Rows):
    """Limits and speed of a normalization."""

    passes: Count = Field(default=2, description="over each row, at the queue's elements_per_cycle: sums, quotients")


class Operations(Table):
    """The operations that the device computes, each with its limits; the device refuses an operation without a key."""

    conv2d: Convolution | None = Field(default=None, description="convolutions")
    depthwise: DepthwiseConvolution | None = Field(default=None, description="depthwise convolutions")
    fc: Contraction | None = Field(default=None, description="fully connected layers")
    matmul: Contraction | None = Field(
        default=None, description="products of two computed matrices, of which a queue arranges the second as weights"
    )
    add: Sum | None = Field(default=None, description="sums and differences of two tensors")
    mul: Plain | None = Field(default=None, description="products of two tensors")
    maxpool: MaxPool | None = Field(default=None, description="maximum pools")
    avgpool: AveragePool | None = Field(default=None, description="average pools, global ones too")
    softmax: Softmax | None = Field(default=None, description="softmax of rows, from a table of exponentials")
    layer_norm: Normalization | None = Field(default=None, description="layer normalization of rows")
    rms_norm: Normalization | None = Field(default=None, description="root-mean-square normalization of rows")
    requantize: Plain | None = Field(default=None, description="changes of scale, relu and clamp by themselves")
    lut: Lookup | None = Field(default=None, description="functions of one element")
    move: Plain | None = Field(default=None, description="concat, slice, pad, transpose: data that only moves")
    act: tuple[Literal["none", "relu", "relu6", "clamp", "lut"], ...] = Field(
        default=("none",),
        description="bounds of a contraction's result, in its command; lut: a table may follow it there",
    )


class Fallback(Table):
    """What happens with operations that the device refuses."""

    kind: Literal["error", "host"] = Field(description="an error, or the host computes them")
    operations: tuple[Name, ...] = Field(default=(), description="host: which ones; none listed means any")
    setup: Cycles = Field(default=500, description="host: before a routine of it begins")
    bytes_per_cycle: BytesPerCycle = Field(default=4.0, description="host: what a routine reads and writes")
    macs_per_cycle: MacsPerCycle = Field(
        default=16.0, description="host: products, or other operations on single elements, while it reads and writes"
    )


# ---------------------------------------------------------------------------------------------------------------
# How queues wait for each other: the table `[sync]` of a device file.


Neighbours = tuple[Name, Name]
"""Two queues, in either order."""


KINDS = {"between": "tokens", "tokens": "tokens", "compares": "interlock"}
"""Key → the only kind of synchronisation that has this key."""


class Sync(Table):
    """How queues wait for each other."""

    kind: Literal["watermark", "tokens", "interlock", "descriptor", "barrier"] = Field(
        description="counters of finished commands, tokens between neighbours, addresses compared by the hardware, "
        "counts in descriptors, or everything waits for everything"
    )
    max_waits: Count = Field(default=3, description="queues that one command may wait for")
    depth: Count = Field(default=64, description="commands a queue holds; the program waits for room")
    between: tuple[Neighbours, ...] = Field(
        default=(),
        description="tokens: pairs of queues that give each other tokens; unless given, those next to each other "
        "in the file",
    )
    tokens: Count = Field(
        default=255, description="tokens: how many lie between two queues; who has one more to give waits for room"
    )

    compares: tuple[Name, ...] = Field(
        default=(),
        description="interlock: memories whose addresses the hardware compares; unless given, all. Who touches others "
        "waits for counters",
    )

    def compared(self, memories: Sequence[str]) -> frozenset[int]:
        """The numbers of the memories whose addresses the hardware compares.

        Args:
            memories: The names of all memories, in the order of the file.
        """
        if self.kind != "interlock":
            return frozenset()
        return frozenset(number for number, name in enumerate(memories) if name in (self.compares or memories))

    def neighbours(self, queues: Sequence[str]) -> list[set[int]]:
        """For each queue, the numbers of its neighbours: the queues that exchange tokens with it.

        Args:
            queues: The names of the queues, in the order of the file.
        """
        numbers = {name: number for number, name in enumerate(queues)}
        found: list[set[int]] = [set() for _ in queues]
        for first, second in self.between or pairwise(queues):
            found[numbers[first]].add(numbers[second])
            found[numbers[second]].add(numbers[first])
        return found

    def check(self, queues: Sequence[str], memories: Sequence[str]) -> None:
        """Checks the table against the queues and memories of the file.

        Raises:
            PydanticCustomError: A key belongs to another kind, a name is unknown, or no tokens reach a queue.
        """
        for key, kind in KINDS.items():
            if self.kind != kind and getattr(self, key) != type(self).model_fields[key].default:
                raise broken(f"sync.{key} is for kind {kind}, got {self.kind}")
        paired = [name for pair in self.between for name in pair]
        for key, what, names, known in (
            ("between", "queue", paired, queues),
            ("compares", "memory", self.compares, memories),
        ):
            if missing := [name for name in names if name not in known]:
                remedy = near_misses(missing[0], known) or "add it"
                raise broken(f"sync.{key}: there is no {what} {missing[0]}; {remedy}")
        reached = set(_reached(self.neighbours(queues)))
        if self.kind == "tokens" and (apart := [name for n, name in enumerate(queues) if n not in reached]):
            raise broken(f"sync.between: no tokens from queue {queues[0]} reach {apart[0]}")


def _reached(neighbours: Sequence[set[int]]) -> Iterator[int]:
    """Yields the queues that the first queue's tokens can reach, directly or through other queues."""
    found, waiting = {0}, [0]
    while waiting:
        yield (queue := waiting.pop())
        waiting += sorted(neighbours[queue] - found)
        found |= neighbours[queue]


# ---------------------------------------------------------------------------------------------------------------
# The schema of device files as data: the keys of each table, and the unit of each value.


def keys_of(table: type[Table]) -> dict[str, FieldInfo]:
    """The fields of a table by their keys in the file."""
    return {field.alias or name: field for name, field in table.model_fields.items()}


def table_of(annotation: Any) -> type[Table] | None:
    """The table class that an annotation names, directly or inside an option or a tuple; None if it names no table."""
    if isinstance(annotation, type) and issubclass(annotation, Table):
        return annotation
    return next((t for a in get_args(annotation) if (t := table_of(a)) is not None), None)


def unit_of(field: FieldInfo) -> str | None:
    """The unit of a field's value; None if the value has no unit."""
    return _unit(field) or _unit_within(field.annotation)


def _unit(field: FieldInfo) -> str | None:
    extra = cast(dict[str, Any] | None, field.json_schema_extra)
    return None if extra is None else extra.get("unit")


def _unit_within(annotation: Any) -> str | None:
    """The unit that one of the types in an annotation carries; None if no type carries a unit."""
    for part in (*getattr(annotation, "__metadata__", ()), *get_args(annotation)):
        unit = _unit(part) if isinstance(part, FieldInfo) else _unit_within(part)
        if unit is not None:
            return unit
    return None
