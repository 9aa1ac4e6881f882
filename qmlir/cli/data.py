"""The samples that a command's options select."""

import argparse
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from qmlir.cli.documents import add_json_option
from qmlir.cli.flags import ArgumentParser, count
from qmlir.cli.terminal import say
from qmlir.settings.fields import SAMPLES

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp

    from qmlir.ir.reading import ReadingNotes
    from qmlir.ir.signature import Signature
    from qmlir.samples.files import Samples


Stored: TypeAlias = Callable[[], "tuple[ReadingNotes, Path]"]
"""Returns how samples were read before, and the file that says so; called only if the command line does not say."""


def stored_in(*paths: Path) -> Stored:
    """Returns what the file of the first of some models that says so says about reading samples."""

    def look() -> "tuple[ReadingNotes, Path]":
        return _first((_notes_of(path), path) for path in paths)

    return look


def stored_by(*models: "tuple[ModuleOp, Path]", profile: Path | None = None) -> Stored:
    """Returns what a profile says about reading samples, else what the first of some models says that says so.

    Args:
        *models: Models that are loaded already, and their files.
        profile: The file of a profile, if there is one.
    """

    def look() -> "tuple[ReadingNotes, Path]":
        from qmlir.profiles.profile import Profile

        if profile is not None and (notes := Profile.load(profile).notes):
            return notes, profile
        return _stored(models)

    return look


def _stored(models: "Iterable[tuple[ModuleOp, Path]]") -> "tuple[ReadingNotes, Path]":
    from qmlir.dialects.inputs import reading_notes

    return _first((reading_notes(module), path) for module, path in models)


def _notes_of(path: Path) -> "ReadingNotes":
    """Returns what a model's or a program's file says about reading samples."""
    from qmlir.cli.device import PROGRAM_SUFFIX
    from qmlir.frontends import reading_notes_of
    from qmlir.ir.reading import ReadingNotes

    if path.suffix == PROGRAM_SUFFIX:
        from qmlir.backends.npu.stream import Program

        return ReadingNotes.from_keys(Program.load(path).notes)
    return reading_notes_of(path)


def _first(found: "Iterable[tuple[ReadingNotes, Path]]") -> "tuple[ReadingNotes, Path]":
    from qmlir.ir.reading import ReadingNotes

    return next(((notes, path) for notes, path in found if notes), (ReadingNotes(), Path()))


def given_notes(arguments: argparse.Namespace) -> "ReadingNotes":
    """Returns what the command line says about reading samples."""
    from qmlir.ir.reading import ReadingNotes

    return ReadingNotes(arguments.preprocess or "", arguments.dtype or "")


def samples_of(arguments: argparse.Namespace, signature: "Signature", stored: Stored | None = None) -> "Samples":
    """Returns the samples that the options select, as inputs of a network.

    Args:
        arguments: The command line.
        signature: The network's signature.
        stored: How samples were read before; the command line overrides it, and a line says where it was found.

    Raises:
        OptionError: A dtype or an option of the preprocessing is unknown.
        FileError, InputError: See `Samples`.
    """
    return samples_at(arguments.data, arguments, signature, stored).first(arguments.samples)


def samples_at(
    path: Path, arguments: argparse.Namespace, signature: "Signature", stored: Stored | None = None
) -> "Samples":
    """Returns all samples of a path; see `samples_of`."""
    from qmlir.errors import FileError, OptionError
    from qmlir.samples.files import RAW, Samples, files_of
    from qmlir.samples.pictures import PICTURES
    from qmlir.samples.reading import reading_of

    notes = given_notes(arguments)
    suffix = next(iter(files_of(path))).suffix.lower()
    needed = {**dict.fromkeys(PICTURES, "preprocess"), **dict.fromkeys(RAW, "dtype")}.get(suffix, "")
    source = None
    if needed and not getattr(notes, needed) and stored is not None:
        found, source = stored()
        notes = notes.over(found)
        if not getattr(found, needed):
            source = None
    try:
        reading = reading_of(notes)
    except OptionError as error:
        if source is None:
            raise
        raise FileError(source, "must say how samples are read in words of --preprocess", got=str(error)) from None
    if source is not None:
        say(f"--{needed} {getattr(notes, needed)!r}, as in {source}")
    return Samples(path, signature, None, reading)


def samples_for(
    arguments: argparse.Namespace, models: "Sequence[ModuleOp]", paths: Sequence[Path], profile: Path | None = None
) -> "Samples":
    """Returns the samples that the options name, as inputs of the first of some models, read as `stored_by` says."""
    from qmlir.ir.signature import main_function, signature_of

    stored = stored_by(*zip(models, paths, strict=True), profile=profile)
    return samples_of(arguments, signature_of(main_function(models[0])), stored)


def add_comparison_options(parser: ArgumentParser, *, fails: str) -> None:
    """Adds the options of a command that compares tensors; `fails` says what exits with status 1 by `--fail`."""
    with parser.section("samples"):
        parser.add_options(*SAMPLES, what="inputs to compare on", required="data")
    parser.add_argument("--most", type=count, default=10, help="show at most this many tensors (default: 10)")
    parser.add_argument("--fail", action="store_true", help=f"exit with status 1 if a tensor {fails}")
    add_json_option(parser)
