"""Every key of a device file with values that no device has: an error names the key, and cycles stay finite."""

import json
import math
import re
from collections.abc import Iterator
from typing import Any, cast

import numpy as np
import pytest

import qmlir
from qmlir.devices import Device, load_device
from qmlir.devices.description.changing import data_of
from qmlir.devices.description.schema import Table, keys_of, table_of
from qmlir.errors import FileError, OptionError

VALUES: tuple[Any, ...] = (
    math.inf, -math.inf, math.nan, -0.0, 0, -1, 1e308, 5e-324, 1e-308, 10**30, -(10**30), 1 << 63, True, False,
    "", "x" * 1000, "A b", "\x1b[2J", [], {}, [[]], [{}], [None], None, [math.nan], [True], ["i8", 3], {"a": 1}, 1.5,
)  # fmt: skip
"""Values for every key: numbers out of bounds, other types, and empty or strange lists and tables."""

FOREIGN = re.compile(r"[Ii]nput should|[Vv]alue error|validation|should (be|have|match)|pydantic|another kind")
"""Words of pydantic's own messages, and of the message for an error without words."""


def whole() -> dict[str, Any]:
    """The keys of a device that has a table of each kind."""
    described = load_device("nmp").with_({
        "ops.lut": {"entries": 256, "type": "i8"}, "ops.mul": {}, "quant.shift": {"min": 0, "max": 47},
        "array.fold": {}, "fallback": {"kind": "host"}, "memory.act.latency": {}, "layout.weights": {"n": 16, "k": 32},
        "quant.zero_point": {}, "quant.bias": {},
    })  # fmt: skip
    return data_of(described)


def places(table: type[Table] = Device, prefix: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """Yields the place of every key, tables included; of a list of tables, the keys of its first entry."""
    for name, field in keys_of(table).items():
        key = (*prefix, name)
        yield key
        if (inner := table_of(field.annotation)) is not None:
            many = name in ("memory", "queue", "modes")
            yield from places(inner, (*key, 0) if many else key)


def with_value(place: tuple[str | int, ...], value: object) -> str:
    """The text of the device with another value of a key."""
    data = json.loads(json.dumps(whole()))
    table: Any = data
    for word in place[:-1]:
        if isinstance(word, str) and isinstance(table, dict):
            table = cast(dict[str, Any], table).setdefault(word, {})
        else:
            table = table[word]
    table[place[-1]] = value
    return json.dumps(data)


@pytest.mark.parametrize("place", [p for p in places() if len(p) > 0], ids=lambda p: ".".join(map(str, p)))
def test_a_wrong_value_is_named_in_the_words_of_the_file(place: tuple[str | int, ...]) -> None:
    for value in VALUES:
        try:
            load_device(with_value(place, value))
        except FileError as error:
            message = str(error)
            assert not FOREIGN.search(message), message
            assert any(str(word) in message for word in place[-2:]), message
            assert message.isprintable()
            assert len(message) < 2000


def numbers() -> list[tuple[str, float, float]]:
    """The keys of rates and counts of cycles, each with its least and greatest value."""
    return [
        ("fallback.macs_per_cycle", 1e-6, 1e12),
        ("fallback.bytes_per_cycle", 1e-6, 1e12),
        ("fallback.setup", 0, 1 << 31),
        ("memory.dram.bytes_per_cycle.read", 1e-6, 1e12),
        ("memory.dram.bytes_per_cycle.write", 1e-6, 1e12),
        ("memory.dram.latency.read", 0, 1 << 31),
        ("memory.dram.bytes", 1 << 18, 1 << 40),
        ("queue.load.bytes_per_cycle", 1e-6, 1e12),
        ("queue.load.setup", 0, 1 << 31),
        ("queue.load.outstanding", 1, 1 << 31),
        ("queue.post.elements_per_cycle", 1e-6, 1e12),
        ("array.modes.0.rate", 1e-6, 1.0),
        ("array.fold.fill", 0, 1 << 31),
        ("sync.depth", 1, 1 << 31),
        ("clock_mhz", 1, 1_000_000),
    ]


NETWORK = """
func.func @main(%x: tensor<1x6x6x4xf32>) -> tensor<1x6x6x4xf32> {
  %w = nn.constant <tensor<4x3x3x4xf32>, [WEIGHTS]> : tensor<4x3x3x4xf32>
  %0 = nn.conv2d %x, %w {padding = array<i64: 1, 1, 1, 1>}
    : tensor<1x6x6x4xf32>, tensor<4x3x3x4xf32> -> tensor<1x6x6x4xf32>
  %1 = nn.softmax %0 {axis = 3 : i64} : tensor<1x6x6x4xf32> -> tensor<1x6x6x4xf32>
  func.return %1 : tensor<1x6x6x4xf32>
}
""".replace("WEIGHTS", ", ".join(str(0.01 * (n % 17 - 8)) for n in range(144)))


@pytest.fixture(scope="module")
def quantized() -> Any:
    """A convolution that the device computes, and a softmax that its host computes."""
    from qmlir.ir.context import make_context
    from qmlir.ir.source import parse_text

    module = parse_text(make_context(), NETWORK, "network")
    data = [np.random.default_rng(0).standard_normal((1, 6, 6, 4)).astype(np.float32)]
    return qmlir.quantize(module, qmlir.profile(module, data), target="nmp")


KEYS = [[entry] for entry in numbers()] + [numbers()]


@pytest.mark.parametrize("side", [1, 2], ids=["least", "most"])
@pytest.mark.parametrize("keys", KEYS, ids=[keys[0][0] for keys in KEYS[:-1]] + ["all"])
def test_no_number_makes_cycles_endless(quantized: Any, keys: list[tuple[str, float, float]], side: int) -> None:
    device = load_device("nmp").with_({entry[0]: entry[side] for entry in keys})
    executable = qmlir.compile(quantized, target=device)
    x = np.random.default_rng(1).standard_normal((1, 6, 6, 4)).astype(np.float32)
    assert (executable(x) == qmlir.reference(quantized)(x)).all()
    for report in (executable.predicted, executable.report):
        assert report is not None
        counts = [report.cycles, *(c for layer in report.layers for c in (layer.cycles, layer.bound))]
        assert all(isinstance(c, int) and c >= 0 for c in counts)
        assert math.isfinite(report.utilization)
        json.dumps(counts, allow_nan=False)


@pytest.mark.parametrize(("key", "least", "most"), [n for n in numbers() if n[0] != "memory.dram.bytes"])
def test_a_number_beyond_its_bounds(key: str, least: float, most: float) -> None:
    below = least / 10 if isinstance(most, float) else least - 1
    for beyond, words in ((below, "at least|more than"), (most * 10, "at most")):
        with pytest.raises(OptionError, match=f"must be ({words})"):
            load_device("nmp").with_({key: beyond})
