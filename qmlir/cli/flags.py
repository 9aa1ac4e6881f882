"""The fixed flags of `qmlir-opt`, apart from passes; the module imports very little, so that `--help` is fast."""

import argparse
import os
import sys
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager
from copy import copy
from functools import partial
from pathlib import Path
from shutil import get_terminal_size
from textwrap import wrap
from typing import Any, NoReturn

from qmlir.display import bytes_of
from qmlir.errors import OptionError, near_misses
from qmlir.plugins import with_number, without_number
from qmlir.settings.fields import OPTIONS, Option, names_of

PIPELINE_FLAG = "pass-pipeline"


WIDEST_HELP = 118
"""The most columns of a line of help."""


def help_width() -> int:
    """Returns the columns of help: the terminal's, at most `WIDEST_HELP`, which pipes and files get."""
    fits = sys.stdout.isatty() or "COLUMNS" in os.environ
    return min(get_terminal_size().columns, WIDEST_HELP) if fits else WIDEST_HELP


def fitted(text: str, width: int, indent: int, further: int = 0) -> list[str]:
    """Returns the lines of a text broken between words, indented; all but the first by `further` columns more."""
    margin = " " * indent
    more = margin + " " * further
    return wrap(
        text, width, initial_indent=margin, subsequent_indent=more, break_long_words=False, break_on_hyphens=False
    )


class HelpFormatter(argparse.HelpFormatter):
    """Help that fits the terminal: lines break between words only, and long usages say `[options]`."""

    MOST = 8
    """The most options that the usage names one by one."""

    def add_usage(
        self, usage: str | None, actions: Iterable[argparse.Action], groups: Iterable[Any], prefix: str | None = None
    ) -> None:
        actions = list(actions)
        if sum(bool(action.option_strings) for action in actions) > self.MOST:
            shown = [action for action in actions if action.required and action.option_strings]
            places = [action for action in actions if not action.option_strings]
            others = argparse.Action(["options"], "options", nargs=0)
            actions, groups = [others, *shown, *places], []
        super().add_usage(usage, actions, groups, prefix)

    def add_argument(self, action: argparse.Action) -> None:
        super().add_argument(action)
        for command in self._iter_indented_subactions(action):  # argparse overlooks that these are indented
            length = len(self._format_action_invocation(command)) + self._current_indent
            self._action_max_length = max(self._action_max_length, length)

    def _split_lines(self, text: str, width: int) -> list[str]:
        return wrap(" ".join(text.split()), width, break_long_words=False, break_on_hyphens=False)

    def _format_action(self, action: argparse.Action) -> str:
        """Formats an option; values that do not fit the line become the first words of the help."""
        values = action.metavar if isinstance(action.metavar, str) else ""
        if not values.startswith("{") or len(self._format_action_invocation(action)) <= self._width - 2:
            return super()._format_action(action)
        shown = copy(action)
        shown.metavar = action.dest.upper()
        shown.help = f"one of {values[1:-1].replace(',', ', ')}: {action.help}"
        return super()._format_action(shown)


class RawHelpFormatter(HelpFormatter, argparse.RawDescriptionHelpFormatter):
    """The same, with the epilog as it is written."""


class PassHelpFormatter(HelpFormatter):
    """Formats help for `qmlir-opt`, whose flags are long; in a file, lines are as wide as the passes' lines."""

    def __init__(self, prog: str):
        super().__init__(prog, max_help_position=34, width=help_width())


