"""Each option of each pass, each value of one that has few, and each flag of qmlir-opt is in a FileCheck test."""

import re
from dataclasses import fields
from typing import Literal, get_args, get_origin, get_type_hints

import pytest

from qmlir.cli.flags import argument_parser
from qmlir.ir.passes import PASSES, pass_class
from tests.test_filecheck import FILES

COMMANDS = [line for file in FILES for line in file.read_text(encoding="utf-8").splitlines() if "RUN:" in line]

OPTIONS = [(name, f.name.replace("_", "-")) for name in PASSES for f in fields(pass_class(name)) if f.name != "name"]


def values(name: str, option: str) -> list[str]:
    """The values of an option of few; switches are on and off by themselves."""
    hint = get_type_hints(pass_class(name))[option.replace("-", "_")]
    return [str(v) for v in get_args(hint)] if get_origin(hint) is Literal else []


def commands_with(text: str) -> list[str]:
    return [line for line in COMMANDS if re.search(text, line)]


@pytest.mark.parametrize(("name", "option"), OPTIONS, ids=lambda v: v)
def test_each_option_and_each_of_its_values(name: str, option: str) -> None:
    own = rf"(--{name}=|[ ,(]{name}{{)[^|]*\b{option}="
    assert commands_with(own), f"no RUN line gives {name} its option {option}"
    # What passes share, such as schemas, they read alike: one of them is enough.
    missing = [v for v in values(name, option) if not commands_with(rf"\b{option}={re.escape(v)}\b")]
    assert missing == []


@pytest.mark.parametrize("flag", [flag for action in argument_parser()._actions for flag in action.option_strings])
def test_each_flag(flag: str) -> None:
    assert commands_with(rf"\s{re.escape(flag)}(\s|=|$)"), f"no RUN line has {flag}"
