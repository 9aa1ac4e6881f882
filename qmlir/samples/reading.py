"""Samples in the form in which functions take them, read as the notes of a network or of a user say."""

from collections.abc import Iterable, Mapping
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from xdsl.dialects import func

from qmlir.errors import OptionError
from qmlir.ir.option_parsing import build_options, parse_options
from qmlir.ir.reading import ReadingNotes
from qmlir.ir.signature import Signature, signature_of
from qmlir.numerics import Array
from qmlir.samples.files import Reading, Samples
from qmlir.samples.pictures import Preprocessing


def samples_as_noted(path: Path, function: func.FuncOp, notes: ReadingNotes) -> Samples:
    """Returns the samples in a file or a folder, as inputs of a network's function; they keep the notes.

    Raises:
        OptionError: A note is unknown, or has an unusable value.
        FileError, InputError: See `Samples`.
    """
    samples = Samples(path, signature_of(function), None, reading_of(notes))
    samples.notes = notes
    return samples


def in_sequences(samples: Iterable[Mapping[str, Array]], length: int | None, signature: Signature) -> Iterable[Any]:
    """Returns samples in sequences, before each of which the states of a network are reset.

    Args:
        samples: The samples, in order.
        length: The number of samples in a sequence; None for all of them.
        signature: The network's signature.

    Raises:
        OptionError: A length is given, and the network has no states.
    """
    if length is None:
        return samples
    if not signature.states:
        raise OptionError(
            "sequence", "is for networks with states", got=str(length), remedy="leave it out, or name states by --state"
        )
    rest = iter(samples)
    return iter(lambda: list(islice(rest, length)), [])


def reading_of(notes: ReadingNotes) -> Reading:
    """Returns how to read files, from the texts that profiles, modules and the command line have.

    Raises:
        OptionError: An option is unknown, or has an unusable value.
    """
    specified = parse_options("preprocess", notes.preprocess)
    return Reading(_dtype(notes.dtype), build_options(specified, Preprocessing) if notes.preprocess else None)


def _dtype(text: str) -> np.dtype[Any] | None:
    if not text:
        return None
    try:
        dtype = np.dtype(text)
    except TypeError:
        raise OptionError("--dtype", "must be a numpy type, such as uint8", got=text) from None
    if dtype.hasobject:
        raise OptionError("--dtype", "must be a type of numbers", got=text)
    return dtype