class ArgumentParser(argparse.ArgumentParser):
    """An argparse parser that does not exit: a wrong command line raises `OptionError`.

    Its help may show options in sections: `with parser.section("processor"): add_code_options(parser)`.
    """

    _section: Any = None

    def __init__(self, *given: Any, **settings: Any) -> None:
        self._sections: dict[str, list[argparse.Action]] = {}
        super().__init__(*given, **{"formatter_class": HelpFormatter, **settings})

    @contextmanager
    def section(self, title: str) -> Generator[None]:
        """Shows the arguments that the block adds under a title of their own in the help."""
        self._section = self.add_argument_group(title)
        before = len(self._actions)
        try:
            yield
            self._sections[title] = self._actions[before:]
        finally:
            self._section = None

    def add_argument(self, *names: Any, **settings: Any) -> argparse.Action:
        container = super() if self._section is None else self._section
        return container.add_argument(*names, **settings)

    def add_options(self, *names: str, required: str = "", **words: str) -> None:
        """Adds options that commands share, which settings/fields.py declares.

        Args:
            names: Keys of `OPTIONS`.
            required: The option that the command needs, if any.
            words: The command's own words for the help texts.
        """
        for name in names:
            option, dest = OPTIONS[name], "runtime" if name == "for" else name.replace("-", "_")
            help = option.help
            for word, text in words.items():
                help = help.replace(f"{{{word}}}", text)
            flags = ("-o", "--output") if name == "output" else (f"--{name}",)
            self.add_argument(*flags, dest=dest, help=help, **_settings_of(option), required=name == required)

    def error(self, message: str) -> NoReturn:
        raise OptionError("command line", message.removeprefix("argument "))

    def require_nothing(self) -> None:
        """Makes every option optional, for a command line that only prints the options."""
        for action in self._actions:
            if action.option_strings:
                action.required = False
        for group in self._mutually_exclusive_groups:
            group.required = False

    def long_flags(self) -> list[str]:
        """The names of all flags, without dashes."""
        return [s[2:] for action in self._actions for s in action.option_strings if s.startswith("--")]

    def all_actions(self) -> list[argparse.Action]:
        """The declared arguments and options."""
        return list(self._actions)

    def sections(self) -> dict[str, list[argparse.Action]]:
        """The declared arguments and options by the title above them in the help."""
        titled = {id(action) for actions in self._sections.values() for action in actions}
        others = [action for action in self._actions if id(action) not in titled]
        arguments = [action for action in others if not action.option_strings]
        options = [action for action in others if action.option_strings]
        return {"argument": arguments, "option": options, **self._sections}

    def positionals(self) -> list[argparse.Action]:
        """The declared arguments without a flag, in order."""
        return [action for action in self._actions if not action.option_strings]


def one_of(values: Sequence[str]) -> dict[str, Any]:
    """Returns argparse's settings for an option with these values, the first by default; errors propose values.

    A value such as `percentile-N` stands for all numbers behind the name.
    """

    def value(text: str) -> str:
        name, number = without_number(text)
        if text not in values and (number is None or with_number(name) not in values):
            remedy = near_misses(text, values) or f"known: {', '.join(values)}"
            raise argparse.ArgumentTypeError(f"must be one of its values, got {text}; {remedy}")
        return text

    return {"type": value, "default": values[0], "metavar": "{" + ",".join(values) + "}"}


def choice(values: Sequence[str]) -> dict[str, Any]:
    """Returns the settings of `one_of`, but with None if the option is not given."""
    return one_of(values) | {"default": None}


def _settings_of(option: Option) -> dict[str, Any]:
    """Returns argparse's settings for an option that commands share."""
    match option.kind:
        case "flag":
            return {"action": "store_true"}
        case "switch":
            return {"action": argparse.BooleanOptionalAction, "default": None}
        case "choice":
            return choice(option.values)
        case "changes by name":
            return {"action": "append", "metavar": option.metavar}
        case "path" if option.values:
            return {"type": file_of(*option.values), "metavar": option.metavar}
        case "numbers by name" | "texts by name" | "paths by name":
            return {"action": "append", "default": [], "type": partial(_pair, option), "metavar": option.metavar}
        case _:
            kinds = {"path": Path, "names": names_of, "count": count, "integer": int, "size": size}
            return {"type": kinds.get(option.kind), "default": option.default, "metavar": option.metavar}


def _pair(option: Option, text: str) -> tuple[str, Any]:
    """Converts text such as data=1x3x8x8 to a name and a value."""
    name, _, value = text.partition("=")
    numbers = option.kind == "numbers by name"
    if not name or not value or (numbers and (not value.isdecimal() or int(value) < 1)):
        more = " with a positive number" if numbers else ""
        raise argparse.ArgumentTypeError(f"must be {option.metavar}{more}, got {text}")
    return name, int(value) if numbers else Path(value) if option.kind == "paths by name" else value


def file_of(*suffixes: str) -> Callable[[str], Path]:
    """Returns an argparse type that accepts file names with one of these suffixes."""

    def path(text: str) -> Path:
        if Path(text).suffix not in suffixes:
            raise argparse.ArgumentTypeError(f"must be a file name that ends in {' or '.join(suffixes)}, got {text}")
        return Path(text)

    return path


