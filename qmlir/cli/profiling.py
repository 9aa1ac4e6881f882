"""`qmlir profile` and `qmlir profile merge`: learn the ranges of tensors from data, and merge profiles."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from qmlir.cli.data import add_data_options, samples_of
from qmlir.cli.flags import ArgumentParser, count, one_of
from qmlir.cli.models import load_known
from qmlir.cli.progress import progress
from qmlir.cli.terminal import say

if TYPE_CHECKING:
    from qmlir.profiles.profile import Profile

FORMATS = ("qmlir", "glow")


def add_profile_options(parser: ArgumentParser) -> None:
    """Adds the options of `qmlir profile`."""
    add_data_options(parser, "calibration samples")
    parser.add_argument("--bins", type=count, default=2000, help="the most bins of a histogram (default: 2000)")
    parser.add_argument(
        "--per-channel", action="store_true", help="learn the same of each channel, along the last axis"
    )
    _add_output(parser)


def add_merge_options(parser: ArgumentParser) -> None:
    """Adds the options of `qmlir profile merge`."""
    parser.add_argument("profiles", type=Path, nargs="+", metavar="PROFILE", help="profiles of parts of the data")
    _add_output(parser)


def _add_output(parser: ArgumentParser) -> None:
    parser.add_argument("--format", **one_of(FORMATS), help="whose format to write (default: qmlir)")
    parser.add_argument("-o", "--output", type=Path, required=True, help="the .yaml file to write")


def run_profile(arguments: argparse.Namespace) -> None:
    """Learns the ranges of a network's tensors from samples."""
    from qmlir.compiler import main_function, profile
    from qmlir.ir.signature import signature_of

    module = load_known(arguments)
    samples = samples_of(arguments, signature_of(main_function(module)))
    taken = progress(samples, len(samples), "profiling")
    found = profile(module, taken, bins=arguments.bins, per_channel=arguments.per_channel)
    _write(found, arguments)


def run_merge(arguments: argparse.Namespace) -> None:
    """Merges profiles of parts of the data; in any order, the file equals that of one run over all data."""
    from qmlir.errors import FileError, ProfileError
    from qmlir.profiles.profile import Profile

    first, *rest = arguments.profiles
    merged = Profile.load(first)
    for path in rest:
        other = Profile.load(path)
        try:
            merged.merge(other)
        except ProfileError as error:
            raise FileError(path, error.need, got=error.got, remedy=error.remedy) from None
    _write(merged, arguments)


def _write(found: "Profile", arguments: argparse.Namespace) -> None:
    if arguments.format == "glow":
        from qmlir.profiles.glow import save_glow

        save_glow(found, arguments.output)
    else:
        found.save(arguments.output)
    say(f"{arguments.output}: {len(found.tensors)} tensors over {found.samples} samples")
    for name, tensor in found.dead().items():
        if tensor.is_dead:
            say(f'  "{name}" never changes: all of it is {tensor.lo:g}')
        else:
            dead = tensor.dead_channels()
            shown = ", ".join(map(str, dead[:8])) + (", …" if len(dead) > 8 else "")
            say(f'  "{name}" has channels that never change: {len(dead)} of them ({shown})')
