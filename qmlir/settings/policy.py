"""The policy: rules that quantize some operations differently from the rest.

    default: {schema: symmetric}                      # for all operations; the options of `--quantize` otherwise
    rules:
      - {name: conv1, precision: int16}               # a node or a tensor, by its exact name
      - {glob: "head/*", keep-float: true}            # or by glob, or by regex
      - {kind: depthwise_conv2d, per-channel: true}   # by kind of operation; globs too
      - {between: [pool1_out, logits], calibration: kl}   # operations that compute the second tensor from the first
      - {layer: first, precision: int16}              # the first or the last convolution or dense layer
      - {name: image, range: [-1.0, 1.0]}             # a tensor's range, which overrides the observed range
    options: {data: samples.npz, target: nmp}         # all other options of `qmlir quantize` (fields.py)

A rule applies to the operations that match all of its selectors. If several rules give a setting, the last rule wins.
Settings are the fields of a `OpConfig` (the quantization options of one operation), spelled with `-` or `_`.
apply_policy.py, which knows the network, finds the operations that a rule matches.
"""

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, cast

import yaml

from qmlir.errors import FileError, QmlirError, near_misses
from qmlir.ir.passes import option_types
from qmlir.plugins import admits, choices
from qmlir.running.files import path_of
from qmlir.running.yaml_files import Dumper, Key, YamlFile, number_of, read_yaml
from qmlir.settings.fields import RUN_OPTIONS, fits, need
from qmlir.settings.quant_config import TENSOR_SETTINGS, OpConfig, PlainSettings

REMEDY = "see docs/quantization.md for what a policy may say"

SELECTORS = ("name", "glob", "regex", "kind", "between", "layer")
"""The keys of a rule that select operations or tensors; all other keys are settings."""

LAYERS = ("first", "last")

LISTS = ("between", "range", "parameters")
"""The keys of a rule whose value is a list."""


class PolicyError(QmlirError):
    """Raised when a policy is malformed or does not fit the network."""


class MalformedPolicy(Exception):
    """Raised for an error in a policy's data: the keys that lead to it, what is needed, what is there, the remedy.

    With `name`, the last key itself is wrong; otherwise its value is.
    """

    def __init__(self, need: str, *keys: Key, got: str | None = None, remedy: str | None = None, name: bool = False):
        super().__init__(need)
        self.need, self.keys, self.got, self.remedy, self.name = need, keys, got, remedy, name


@dataclass(frozen=True)
class Rule:
    """Settings for the operations that match every selector which is not empty.

    name      exact name of a node or a tensor
    glob      pattern of such names: `*` and `?`, also across `/`
    regex     regular expression for a whole name
    kind      kind of operation, such as `conv2d`, or a glob of kinds
    between   two tensors: selects the operations that compute the second from the first
    layer     `first` or `last` operation with weights
    settings  fields of a `OpConfig`
    place     name of the rule in errors: `net.yaml:3:5`

    >>> print(Rule({"precision": "int16"}, name="conv1"))
    name: conv1
    """

    settings: PlainSettings
    name: str = ""
    glob: str = ""
    regex: str = ""
    kind: str = ""
    between: tuple[str, str] | tuple[()] = ()
    layer: str = ""
    place: str = "rule"

    def __post_init__(self) -> None:
        object.__setattr__(self, "settings", _checked(self.settings, self.place))

    @property
    def selectors(self) -> dict[str, Any]:
        """The selectors that are not empty."""
        return {key: value for key in SELECTORS if (value := getattr(self, key))}

    def __str__(self) -> str:
        return ", ".join(f"{key}: {inline(value)}" for key, value in self.selectors.items())

    def as_dict(self) -> dict[str, Any]:
        """The rule as plain data, as users write it."""
        return {**_written(self.selectors), **_written(self.settings)}