def count(text: str) -> int:
    """Converts text to a positive number, as an argparse type."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"must be a positive number, got {text}")
    return int(text)


def size(text: str) -> int:
    """Converts a size such as 512MiB, 2GiB or a number of bytes to bytes, as an argparse type."""
    if (found := bytes_of(text)) is None:
        raise argparse.ArgumentTypeError(f"must be bytes, or a size such as 512MiB or 2GiB, got {text}")
    return found


def _truth(text: str) -> bool:
    if text not in ("true", "false"):
        raise argparse.ArgumentTypeError(f"must be true or false, got {text}")
    return text == "true"


def version_text() -> str:
    """Returns what `--version` prints: versions, and the plugins of installed packages, which are not imported."""
    from importlib.metadata import version

    from qmlir.plugins import plugin_lines

    plugins = "".join(f"  {line}\n" for line in plugin_lines())
    return f"qmlir {version('qmlir')} (xDSL {version('xdsl')})\n" + (f"plugins:\n{plugins}" if plugins else "")


def argument_parser() -> ArgumentParser:
    """Returns the parser of all flags that are not passes."""
    parser = ArgumentParser(
        prog="qmlir-opt",
        usage="qmlir-opt [--PASS[=OPTIONS] …] [FLAGS] [FILE]",
        description="Run passes over MLIR text (or a model file) and print the result. Passes run in the order given.",
        formatter_class=PassHelpFormatter,
        add_help=False,
        allow_abbrev=False,
    )
    files = "a .mlir, .onnx, .tflite, .gguf or Caffe2 file; - or none: stdin"
    parser.add_argument("input", nargs="?", default="-", metavar="FILE", help=files)
    switches = parser.add_argument_group("flags")

    def switch(name: str, help: str) -> None:
        switches.add_argument(name, action="store_true", help=help)

    switches.add_argument(f"--{PIPELINE_FLAG}", metavar="TEXT", help="passes in order: 'builtin.module(a{x=1 y=2},b)'")
    switches.add_argument("-o", dest="output", metavar="FILE", default="-", help="write here instead of stdout")
    init = "the init net of a Caffe2 net (--weights of qmlir)"
    switches.add_argument("--init-net", metavar="FILE", help=init)
    shape = "shape of an input of a Caffe2 net: data=1x3x224x224, indices=8xi64"
    switches.add_argument("--shape", **_settings_of(OPTIONS["shape"]), help=shape)
    for ends in ("inputs", "outputs"):
        help = f"tensors of a model file that become the network's {ends}"
        switches.add_argument(f"--{ends}", type=names_of, metavar="NAME,…", help=help)
    switch("--split-input-file", "treat the pieces between lines `// -----` as files of their own")
    switch("--verify-diagnostics", "check errors against the file's expected-error comments instead of printing them")
    switches.add_argument(
        "--verify-each", type=_truth, default=True, metavar="BOOL", help="verify after each pass (default: true)"
    )
    for when in ("before", "after"):
        switches.add_argument(
            f"--mlir-print-ir-{when}",
            action="append",
            default=[],
            metavar="PASS",
            help=f"print the IR to stderr {when} a pass",
        )
        switch(f"--mlir-print-ir-{when}-all", f"print the IR to stderr {when} each pass")
    switch("--mlir-print-ir-after-change", "print the IR to stderr after each pass that changed it")
    switch("--mlir-print-ir-diff", "print to stderr the lines that each pass changed")
    switch("--mlir-timing", "print to stderr where the time went")
    switch("--mlir-print-op-generic", "print operations in the generic form")
    switch("--mlir-print-debuginfo", "print the location of each operation")
    switch("--print-upstream", "print as mlir-opt does: aliases of affine maps, %%0:2 = call, return")
    switches.add_argument(
        "--weights",
        choices=("file", "inline", "resource", "elide"),  # the values of WeightsMode
        default="file",
        help="where weights of more than 64 elements go: to a .safetensors file beside the output (the default), into "
        "the text as hexadecimal digits, behind it as resources (dense_resource), or nowhere",
    )
    for mode in ("inline", "elide"):
        help = f"short for --weights={mode}"
        switches.add_argument(f"--{mode}-weights", dest="weights", action="store_const", const=mode, help=help)
    switch("--allow-unregistered-dialect", "accept operations nobody registered, in the generic form")
    switch("--list-passes", "list the passes with their options and stop")
    switch("--debug", "show the traceback of a bug (also: QMLIR_DEBUG=1)")
    switch("--version", "print versions and stop")
    switch("--help", "print this and stop")
    switches.add_argument("-h", dest="help", action="store_true", help=argparse.SUPPRESS)
    return parser
