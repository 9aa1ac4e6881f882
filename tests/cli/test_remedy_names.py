"""The flags, options, passes and commands that remedies name exist: every text of a remedy in the package is read."""

import argparse
import dataclasses
import inspect
import re
from collections.abc import Iterable, Iterator
from functools import cache
from itertools import chain
from typing import Annotated, Any, get_args, get_origin, get_type_hints

import pytest
from xdsl.transforms import get_all_passes

import qmlir
from qmlir.cli.flags import ArgumentParser, argument_parser
from qmlir.cli.main import _parser
from qmlir.compiler import EXPORT_FORMATS
from qmlir.devices import load_device, shipped_devices
from qmlir.devices.description.changing import changed, settings_of
from qmlir.errors import OptionError
from qmlir.ir.passes import PASSES, pass_class
from qmlir.plugins import is_numbered
from qmlir.policies.ledger import KINDS, REMEDIES
from qmlir.policies.runtimes import Runtime
from qmlir.samples.pictures import Preprocessing
from qmlir.settings.quant_config import OpConfig
from tests.remedies.texts import remedies


@cache
def commands() -> dict[str, ArgumentParser]:
    return _parser()[1]


@cache
def flags() -> dict[str, list[argparse.Action]]:
    """`--flag` → the actions of all commands that have it."""
    found: dict[str, list[argparse.Action]] = {}
    for parser in (*commands().values(), argument_parser()):
        for action in parser._actions:
            for name in action.option_strings:
                found.setdefault(name, []).append(action)
    return found


@cache
def settings() -> dict[str, Any]:
    """Keys that are written `key=value` → the types of their values."""
    passes: Any = pass_class("quantize")
    load = {name: str for name in inspect.signature(qmlir.load).parameters} | {"numerics": Runtime}
    hints = (get_type_hints(each, include_extras=True) for each in (Preprocessing, passes, OpConfig))
    return load | dict(chain.from_iterable(each.items() for each in hints))


PASS_OPTIONS = re.compile(r"--(?P<flag>[a-z][\w-]*|…(?==))(?:=(?P<value>\"[^\"]*\"|[^\s,;)]+))?")
DEVICE_KEY = re.compile(r"--set (?P<setting>[\w.]+=[\w-]+)")
SETTING = re.compile(r"(?<![\w-])(?P<key>[a-z][\w-]*)=(?P<value>[\w.-]+)")
HYPHENED = re.compile(r"(?<![\w.-])[a-z]\w*(?:-\w+)+(?![\w-]*=)")
QUOTED_COMMAND = re.compile(r"`qmlir ((?:[a-z]+ ?)+)")
FUNCTION = re.compile(r"\bqmlir\.(\w+)\(")


def _accepts(action: argparse.Action, value: str) -> bool:
    try:
        read: Any = action.type or str
        read(value)
    except (argparse.ArgumentTypeError, ValueError):
        return False
    return action.choices is None or value in action.choices


def _is_changed(name: str, keys: Iterable[str]) -> bool:
    """Whether a device takes other values of some keys."""
    try:
        changed(load_device(name), settings_of(keys))
    except OptionError:
        return False
    return True


def _device_complaints(keys: list[str]) -> Iterator[str]:
    """Says that no device takes the values of some keys."""
    if keys and not any(_is_changed(name, keys) for name in shipped_devices()):
        yield f"no device has the keys and values {', '.join(keys)}"


def _complaints(text: str) -> Iterator[str]:
    """What a remedy names that does not exist."""
    for match in PASS_OPTIONS.finditer(text):
        name, value = match["flag"], match["value"]
        if name in {*PASSES, "…"}:  # of `--…=` any pass may be meant
            passes = map(pass_class, PASSES if name == "…" else [name])
            known = {f.name.replace("_", "-") for cls in passes for f in dataclasses.fields(cls)}
            outer = re.sub(r"\{.*\}", "", value or "")  # settings={…} holds those of another pass
            keys = re.findall(r"([\w-]+)=", outer.strip('"'))
            yield from (f"--{name} has no option {key}" for key in keys if key not in known)
        elif f"--{name}" not in flags():
            yield f"there is no flag --{name}"
        elif value and "…" not in value and not any(_accepts(a, value.strip('"')) for a in flags()[f"--{name}"]):
            yield f"--{name} has no value {value}"
    yield from _device_complaints(DEVICE_KEY.findall(text))
    rest = PASS_OPTIONS.sub("", DEVICE_KEY.sub("", text))
    for match in SETTING.finditer(rest):
        key, value = match["key"].replace("-", "_"), match["value"]
        if key not in settings():
            yield f"there is no setting {match['key']}"
        elif (known := list(_leaves(settings()[key]))) and not _is_value(settings()[key], value, known):
            yield f"{key} has no value {value}"
    for word in HYPHENED.findall(SETTING.sub("", rest)):
        if word not in {*PASSES, *get_all_passes(), *EXPORT_FORMATS}:
            yield f"there is no pass {word}"
    for name in QUOTED_COMMAND.findall(text):
        words = name.split()
        if not any(" ".join(words[:n]) in commands() for n in (1, 2)):
            yield f"there is no command {name}"
    yield from (f"there is no qmlir.{name}" for name in FUNCTION.findall(text) if not hasattr(qmlir, name))


def _is_value(hint: Any, value: str, known: list[Any]) -> bool:
    """Whether a setting may have a value; numbers and truth values are not looked at."""
    return value in known or is_numbered(hint, value) or set(map(type, known)) != {str}


def _leaves(hint: Any) -> Iterator[Any]:
    """The values that a `Literal`, or a union of them, lists."""
    for argument in get_args(get_args(hint)[0] if get_origin(hint) is Annotated else hint):
        if get_args(argument):
            yield from _leaves(argument)
        else:
            yield argument


@pytest.mark.slow
def test_what_remedies_name_exists() -> None:
    assert len(remedies()) > 120
    wrong = [f"{place}: {text!r}: {why}" for text, place in remedies().items() for why in _complaints(text)]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize(
    "text",
    [
        "give --partial",
        'give some: --…="samples=samples.npy"',
        "use --storage=outline",
        "set --quantize=fail-on-floats=true",
        'give one: --apply-profile="profile=net.yaml"',
        "quantize with precison=int8",
        "quantize with precision=int12",
        "load the model with numerics=tflite",
        "run npu-casacde",
        "give --set quant.scales=pow2",
        "give --set quant.scale=pow3",
        "see `qmlir imports`",
        "load it: qmlir.read(path)",
    ],
)
def test_a_name_that_does_not_exist_is_found(text: str) -> None:
    assert list(_complaints(text))


def test_remedies_of_the_ledger_are_for_its_codes() -> None:
    assert set(REMEDIES) <= set(KINDS)
    assert set(KINDS) - set(REMEDIES) == {"integer", "moved", "delivered", "compared", "device"}
