"""The list of passes for `--help` and `--list-passes`: what each does, and each option's type, default and meaning."""

import textwrap

from xdsl.transforms import get_all_passes

from qmlir.cli.options import option_infos, summary
from qmlir.compiler import PASSES, pass_class

_WIDTH = 118


def pass_list() -> str:
    """All passes as text: ours with their options, then the names of xDSL's."""
    entries = "".join(_entry(name) for name in sorted(PASSES))
    others = ", ".join(sorted(set(get_all_passes()) - set(PASSES)))
    others = textwrap.fill(others, _WIDTH, initial_indent="  ", subsequent_indent="  ", break_on_hyphens=False)
    return f"passes:\n{entries}\npasses of xDSL, usable alike:\n{others}\n"


def _entry(name: str) -> str:
    pass_type = pass_class(name)
    text = textwrap.fill(summary(pass_type), _WIDTH, initial_indent=" " * 6, subsequent_indent=" " * 6)
    lines = [f"  --{name}", *([text] if text.strip() else [])]
    for option in option_infos(pass_type):
        default = "required" if option.default is None else f"default: {option.default}"
        head = f"      {option.name}=<{option.type}> ({default})"
        lines += [head, *([textwrap.indent(textwrap.fill(option.help, _WIDTH - 10), " " * 10)] if option.help else [])]
    return "\n".join(lines) + "\n"
