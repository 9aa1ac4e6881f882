"""Random options of the quantizer: those of docs/quantization.md, rules, numerics, and what is checked besides."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, get_args

import numpy as np

from qmlir.compiler import EXPORT_FORMATS
from qmlir.numerics.codebooks import Codebook
from qmlir.numerics.schemas import SCHEMAS
from qmlir.policies.runtimes import Runtime
from qmlir.settings.policy import Policy

PRECISIONS = ("int8", "int8", "int8", "int16", "int16", "uint8")
WEIGHTS = ("same", "same", "same", "same", "int8", "int7", "int6", "int5", "int4", "int3", "int2", "int16")
CALIBRATIONS = ("auto",) * 6 + ("minmax", "minmax", "moving_average", "percentile", "kl", "kl_tvm", "mse", "aciq")
BIASES = ("auto",) * 5 + ("int8", "int16", "int32", "int64")

BITS = {"int8": 8, "uint8": 8, "int16": 16, **{f"int{n}": n for n in range(2, 8)}}


@dataclass(frozen=True)
class Options:
    """What a network is quantized by, and which of the costly checks it gets.

    rules     plain data of a policy's rules
    data      whether samples are given to the quantizer
    numerics  whose rounding the network follows before it is quantized
    bins      of the profile
    format    of the file that is exported
    machine   what is compiled for the CPU: "quantized", "float" or nothing
    device    the device that the network is quantized and compiled for, if any
    """

    schema: str = "asymmetric"
    precision: str = "int8"
    weight_precision: str = "same"
    calibration: str = "auto"
    per_channel: bool = True
    bias: str = "auto"
    rounding: str = "auto"
    glow_exact: bool = False
    weight_range: str = "auto"
    weight_levels: str = "even"
    residuals: str = "same"
    rules: Sequence[Mapping[str, Any]] = ()
    data: bool = False
    numerics: str = "default"
    bins: int = 2000
    format: str = ""
    machine: str = ""
    device: str = ""

    def arguments(self) -> dict[str, Any]:
        """The keyword arguments of `qmlir.quantize`, but for data."""
        names = (
            "schema",
            "precision",
            "weight_precision",
            "calibration",
            "per_channel",
            "bias",
            "rounding",
            "glow_exact",
            "weight_range",
            "weight_levels",
            "residuals",
        )
        policy = Policy.of({"rules": [dict(rule) for rule in self.rules]}) if self.rules else None
        return {name: getattr(self, name) for name in names} | {"policy": policy}

    def every(self, setting: str) -> set[Any]:
        """The values that a setting has by default or in a rule."""
        return {getattr(self, setting), *(rule[setting] for rule in self.rules if setting in rule)}

    def easier(self) -> list["Options"]:
        """Options to try where these are refused: without rules, and then those that go with any schema."""
        plain = replace(self, rules=())
        usual = replace(plain, precision="int16" if self.precision == "int16" else "int8", glow_exact=False)
        calibrated = replace(usual, calibration="auto" if self.calibration != "minmax" else "minmax", bias="auto")
        return [o for o in (plain, usual, calibrated) if o != self]

    @property
    def activation_bits(self) -> int:
        """The least bits that an activation may have."""
        return min(BITS[p] for p in self.every("precision"))

    @property
    def weight_bits(self) -> int:
        """The least bits that a weight may have."""
        return self.widths_of_weights[0]

    @property
    def widths_of_weights(self) -> list[int]:
        """All bits that a weight may have, in rising order."""
        given = self.every("weight_precision")
        return sorted({BITS[p] if p != "same" else self.activation_bits for p in given})

    def __str__(self) -> str:
        plain = Options()
        changed = [f for f in fields(self) if getattr(self, f.name) != getattr(plain, f.name)]
        return ", ".join(f"{f.name}={getattr(self, f.name)!r}" for f in changed) or "defaults"

    def simpler(self) -> list["Options"]:
        """The options with one of them at its default, and without one rule."""
        plain = Options()
        single: list[Options] = [
            replace(self, **{f.name: getattr(plain, f.name)})
            for f in fields(self)
            if getattr(self, f.name) != getattr(plain, f.name)
        ]
        fewer: list[Options] = [
            replace(self, rules=(*self.rules[:i], *self.rules[i + 1 :])) for i in range(len(self.rules))
        ]
        return single + (fewer if len(self.rules) > 1 else [])


@dataclass(frozen=True)
class Shares:
    """How often the costly checks are made.

    machine  share of the cases that are compiled for the CPU
    device   share that goes to a device
    """

    machine: float = 0.3
    device: float = 0.1
    devices: Sequence[str] = field(default_factory=tuple[str, ...])


def draw_options(rng: np.random.Generator, names: Sequence[str], shares: Shares) -> Options:
    """Options for a network.

    Args:
        rng: Where all choices come from.
        names: Tensors and nodes that rules may name.
        shares: How often the costly checks are made.
    """

    def choice(options: Sequence[Any]) -> Any:
        return options[int(rng.integers(len(options)))]

    def chance(probability: float) -> bool:
        return bool(rng.random() < probability)

    rules = [_rule(choice, chance, names) for _ in range(choice([0, 0, 0, 1, 1, 2]))]
    machine = choice(["quantized", "quantized", "float"]) if chance(shares.machine) else ""
    options = Options(
        schema=choice(SCHEMAS),
        precision=choice(PRECISIONS),
        weight_precision=choice(WEIGHTS),
        calibration=choice(CALIBRATIONS),
        per_channel=chance(0.7),
        bias=choice(BIASES),
        rounding=choice(["auto", "auto", "nearest"]),
        glow_exact=chance(0.08),
        rules=tuple(rules),
        data=chance(0.35),
        numerics=choice(get_args(Runtime)) if chance(0.4) else "default",
        bins=choice([2000, 2000, 128, 2]),
        format=choice(EXPORT_FORMATS),
        machine=machine,
        weight_range="full" if chance(0.1) else "auto",
        residuals=choice(["outliers", "int16", "auto"]) if chance(0.3) else "same",
    )
    if BITS.get(options.weight_precision) in Codebook.BITS and not options.glow_exact and chance(0.5):
        options = replace(options, weight_levels="codebook")
    if shares.devices and chance(shares.device):
        return Options(device=choice(shares.devices), data=options.data, calibration="auto")
    return replace(options, precision="int8") if options.precision == "uint8" and chance(0.3) else options


def _rule(choice: Any, chance: Any, names: Sequence[str]) -> dict[str, Any]:
    selector = choice(
        [
            {"name": choice(names)},
            {"name": choice(names)},
            {"layer": choice(["first", "last"])},
            {"kind": choice(["conv2d", "fully_connected", "matmul", "add", "concat", "*pool*", "re*", "*"])},
            {"glob": choice(["n_t?", "*", "t1*"])},
            {"between": [choice(names), choice(names)]},
        ]
    )
    settings = choice(
        [
            {"precision": "int16"},
            {"precision": "int16", "weight_precision": "int8"},
            {"precision": "int8"},
            {"keep_float": True},
            {"keep_float": True},
            {"per_channel": chance(0.5)},
            {"schema": choice(SCHEMAS)},
            {"calibration": choice(["minmax", "mse"])},
            {"weight_precision": choice(["int4", "int8"])},
            {"bias": choice(["int8", "int32"])},
            {"rounding": "nearest"},
        ]
    )
    return {**selector, **settings}
