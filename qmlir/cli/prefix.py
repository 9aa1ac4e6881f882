"""`--prefix-data`: samples behind which the states of a network begin."""

import argparse
from collections.abc import Mapping
from typing import TYPE_CHECKING

from qmlir.cli.data import samples_at
from qmlir.errors import OptionError, near_misses

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp


def check_prefix(arguments: argparse.Namespace, module: "ModuleOp", entries: "Mapping[str, ModuleOp]") -> None:
    """Checks the options of a prefix before anything is read.

    Raises:
        OptionError: `--prefix-entry` is without a prefix, or names none of the entries.
        QmlirError: There is a prefix, and the network has no states.
    """
    from qmlir.analysis.prefix import require_states
    from qmlir.ir.signature import main_function, signature_of

    reader: str | None = getattr(arguments, "prefix_entry", None)
    if arguments.prefix_data is None:
        if reader is not None:
            remedy = "add --prefix-data, or leave it out"
            raise OptionError("--prefix-entry", "names the entry that reads --prefix-data", got="none", remedy=remedy)
        return
    if reader is not None and reader not in entries:
        remedy = near_misses(reader, entries) or "name one of --entries, or leave it out"
        raise OptionError("--prefix-entry", "must name one of the entries", got=reader, remedy=remedy)
    require_states(signature_of(main_function(entries[reader] if reader else module)))


def behind_prefix(
    arguments: argparse.Namespace, module: "ModuleOp", entries: "Mapping[str, ModuleOp]"
) -> "tuple[ModuleOp, dict[str, ModuleOp]]":
    """Returns a network, and the entries of which it is the first, whose states begin behind `--prefix-data`.

    Raises:
        FileError, InputError: See `Samples`.
    """
    from qmlir.ir.signature import main_function, signature_of

    if arguments.prefix_data is None:
        return module, dict(entries)
    from qmlir.analysis.prefix import prefixed

    reader: str | None = getattr(arguments, "prefix_entry", None)
    read_by = entries[reader] if reader else module
    samples = samples_at(arguments.prefix_data, arguments, signature_of(main_function(read_by)))
    if not entries:
        return prefixed(module, samples), {}
    made = prefixed(entries, samples, entry=reader)
    return next(iter(made.values())), made
