"""`qmlir-opt --PASS --help`: what a pass does, its options with defaults, and command lines that run it.

Passes of qmlir are read from their source (pass_list.py), so that the answer is there at once; others are imported.
"""

import inspect
import re
import textwrap
from collections.abc import Sequence

from qmlir.cli.flags import PIPELINE_FLAG, argument_parser, fitted, help_width
from qmlir.cli.pass_list import pass_docstrings, pass_table, read_pass
from qmlir.ir.option_text import OptionInfo

WIDEST = 100
"""The most columns of a line of prose."""


def _width() -> int:
    return min(help_width(), WIDEST)


def help_of(argv: Sequence[str]) -> str:
    """Returns the help about the passes that a command line names.

    Raises:
        OptionError: A flag is neither a pass nor a flag of qmlir-opt.
    """
    return "\n".join(map(_help, _passes(argv)))


def _passes(argv: Sequence[str]) -> list[str]:
    """Returns the names of the passes in a command line; flags that are no passes are left out."""
    flags = {*argument_parser().long_flags(), PIPELINE_FLAG, "o", "h"}
    names = [a.lstrip("-").partition("=")[0] for a in argv if a.startswith("-") and a != "-"]
    return list(dict.fromkeys(name for name in names if name not in flags))


def _help(name: str) -> str:
    known = pass_table()
    listed = name if name in known else name.removeprefix("convert-")
    if listed in known:
        docstrings, options = pass_docstrings(known[listed]), read_pass(known[listed])[1]
    else:
        from qmlir.cli.options import option_infos
        from qmlir.ir.passes import pass_class

        found = pass_class(listed := name)
        docstrings, options = [inspect.getdoc(found) or ""], option_infos(found)
    parts = [f"--{name}", *map(_paragraphs, filter(None, docstrings)), _options(options), _examples(listed, options)]
    return "\n\n".join(filter(None, parts)) + "\n"


_CODE = re.compile(r"```\w*\n(.*?)```", re.DOTALL)
"""A block of code in a docstring."""


def _paragraphs(text: str) -> str:
    """Returns a docstring with its prose wrapped; code and lists stay as they are, code without its fences."""
    shown: list[str] = []
    for number, part in enumerate(_CODE.split(inspect.cleandoc(text))):
        if number % 2:
            shown.append(textwrap.indent(part.rstrip(), "  "))
        else:
            shown += [_wrapped(block) for block in part.strip().split("\n\n") if block]
    return textwrap.indent("\n\n".join(shown), "  ")


def _wrapped(block: str) -> str:
    lines = block.splitlines()
    plain = not any(line.startswith((" ", "- ", "* ")) for line in lines)
    return "\n".join(fitted(" ".join(lines), _width() - 2, 0)) if plain else block


def _options(options: Sequence[OptionInfo]) -> str:
    if not options:
        return "It takes no options."
    lines, width = ["options, separated by spaces:"], _width()
    for option in options:
        default = "required" if option.default is None else f"default: {option.default}"
        lines += fitted(f"{option.name}=<{option.type}> ({default})", width, 2, 8)
        lines += fitted(option.help, width, 6)
    return "\n".join(lines)


def _examples(name: str, options: Sequence[OptionInfo]) -> str:
    given = " ".join(f"{option.name}={_value(option)}" for option in _shown(options))
    flag, braces = (f'="{given}"', f"{{{given}}}") if given else ("", "")
    return (
        f"examples:\n  qmlir-opt --{name}{flag} net.mlir -o out.mlir\n"
        f"  qmlir-opt --{PIPELINE_FLAG}='builtin.module({name}{braces})' net.mlir -o out.mlir"
    )


def _shown(options: Sequence[OptionInfo]) -> list[OptionInfo]:
    """The options that an example gives: those that are required, or the first with other values than its default."""
    required = [option for option in options if option.default is None]
    return required or [option for option in options if _value(option) != option.default][:1]


def _value(option: OptionInfo) -> str:
    """A value of an option, another one than its default where the type lists its values."""
    match [word.strip() for word in option.type.split("|")]:
        case ["bool"]:
            return "false" if option.default == "true" else "true"
        case ["int" | "float" | "text" | "none", *_] | [_]:
            return option.default if option.default is not None else {"text": "FILE", "int": "1"}.get(option.type, "…")
        case values:
            return next((value for value in values if value != option.default), values[0])