@dataclass(frozen=True)
class Policy:
    """Rules in order, default settings for everything that no rule matches, and options of the command.

    `options` are the other options of `qmlir quantize`, with their names there: data, target, output, … Passes have no
    use for them.

    Policy(rules=[Rule({"precision": "int16"}, name="conv1")]) is the same as Policy.of({"rules": [{"name": "conv1",
    "precision": "int16"}]}), and as a file with that rule.

    >>> Policy(rules=[Rule({"precision": "int16"}, name="conv1")]).as_dict()
    {'default': {}, 'rules': [{'name': 'conv1', 'precision': 'int16'}]}
    """

    default: PlainSettings = field(default_factory=dict[str, Any])
    rules: Sequence[Rule] = ()
    options: PlainSettings = field(default_factory=dict[str, Any])

    def __post_init__(self) -> None:
        object.__setattr__(self, "default", _checked(self.default, "policy", "default"))
        try:
            object.__setattr__(self, "options", _options_of(self.options))
        except MalformedPolicy as error:
            where = _spelled("policy", error.keys)
            raise PolicyError(error.need, where=where, got=error.got, remedy=error.remedy) from None

    @classmethod
    def of(cls, data: Mapping[str, Any], *, place: str = "policy") -> "Policy":
        """Makes a policy from plain data in the form that YAML gives.

        Raises:
            PolicyError: A key is unknown, or has a value that it cannot have; the error names similar ones.
        """
        try:
            return _policy_of(data, lambda index: _spelled(place, ("rules", index)))
        except MalformedPolicy as error:
            where = _spelled(place, error.keys)
            raise PolicyError(error.need, where=where, got=error.got, remedy=error.remedy) from None

    @classmethod
    def load(cls, path: str | Path) -> "Policy":
        """Reads a policy from YAML.

        Raises:
            FileError: The file cannot be read, is not YAML, or is not a valid policy; with line and column.
        """
        file = read_yaml(path_of(path, "policy"), "a policy", remedy=REMEDY)
        if (repeated := file.repeated_key()) is not None:
            raise FileError(repeated[0], "must name each key once", got=f"{repeated[1]} again", remedy="drop one")
        if not isinstance(file.data, dict | None) or len(file.documents) > 1:
            raise FileError(path, "must be a policy with default, rules and options", got="another file", remedy=REMEDY)
        try:
            return _policy_of(file.fields, lambda index: file.place("rules", index))
        except MalformedPolicy as error:
            raise _file_error(file, error) from None

    def with_rules(self, more: Sequence[Rule]) -> "Policy":
        """Returns the policy with more rules after its own rules."""
        return Policy(self.default, (*self.rules, *more), self.options)

    def with_default(self, settings: PlainSettings) -> "Policy":
        """Returns the policy with changed default settings; settings that are not given stay as they are."""
        return Policy({**self.default, **settings}, self.rules, self.options)

    def as_dict(self) -> dict[str, Any]:
        """The policy as plain data, which `of` reads."""
        written = {"default": _written(self.default), "rules": [rule.as_dict() for rule in self.rules]}
        return {**written, "options": dict(self.options)} if self.options else written

    def text(self) -> str:
        """The policy as YAML, which `load` reads."""
        return yaml.dump(self.as_dict(), Dumper=Dumper, sort_keys=False, default_flow_style=None, width=120)


def rule_of(text: str) -> Rule:
    """Makes a rule from an option's text: `name=conv1 precision=int16`, with lists as `a,b` or `[a, b]`.

    Raises:
        PolicyError: The text does not have this form, or is not a valid rule.
    """
    data: dict[str, Any] = {}
    for word in _words(text):
        key, equals, value = word.partition("=")
        if not key or not equals:
            raise PolicyError("is written key=value key=value …", where=f'rule "{text.strip()}"', got=word)
        data[key] = _word(key, value)
    try:
        return _rule_of(data, 0, f'rule "{text.strip()}"')
    except MalformedPolicy as error:
        raise PolicyError(error.need, where=f'rule "{text.strip()}"', got=error.got, remedy=error.remedy) from None


def _words(text: str) -> list[str]:
    """Splits a text into words; a list in brackets after `=` belongs to its word."""
    return re.findall(rf"(?:{'|'.join(LISTS)})=\[[^\]]*\]|\S+", text)


def _word(key: str, value: str) -> Any:
    """Returns the value of a word; the value of a list key may be a,b or [a,b]."""
    if (listed := re.fullmatch(r"\[(.*)\]", value)) and key in LISTS:
        value = ",".join(part.strip() for part in listed.group(1).split(","))
    if key in SELECTORS:
        return value.split(",") if key == "between" else value
    try:
        values = [yaml.safe_load(v) for v in value.split(",")]
    except yaml.YAMLError:
        return value
    return values if len(values) > 1 else values[0]


