"""`qmlir profile diff`: how far the tensors of one profile have moved from those of another."""

import argparse
from pathlib import Path

from qmlir.cli.documents import add_json_option, write_document
from qmlir.cli.flags import ArgumentParser
from qmlir.cli.terminal import is_verbose, say, table_of, terminal
from qmlir.display import counted

SHOWN = 20
"""The most tensors that are printed unless the user asks for details: those that moved farthest."""


def add_profile_diff_options(parser: ArgumentParser) -> None:
    """Adds the options of `qmlir profile diff`."""
    parser.add_argument("before", type=Path, help="a profile, such as that which a network was quantized with")
    parser.add_argument("after", type=Path, help="another one of the same network, such as one of newer data")
    add_json_option(parser)


def run_profile_diff(arguments: argparse.Namespace) -> None:
    """Prints a row for each tensor, those that moved farthest first."""
    from qmlir.profiles.drift import HEADINGS, profile_drift, row_of
    from qmlir.profiles.profile import Profile

    before, after = Profile.load(arguments.before), Profile.load(arguments.after)
    found = profile_drift(before, after)
    shown = found.tensors[: None if is_verbose() else SHOWN]
    if shown:
        terminal().print(table_of(HEADINGS, map(row_of, shown), HEADINGS[1:], names=HEADINGS[:1]))
    if len(found.tensors) > len(shown):
        say(f"and {len(found.tensors) - len(shown)} more tensors, which moved less and which --verbose shows")
    for what, names in (("no longer there", found.gone), ("new", found.new)):
        for name in names if is_verbose() else names[:SHOWN]:
            say(f'{what}: "{name}"')
    say(
        f"{counted(len(found.tensors), 'tensor')} compared, over {counted(before.samples, 'sample')} before and "
        f"{after.samples} after; {len(found.gone)} no longer there, {len(found.new)} new"
    )
    fields = {"before": str(arguments.before), "after": str(arguments.after)}
    counts = {"samples_before": before.samples, "samples": after.samples}
    write_document(arguments, "profile diff", {**fields, **counts, **found.as_dict()})
