"""The options of `qmlir quantize` that are not about single operations, as the keys of `options` in a policy's file.

    default: {schema: symmetric}
    rules: [{name: conv1, precision: int16}]
    options:
      data: digits.npz:calibration_images
      samples: 50
      target: ethos-u55-like
      output: digits.npu

An option has the name, the values and the meaning that it has on the command line; `bind`, `constant`, `shape`,
`state` and `set`, which may be given more than once there, are mappings. Paths are relative to the working directory,
as they are there. A test holds this list to the command line's.
"""

from collections.abc import Mapping
from typing import Any, Literal, TypeAlias, cast

from qmlir.display import bytes_of

RUNTIMES: Mapping[str, Mapping[str, str]] = {"onnxruntime": {"precision": "uint8", "weight_precision": "int7"}}
"""The settings that a runtime prefers: onnxruntime is fastest on unsigned data, and exact on 7-bit weights."""

Kind: TypeAlias = Literal["text", "count", "integer", "size", "flag", "numbers by name", "texts by name"]

RUN_OPTIONS: Mapping[str, Kind] = {
    "bind": "numbers by name",
    "constant": "texts by name",
    "weights": "text",
    "shape": "texts by name",
    "state": "texts by name",
    "inputs": "text",
    "outputs": "text",
    "numerics": "text",
    "signature": "text",
    "fold-budget": "count",
    "profile": "text",
    "save-profile": "text",
    "partial-profile": "flag",
    "profile-by-name": "flag",
    "data": "text",
    "samples": "count",
    "sequence": "count",
    "dtype": "text",
    "preprocess": "text",
    "memory-budget": "size",
    "labels": "text",
    "label-offset": "integer",
    "metric": "text",
    "test-data": "text",
    "layer-errors": "flag",
    "for": "text",
    "target": "text",
    "set": "texts by name",
    "fail-on-float": "flag",
    "ledger": "text",
    "format": "text",
    "activations": "text",
    "opset": "count",
    "threads": "count",
    "batch": "count",
    "cpu": "text",
    "features": "text",
    "triple": "text",
    "memory": "text",
    "io": "text",
    "output": "text",
}
"""Option → the kind of its values."""

NEEDS: Mapping[Kind, str] = {
    "text": "must be text",
    "count": "must be a positive number",
    "integer": "must be an integer",
    "size": "must be bytes, or a size such as 512MiB or 2GiB",
    "flag": "must be true or false",
    "numbers by name": "must be positive numbers by name, such as {batch: 1}",
    "texts by name": "must be values by name",
}
"""Kind of values → the requirement, for errors."""


def fits(kind: Kind, value: object) -> bool:
    """Whether an option of a kind can have a value."""
    match kind:
        case "text":
            return isinstance(value, str) and bool(value)
        case "count":
            return _is_integer(value) and cast(int, value) >= 1
        case "integer":
            return _is_integer(value)
        case "size":
            return bytes_of(value) is not None if isinstance(value, str) else fits("count", value)
        case "flag":
            return isinstance(value, bool)
        case "numbers by name":
            return _is_mapping(value) and all(fits("count", each) for each in cast(dict[str, Any], value).values())
        case "texts by name":
            return _is_mapping(value) and all(map(_is_scalar, cast(dict[str, Any], value).values()))


def _is_integer(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_mapping(value: object) -> bool:
    return isinstance(value, dict) and all(isinstance(key, str) and key for key in cast(dict[Any, Any], value))


def _is_scalar(value: object) -> bool:
    return isinstance(value, str | int | float) and value != ""


def words_of(options: Mapping[str, Any]) -> list[str]:
    """Returns options as words of a command line."""
    words: list[str] = []
    for name, value in options.items():
        match RUN_OPTIONS[name]:
            case "flag":
                words += [f"--{name}"] if value else ["--no-layer-errors"] if name == "layer-errors" else []
            case "numbers by name" | "texts by name":
                words += [f"--{name}={key}={scalar_text(each)}" for key, each in value.items()]
            case _:
                words.append(f"--{name}={value}")
    return words


def scalar_text(value: object) -> str:
    """Returns a value of a mapping as the command line spells it: truth values in TOML's small letters."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def names_of(text: str) -> tuple[str, ...]:
    """Returns the names in a text with commas between them."""
    return tuple(name for name in text.split(",") if name)
