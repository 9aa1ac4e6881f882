"""What can be refused by the command line alone, or by the signature of its network, before a command works."""

import argparse
import warnings
from pathlib import Path
from typing import TYPE_CHECKING

from qmlir.running.files import require_folder

if TYPE_CHECKING:
    from qmlir.ir.signature import Signature

WRITTEN = ("output", "save_profile", "tensors", "trace", "json", "csv", "plot", "front")
"""Names among the parsed arguments of files that commands write."""


def refuse_early(arguments: argparse.Namespace) -> None:
    """Refuses what no network could change: folders, devices, processors, samples and scores that are not there.

    Raises:
        QmlirError: The error is the same that the command would meet later.
    """
    _require_folders(arguments)
    if isinstance(target := getattr(arguments, "target", None), str):
        from qmlir.devices import load_device

        load_device(target)
    processor = [getattr(arguments, name, None) for name in ("cpu", "features", "triple")]
    if any(each is not None for each in processor) and target is None:
        from qmlir.backends.cpu.llvm import Machine, require_here

        machine = Machine.of(*processor)
        if arguments.subcommand in ("run", "bench"):
            require_here(machine)
    if hasattr(arguments, "label_offset") and hasattr(arguments, "metric"):
        from qmlir.cli.scoring import metric_of, wants_score

        wants_score(arguments)
        if arguments.metric is not None:
            metric_of(arguments.metric)
    if hasattr(arguments, "data_free"):
        from qmlir.cli.quantizing import is_data_free

        is_data_free(arguments)
    if getattr(arguments, "dtype", None) or getattr(arguments, "preprocess", None):
        from qmlir.cli.data import given_notes
        from qmlir.samples.reading import reading_of

        reading_of(given_notes(arguments))
    for name in ("data", "test_data"):
        if isinstance(path := getattr(arguments, name, None), Path):
            _require_samples(path)


def _require_folders(arguments: argparse.Namespace) -> None:
    """Checks that the folders of the files that a command writes exist."""
    written = [*WRITTEN, *(["ledger"] if arguments.subcommand == "quantize" else [])]  # other commands read a ledger
    for name in written:
        if isinstance(path := getattr(arguments, name, None), Path):
            require_folder(path)


def _require_samples(path: Path) -> None:
    """Checks that there are files of samples, and reads the headers of a file of arrays."""
    from qmlir.samples.arrays import ARRAYS, array_headers
    from qmlir.samples.files import files_of

    if path.suffix.partition(":")[0] in ARRAYS and not path.is_dir():
        array_headers(path)
    else:
        files_of(path)


def signature_before(arguments: argparse.Namespace) -> "Signature":
    """Returns the signature of a command's model, which the command reads again for its work; warnings come then."""
    from qmlir.cli.models import load_known
    from qmlir.compiler import main_function
    from qmlir.ir.signature import signature_of

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return signature_of(main_function(load_known(arguments)))
