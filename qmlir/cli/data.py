"""The options that name a command's samples, and the samples they select."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from qmlir.cli.flags import ArgumentParser, count

if TYPE_CHECKING:
    from qmlir.cli.samples import Samples
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
        help=f"{what}: .npy, .npz, FILE.npz:ARRAY, raw .bin, a picture, or a folder of one kind of these",
    )
    parser.add_argument("--samples", type=count, help="use at most this many samples (default: all)")
    parser.add_argument("--dtype", help="the type that raw files store, such as uint8 (default: the input's)")
    parser.add_argument(
        "--preprocess",
        metavar="OPTIONS",
        help='how pixels become numbers: "resize=256 scale=0.00392157 mean=0.485,0.456,0.406 std=0.229,0.224,0.225 '
        'filter=bilinear order=rgb layout=auto"; (x * scale - mean) / std after a crop of the centre',
    )


def samples_of(arguments: argparse.Namespace, signature: "Signature") -> "Samples":
    """Returns the samples that the options select, as inputs of a network.

    Raises:
        OptionError: A dtype or an option of the preprocessing is unknown.
        FileError, InputError: See `Samples`.
    """
    import numpy as np

    from qmlir.cli.options import build_options, parse_options
    from qmlir.cli.samples import Preprocessing, Reading, Samples
    from qmlir.errors import OptionError

    preprocessing = None
    if arguments.preprocess is not None:
        preprocessing = build_options(parse_options("preprocess", arguments.preprocess), Preprocessing)
    dtype = None
    if arguments.dtype is not None:
        try:
            dtype = np.dtype(arguments.dtype)
        except TypeError:
            raise OptionError("--dtype", "must be a numpy type, such as uint8", got=arguments.dtype) from None
        if dtype.hasobject:
            raise OptionError("--dtype", "must be a type of numbers", got=arguments.dtype)
    return Samples(arguments.data, signature, arguments.samples, Reading(dtype, preprocessing))
