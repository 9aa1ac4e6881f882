"""The options that name a command's samples, and the samples they select."""

import argparse
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from qmlir.cli.flags import ArgumentParser, count
from qmlir.cli.terminal import say

if TYPE_CHECKING:
    import numpy as np
    from xdsl.dialects.builtin import ModuleOp

    from qmlir.arguments import Network
    from qmlir.cli.samples import Preprocessing, Samples
    from qmlir.ir.reading import ReadingNotes
    from qmlir.ir.signature import Signature


def add_data_options(parser: ArgumentParser, what: str, *, required: bool = True) -> None:
    """Adds `--data` and the options that belong to it.

    Args:
        parser: The parser of a command.
        what: The purpose of the samples, for the help text.
        required: Whether the command needs samples.
    """
    parser.add_argument(
        "--data",
        type=Path,
        required=required,
        help=f"{what}: .npy, .npz, FILE.npz:ARRAY, raw .bin, a picture, or a folder of one kind of these, or a "
        "folder of such folders",
    )
    parser.add_argument("--samples", type=count, help="use at most this many samples (default: all)")
    parser.add_argument(
        "--dtype",
        help="the type that raw files store, such as uint8 (default: what the profile or "
        "the quantized model keeps, or the input's type)",
    )
    parser.add_argument(
        "--preprocess",
        metavar="OPTIONS",
        help='how pixels become numbers: "resize=256 scale=0.00392157 mean=0.485,0.456,0.406 std=0.229,0.224,0.225 '
        'filter=bilinear order=rgb layout=auto"; (x * scale - mean) / std after a crop of the centre; by default what '
        "the profile or the quantized model keeps",
    )


Stored: TypeAlias = Callable[[], "tuple[ReadingNotes, Path]"]
"""Returns how samples were read before, and the file that says so; called only if the command line does not say."""


def stored_in(*paths: Path) -> Stored:
    """Returns what the first of some models that says so says about reading samples; only .mlir files do."""

    def look() -> "tuple[ReadingNotes, Path]":
        from qmlir.compiler import load

        return _stored((load(path), path) for path in paths if path.suffix == ".mlir")

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
    from qmlir.ir.reading import ReadingNotes

    found = ((reading_notes(module), path) for module, path in models)
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
    from qmlir.cli.samples import PICTURES, RAW, Reading, Samples, files_of
    from qmlir.errors import FileError, OptionError

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
        reading = Reading(_dtype(notes.dtype), _preprocessing(notes.preprocess))
    except OptionError as error:
        if source is None:
            raise
        raise FileError(source, "must say how samples are read in words of --preprocess", got=str(error)) from None
    if source is not None:
        say(f"--{needed} {getattr(notes, needed)!r}, as in {source}")
    return Samples(path, signature, None, reading)


def read_samples(
    path: str | Path, network: "Network", *, preprocess: str | None = None, dtype: str | None = None
) -> "Samples":
    """Returns the samples in a file or a folder, as inputs of a network, for functions that take samples.

    Args:
        path: Pictures, .npy, .npz or raw files, as `qmlir --data` reads them.
        network: The network, or its path.
        preprocess: How pictures become inputs, as for `qmlir --preprocess`; by default what the network keeps.
        dtype: The element type that raw files store; by default what the network keeps, or the input's type.

    Raises:
        OptionError: An option is unknown, or has an unusable value.
        FileError, InputError: See `Samples`.

    >>> import qmlir
    >>> read = qmlir.read_samples("digits.npz:calibration_images", "digits.onnx")
    >>> next(iter(read))["image"].shape
    (1, 1, 8, 8)
    """
    from qmlir.cli.samples import Reading, Samples
    from qmlir.compiler import loaded, main_function
    from qmlir.dialects.inputs import reading_notes
    from qmlir.files import path_of
    from qmlir.ir.reading import ReadingNotes
    from qmlir.ir.signature import signature_of

    module = loaded(network)
    notes = ReadingNotes(preprocess or "", dtype or "").over(reading_notes(module))
    reading = Reading(_dtype(notes.dtype), _preprocessing(notes.preprocess))
    samples = Samples(path_of(path), signature_of(main_function(module)), None, reading)
    samples.notes = notes
    return samples


def _preprocessing(text: str) -> "Preprocessing | None":
    from qmlir.cli.options import build_options, parse_options
    from qmlir.cli.samples import Preprocessing

    return build_options(parse_options("preprocess", text), Preprocessing) if text else None


def _dtype(text: str) -> "np.dtype[Any] | None":
    import numpy as np

    from qmlir.errors import OptionError

    if not text:
        return None
    try:
        dtype = np.dtype(text)
    except TypeError:
        raise OptionError("--dtype", "must be a numpy type, such as uint8", got=text) from None
    if dtype.hasobject:
        raise OptionError("--dtype", "must be a type of numbers", got=text)
    return dtype