def _file_error(file: YamlFile, error: MalformedPolicy) -> FileError:
    return FileError(file.place(*error.keys, name=error.name), error.need, got=error.got, remedy=error.remedy)


def _spelled(place: str, keys: Sequence[Key]) -> str:
    return " ".join([place, *(f"{k + 1}" if isinstance(k, int) else str(k) for k in keys)])


# ---------------------------------------------------------------------------------------------------------------
# Data → policy


def _policy_of(data: Mapping[str, Any], place: Callable[[int], str]) -> Policy:
    for key in data:
        known = ["default", "rules", "options"]
        if key not in known:
            raise MalformedPolicy(
                "a policy has default, rules and options", key, got=str(key), remedy=_near(key, known), name=True
            )
    default: Any = data.get("default") or {}
    rules: Any = data.get("rules") or []
    if not isinstance(default, dict):
        raise MalformedPolicy("default must be settings by name", "default", got=inline(default))
    if not isinstance(rules, list):
        raise MalformedPolicy("rules must be a list", "rules", got=inline(rules))
    settings = _settings_of(cast(dict[Any, Any], default), "default")
    options: Any = data.get("options") or {}
    if not isinstance(options, dict):
        raise MalformedPolicy("options must be values by name", "options", got=inline(options))
    found = tuple(_rule_of(r, i, place(i)) for i, r in enumerate(cast(list[Any], rules)))
    return Policy(settings, found, _options_of(cast(dict[Any, Any], options)))


def _options_of(data: Mapping[Any, Any]) -> dict[str, Any]:
    """Returns options of the command with their names there, for names spelled with `-` or `_`."""
    found: dict[str, Any] = {}
    for key, value in data.items():
        name = str(key).replace("_", "-")
        if name not in RUN_OPTIONS:
            remedy = "put it under default" if name in _names() else _near(key, [*RUN_OPTIONS])
            raise MalformedPolicy("there is no such option", "options", key, got=str(key), remedy=remedy, name=True)
        if name in found:
            raise MalformedPolicy("must name each key once", "options", key, got=f"{key} again", name=True)
        if not fits(kind := RUN_OPTIONS[name].kind, value):
            raise MalformedPolicy(need(kind), "options", key, got=inline(value))
        found[name] = value
    return found


def _rule_of(data: Any, index: int, place: str) -> Rule:
    if not isinstance(data, dict):
        raise MalformedPolicy("a rule is selectors and settings by name", "rules", index, got=inline(data))
    entries = cast(dict[Any, Any], data)
    selectors = {key: value for key, value in entries.items() if key in SELECTORS}
    if not selectors:
        raise MalformedPolicy(f"a rule needs one of {', '.join(SELECTORS)}", "rules", index, got="none")
    for key, value in selectors.items():
        _check_selector(key, value, index)
    if "between" in selectors:
        selectors["between"] = tuple(cast(list[str], selectors["between"]))
    settings = _settings_of({k: v for k, v in entries.items() if k not in SELECTORS}, "rules", index)
    if not settings:
        raise MalformedPolicy(
            "a rule needs a setting", "rules", index, got="none", remedy=f"such as {', '.join(_names()[:3])}"
        )
    return Rule(settings, **selectors, place=place)


def _check_selector(key: str, value: Any, index: int) -> None:
    if key == "between":
        pair = cast(list[Any], value) if isinstance(value, list) else []
        if len(pair) != 2 or not all(isinstance(v, str) and v for v in pair):
            raise MalformedPolicy("between must be two tensors' names", "rules", index, key, got=inline(value))
    elif not isinstance(value, str) or not value:
        remedy = "put it into quotes" if value is not None else None
        raise MalformedPolicy(f"{key} must be text", "rules", index, key, got=inline(value), remedy=remedy)
    elif key == "layer" and value not in LAYERS:
        raise MalformedPolicy("layer must be first or last", "rules", index, key, got=value)
    elif key == "regex":
        try:
            re.compile(value)
        except re.error as error:
            raise MalformedPolicy(
                "regex must be a regular expression", "rules", index, key, got=f"{value} ({error})"
            ) from None


