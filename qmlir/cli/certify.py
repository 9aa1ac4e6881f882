"""`qmlir certify`: proves that a network computes on integers only, and checks such proofs."""

import argparse
from collections.abc import Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from qmlir.cli.documents import add_json_option, write_document
from qmlir.cli.flags import ArgumentParser, file_of
from qmlir.cli.models import add_loading_options, load_simplified
from qmlir.cli.terminal import say, table_of, terminal
from qmlir.errors import OptionError

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp

INTEGERS = ".integers.mlir"
"""The end of the name of the artefact, which is written beside a certificate."""


def add_certify_options(parser: ArgumentParser) -> None:
    """Adds the options of `qmlir certify`."""
    parser.add_argument(
        "model",
        type=Path,
        nargs="?",
        help="a quantized network, as an .mlir file or in a format that qmlir reads, or an object file (.o); with "
        "--check, the network of integers or the object, by default the one that the certificate names",
    )
    parser.add_argument("-o", "--output", type=file_of(".json"), help="the certificate to write, a .json file")
    parser.add_argument(
        "--check",
        type=file_of(".json"),
        metavar="FILE",
        help="check this certificate: derive everything that it states anew, by code of its own",
    )
    with parser.section("how to read the model"):
        add_loading_options(parser)
    add_json_option(parser)


def run_certify(arguments: argparse.Namespace) -> None:
    """Writes a certificate, or checks one.

    Raises:
        OptionError: Neither a model and an output nor a certificate to check was given.
        NodeError: The network computes on floats between its integers, or its integers may overflow.
        CheckError: The certificate does not hold.
    """
    if arguments.check is not None:
        _check(arguments)
        return
    for name, given in (("MODEL", arguments.model), ("--output", arguments.output)):
        if given is None:
            remedy = "give a network and -o FILE.json, or --check FILE.json"
            raise OptionError(name, "is needed to certify a network", remedy=remedy)
    _certify(arguments)


def _certify(arguments: argparse.Namespace) -> None:
    from qmlir.analysis.certify import certificate_of, certificate_of_object, code_of, file_hashes
    from qmlir.checker import counts_of
    from qmlir.files import write_whole

    model: Path = arguments.model
    if model.suffix == ".o":
        certificate = certificate_of_object(model)
        write_whole(arguments.output, _text(certificate))
        _report(arguments, certificate, {})
        return
    module = load_simplified(arguments)
    integers, certificate = certificate_of(module)
    certificate["code"] = code_of(integers)
    files = _artefact(arguments, module, integers)
    source = {"file": model.name, "sha256": sha256(model.read_bytes()).hexdigest()}
    certificate |= {"artefact": file_hashes(files), "source": source}
    write_whole(arguments.output, _text(certificate))
    _show(certificate)
    _report(arguments, certificate, {**counts_of(certificate), **_bounds(certificate)})


def _report(arguments: argparse.Namespace, certificate: Mapping[str, Any], counts: Mapping[str, Any]) -> None:
    """Prints what a certificate proves, and writes it as a document."""
    for code in certificate["code"]:
        say(_code_sentence(code))
    say(f"{arguments.output}: {certificate['verdict']}" + (f": {_sentence(counts)}" if counts else ""))
    fields = {"model": str(arguments.model), "certificate": str(arguments.output), "verdict": certificate["verdict"]}
    write_document(arguments, "certify", {**fields, **counts})


def _artefact(arguments: argparse.Namespace, module: "ModuleOp", integers: "ModuleOp") -> Sequence[Path]:
    """The files of the network of integers: those of the model if it is one, else files beside the certificate."""
    from qmlir.compiler import save

    model: Path = arguments.model
    if model.suffix == ".mlir" and integers.is_structurally_equivalent(module):
        if model.resolve().parent == arguments.output.resolve().parent:
            return [f for f in (model, model.with_suffix(".safetensors")) if f.exists()]
    return save(integers, arguments.output.with_name(arguments.output.stem + INTEGERS))


def _text(certificate: Mapping[str, Any]) -> str:
    """The text of a certificate, with an operation or a constant on each line."""
    import json

    def lines(value: Any) -> str:
        if not isinstance(value, list):
            return json.dumps(value)
        entries = [f"\n    {json.dumps(each)}" for each in cast("list[Any]", value)]
        return f"[{','.join(entries)}\n  ]" if entries else "[]"

    return "{\n" + ",\n".join(f'  "{key}": {lines(value)}' for key, value in certificate.items()) + "\n}\n"


def _check(arguments: argparse.Namespace) -> None:
    from qmlir.checker import check_certificate

    if arguments.output is not None:
        raise OptionError("--output", "is for a certificate to write", remedy="drop --check or --output")
    counts = check_certificate(arguments.check, arguments.model)
    fields = {"model": None if arguments.model is None else str(arguments.model)}
    fields |= {"certificate": str(arguments.check), "verdict": "integer-only", **counts}
    say(f"{arguments.check}: holds" + (f": {_sentence(counts)}" if counts else ""))
    write_document(arguments, "certify", fields)


# ---------------------------------------------------------------------------------------------------------------
# What is printed


def _bounds(certificate: Mapping[str, Any]) -> dict[str, Any]:
    """The least slack of all sums in bits, and the largest errors in steps of results of 8 or 16 bits."""
    operations: list[Mapping[str, Any]] = certificate["operations"]
    slacks = [each["accumulators"]["slack"] for each in operations if "accumulators" in each]
    errors = {
        f"{kind}_error": max(
            (
                each[kind]["error"]
                for each in operations
                if kind in each and each[kind]["error"] is not None and each["types"][-1] != "i32"
            ),
            default=None,
        )
        for kind in ("requantization", "rounding", "table")
    }
    return {"slack": min(slacks, default=None), **errors}


def _code_sentence(code: Mapping[str, Any]) -> str:
    """What code computes on floats, as a line."""
    casts = ", ".join(f"{each['function']} ({each['place']})" for each in code["floats"])
    floats = f"floats in {casts} only" if casts else "none on floats"
    return f"{code['form']}: {code['instructions']} instructions in {code['functions']} functions, {floats}"


def _sentence(counts: Mapping[str, Any]) -> str:
    """The figures as one line."""
    parts = [f"{counts['operations']} operations"]
    for name, bound, unit in (
        ("sums", "slack", "bits of slack at least"),
        ("requantizations", "requantization_error", "steps off at most"),
        ("roundings", "rounding_error", "steps off at most"),
        ("tables", "table_error", "steps off at most"),
    ):
        figure = counts.get(bound)
        shown = "" if figure is None else f" ({figure:.6g} {unit})"
        parts += [f"{counts[name]} {name}{shown}"] if counts[name] else []
    unknown = counts["tables_without_function"]
    return ", ".join(parts) + (f"; {unknown} tables hold no known function" if unknown else "")


def _show(certificate: Mapping[str, Any]) -> None:
    """Prints the sums and the floats at entry and exit, as a table."""
    rows: list[tuple[str, ...]] = []
    for each in certificate["operations"]:
        if (sums := each.get("accumulators")) is not None:
            ends = str(min(sums["lowest"])), str(max(sums["highest"]))
            rows.append((each["node"], each["operation"], str(sums["bits"]), *ends, str(sums["slack"])))
    headings = ("layer", "sums of", "bits", "lowest", "highest", "slack")
    if rows:
        terminal().print(table_of(headings, rows, headings[2:], names=("layer",), whole=("sums of",)))
    for place in ("entry", "exit"):
        for each in certificate[place]:
            say(f'float at the {place}: {each["operation"]} "{each["node"]}"')
