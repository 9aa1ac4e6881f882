"""Documents in JSON, which `--json` prints or writes: an envelope that names format and kind, and a command's fields.

    {"format": "qmlir-1", "document": "bench", "qmlir": "0.1.0", …fields of this kind…}

The kind is the command. `schema.json` beside this module describes the fields of each kind, and `docs/json.md` is made
from it. The number in the format grows when a field changes its meaning or goes; new fields may come without that.
Figures that are infinite or undefined are null, since JSON has no other number for them.
"""

import argparse
import json
import math
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from qmlir.cli.flags import file_of
from qmlir.cli.terminal import say
from qmlir.frontends import IMPORTED
from qmlir.running.files import write_whole

if TYPE_CHECKING:
    from qmlir.analysis.counts import Decided
    from qmlir.backends.npu.report import Report
    from qmlir.devices import Device
    from qmlir.ir.signature import Signature, TensorSpec

FORMAT = "qmlir-1"
"""The format of all documents, with its version."""

STANDARD_OUTPUT = Path("-")
"""The value of `--json` without a file."""


def schema() -> dict[str, Any]:
    """Returns the JSON Schema of all documents."""
    from importlib.resources import files

    return json.loads((files("qmlir.cli") / "schema.json").read_text(encoding="utf-8"))


def add_json_option(parser: argparse.ArgumentParser) -> None:
    """Adds `--json`, with a file or without; without one the document goes to standard output and replaces the text."""
    parser.add_argument(
        "--json",
        type=_target,
        nargs="?",
        const=STANDARD_OUTPUT,
        metavar="FILE",
        help="write the result as JSON to this .json file, or print it instead of text (docs/json.md)",
    )


def _target(text: str) -> Path:
    return STANDARD_OUTPUT if text == "-" else file_of(".json")(text)


INPUTS = (".mlir", *IMPORTED, ".npu", ".toml", ".yaml")
"""Suffixes of files that commands read."""


def with_targets(argv: Sequence[str]) -> list[str]:
    """Returns the arguments with `--json -` for a `--json` in front of a flag, or of a model or a device to read.

    Otherwise argparse would take the model in `qmlir bench --json net.mlir` for the document's file.
    """
    following = [*argv[1:], ""]
    return [
        word
        for argument, after in zip(argv, following, strict=True)
        for word in ((argument, "-") if argument == "--json" and not _is_target(after) else (argument,))
    ]


def _is_target(text: str) -> bool:
    return text == "-" or (not text.startswith("-") and Path(text).suffix not in ("", *INPUTS))


def prints_document(arguments: argparse.Namespace) -> bool:
    """Whether standard output is for a document, so that a command prints no text."""
    return getattr(arguments, "json", None) == STANDARD_OUTPUT


def write_document(arguments: argparse.Namespace, kind: str, fields: Mapping[str, Any]) -> None:
    """Writes a document where `--json` says, if it was given.

    Args:
        arguments: The command line, with the option of `add_json_option`.
        kind: The kind of the document, a command's name.
        fields: Strings, numbers, booleans, None, and lists and dicts of these.
    """
    if (path := arguments.json) is None:
        return
    text = document(kind, fields)
    if path == STANDARD_OUTPUT:
        sys.stdout.write(text)
    else:
        write_whole(path, text)
        say(f"{path}: written")


def document(kind: str, fields: Mapping[str, Any]) -> str:
    """Returns the text of a document."""
    from importlib.metadata import version

    whole = {"format": FORMAT, "document": kind, "qmlir": version("qmlir"), **fields}
    return _LIST.sub(_on_one_line, json.dumps(_finite(whole), indent=2, allow_nan=False)) + "\n"


_LIST = re.compile(r"\[\n\s*([^\[\]{}\"]+?)\n\s*\]")
"""A list of numbers with each on a line of its own; no string holds a line break, so none is mistaken for a list."""


def _on_one_line(match: re.Match[str]) -> str:
    return f"[{' '.join(match[1].split())}]"


def _finite(value: Any) -> Any:
    """Returns a copy in which null stands for infinite and undefined figures."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(key): _finite(each) for key, each in cast(Mapping[Any, Any], value).items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_finite(each) for each in cast(Sequence[Any], value)]
    return value


# ---------------------------------------------------------------------------------------------------------------
# Fields that several kinds of documents have.


def signature_fields(signature: "Signature") -> dict[str, Any]:
    """Returns the fields `inputs` and `outputs` of a network."""
    return {"inputs": _specs(signature.inputs), "outputs": _specs(signature.outputs)}


def _specs(specs: "Sequence[TensorSpec]") -> list[dict[str, Any]]:
    return [{"name": spec.name, "shape": spec.shape, "type": spec.dtype.name} for spec in specs]


def ledger_fields(network: "Sequence[Decided]") -> dict[str, Any]:
    """Returns the fields `totals`, `kinds` and `decisions`."""
    from qmlir.analysis.counts import kinds, totals

    decisions = [each.as_dict() for each in network]
    return {"totals": totals(network), "kinds": [each.as_dict() for each in kinds(network)], "decisions": decisions}


def cost_fields(report: "Report", device: "Device") -> dict[str, Any]:
    """Returns the cost of a run on a device, the field `cost`."""
    return {
        "device": device.name,
        "cycles": report.cycles,
        "seconds": report.cycles / (device.clock * 1e6),
        "macs": report.products,
        "peak_macs_per_cycle": report.peak,
        "utilization": report.utilization,
        "layers": [
            {
                "name": layer.name,
                "cycles": layer.cycles,
                "bound": layer.bound,
                "bound_by": layer.bound_by,
                "macs": layer.products,
                "read_bytes": dict(layer.read),
                "written_bytes": dict(layer.written),
            }
            for layer in report.layers
        ],
    }