def _checked(settings: PlainSettings, place: str, *keys: Key) -> dict[str, Any]:
    """Returns settings with the names of `OpConfig`'s fields, for names spelled with `-` or `_`.

    Raises:
        PolicyError: A config has no such field, or the field cannot have the value.
    """
    try:
        return _settings_of({name: value for name, value in settings.items() if value is not None}, *keys)
    except MalformedPolicy as error:
        where = _spelled(place, error.keys)
        raise PolicyError(error.need, where=where, got=error.got, remedy=error.remedy) from None


def _settings_of(data: Mapping[Any, Any], *keys: Key) -> dict[str, Any]:
    hints = option_types(OpConfig)
    found: dict[str, Any] = {}
    for key, value in data.items():
        name = str(key).replace("-", "_")
        if name not in hints:
            known = [*_names(), *(SELECTORS if keys != ("default",) else ())]
            raise MalformedPolicy(
                "there is no such setting", *keys, key, got=str(key), remedy=_near(key, known), name=True
            )
        if name in found:
            raise MalformedPolicy("must name each key once", *keys, key, got=f"{key} again", name=True)
        if keys == ("default",) and name in TENSOR_SETTINGS:
            raise MalformedPolicy("is for one tensor, so only a rule can say it", *keys, key, got=str(key), name=True)
        if keys != ("default",) and ((name, value) == ("precision", "auto") or name in ("recipe", "effort")):
            raise MalformedPolicy("is for the whole network", *keys, key, got=str(value), remedy="put it under default")
        found[name] = _value_of(name, value, hints[name], (*keys, key))
    return found


def _value_of(name: str, value: Any, hint: Any, keys: Sequence[Key]) -> Any:
    if (listed := choices(hint)) is not None:
        known = [str(v) for v in listed]
        if not admits(hint, value):
            need = f"must be one of {', '.join(known)}"
            raise MalformedPolicy(need, *keys, got=inline(value), remedy=_near(value, known))
        return value
    if hint is bool:
        if not isinstance(value, bool):
            raise MalformedPolicy("must be true or false", *keys, got=inline(value))
        return value
    numbers: list[Any] = [number_of(n) for n in cast(list[Any], value)] if isinstance(value, list | tuple) else []
    if len(numbers) != 2 or not all(isinstance(n, int | float) and not isinstance(n, bool) for n in numbers):
        need = "must be [lowest, highest]" if name == "range" else "must be [scale, zero point]"
        raise MalformedPolicy(need, *keys, got=inline(value))
    return _range_of(numbers, keys) if name == "range" else _parameters_of(numbers, keys)


def _range_of(numbers: Sequence[float], keys: Sequence[Key]) -> tuple[float, float]:
    lo, hi = (float(n) for n in numbers)
    if not -math.inf < lo <= hi < math.inf:
        raise MalformedPolicy("must be two finite numbers in order", *keys, got=inline(numbers))
    return lo, hi


def _parameters_of(numbers: Sequence[float], keys: Sequence[Key]) -> tuple[float, int]:
    scale, zero_point = numbers
    if not 0 < scale < math.inf:
        raise MalformedPolicy("the scale must be a positive number", *keys, got=inline(numbers))
    if zero_point != round(zero_point):
        raise MalformedPolicy("the zero point must be an integer", *keys, got=inline(numbers))
    return float(scale), int(zero_point)


def _names() -> list[str]:
    return [f.name.replace("_", "-") for f in fields(OpConfig)]


def _near(value: object, known: Sequence[str]) -> str | None:
    return near_misses(str(value), known) or f"known: {', '.join(known)}"


def _written(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Settings as a user writes them."""
    return {
        key.replace("_", "-"): list(cast(tuple[Any, ...], value)) if isinstance(value, tuple) else value
        for key, value in settings.items()
        if value is not None
    }


def inline(value: Any) -> str:
    """Returns a value as YAML on one line."""
    if isinstance(value, str):
        return value
    shown = list(cast(tuple[Any, ...], value)) if isinstance(value, tuple) else value
    text = yaml.safe_dump(shown, default_flow_style=True, width=1000).removesuffix("...\n").strip()
    return text if len(text) <= 80 else text[:77] + "…"
