"""`qmlir certify`: proves that a network computes on integers only, and checks such proofs."""

import argparse
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from qmlir.cli.device import PROGRAM_SUFFIX
from qmlir.cli.documents import add_json_option, write_document
from qmlir.cli.flags import ArgumentParser, file_of
from qmlir.cli.models import load_simplified
from qmlir.cli.terminal import say, table_of, terminal
from qmlir.display import counted
from qmlir.errors import FileError, OptionError
from qmlir.settings.fields import LOADING

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp

INTEGERS = ".integers.mlir"
"""The end of the name of the artefact, which is written beside a certificate."""

ERRORS = ("requantization", "rounding", "table")
"""The parts of a certificate that state an error."""


def add_certify_options(parser: ArgumentParser) -> None:
    """Adds the options of `qmlir certify`."""
    parser.add_argument(
        "model",
        type=Path,
        nargs="?",
        help="a quantized network, as an .mlir file or in a format that qmlir reads, a device's program (.npu), or an "
        "object file (.o); with --check, the network of integers, the program or the object, by default the one that "
        "the certificate names",
    )
    parser.add_argument("-o", "--output", type=file_of(".json"), help="the certificate to write, a .json file")
    parser.add_argument(
        "--check",
        type=file_of(".json"),
        metavar="FILE",
        help="check this certificate: derive everything that it states anew, from its artefact alone",
    )
    with parser.section("how to read the model"):
        parser.add_options(*LOADING)
    add_json_option(parser)


def run_certify(arguments: argparse.Namespace) -> None:
    """Writes a certificate, or checks one.

    Raises:
        OptionError: Neither a model and an output nor a certificate to check was given.
        FileError: The network is not quantized, or a file cannot be read.
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
    from qmlir.analysis.certify import (
        certificate_of,
        certificate_of_object,
        certificate_of_program,
        code_of,
        file_hashes,
        is_quantized,
    )
    from qmlir.checker import counts_of
    from qmlir.running.files import noted_files, settle, together, write_whole

    model: Path = arguments.model
    settle(model)
    if model.suffix == ".o":
        certificate = certificate_of_object(model)
        write_whole(arguments.output, _text(certificate))
        _report(arguments, certificate, {})
        return
    if model.suffix == PROGRAM_SUFFIX:
        certificate = certificate_of_program(model)
        write_whole(arguments.output, _text(certificate))
        _show_program(certificate)
        _report(arguments, certificate, {**counts_of(certificate), "slack": _least_slack(certificate["commands"])})
        return
    with noted_files() as beside:
        module = load_simplified(arguments)
    if not is_quantized(module):
        remedy = f"quantize it first: qmlir quantize {model} --data SAMPLES -o {model.stem}_int8.mlir"
        raise FileError(model, "must be a quantized network", got="a network in floats", remedy=remedy)
    integers, certificate = certificate_of(module)
    certificate["code"] = code_of(integers)
    source = {"file": model.name, "sha256": sha256(model.read_bytes()).hexdigest()}
    with together():
        files = _artefact(arguments, module, integers, beside)
        certificate |= {"artefact": file_hashes(files), "source": source}
        write_whole(arguments.output, _text(certificate))
    _show(certificate)
    _report(arguments, certificate, {**counts_of(certificate), **_bounds(certificate)})


def _report(arguments: argparse.Namespace, certificate: Mapping[str, Any], counts: Mapping[str, Any]) -> None:
    """Prints what a certificate proves, and writes it as a document."""
    for code in certificate.get("code", ()):
        say(_code_sentence(code))
    _say_bounds(counts)
    say(f"{arguments.output}: {certificate['verdict']}" + (f": {_sentence(counts)}" if counts else ""))
    fields = {"model": str(arguments.model), "certificate": str(arguments.output), "verdict": certificate["verdict"]}
    write_document(arguments, "certify", {**fields, **counts})


def _artefact(
    arguments: argparse.Namespace, module: "ModuleOp", integers: "ModuleOp", beside: Collection[Path]
) -> Sequence[Path]:
    """The files of the network of integers: those of the model if it is one, else files beside the certificate.

    `beside` are the files that were read with the model.
    """
    from qmlir.compiler import save

    model: Path = arguments.model
    if model.suffix == ".mlir" and integers.is_structurally_equivalent(module):
        if model.resolve().parent == arguments.output.resolve().parent:
            return [model, *sorted(beside)]
    return save(integers, arguments.output.with_name(arguments.output.stem + INTEGERS))


def _text(certificate: Mapping[str, Any]) -> str:
    """The text of a certificate, with an operation or a constant on each line."""
    import json

    def lines(key: str, value: Any, margin: str) -> str:
        if not isinstance(value, list):
            return json.dumps(value)
        inner, each = f"{margin}  ", cast("list[Any]", value)
        texts = [fields(e, inner) if key == "entries" else json.dumps(e) for e in each]
        return "[" + ",".join(f"\n{inner}{text}" for text in texts) + f"\n{margin}]" if texts else "[]"

    def fields(value: Mapping[str, Any], margin: str) -> str:
        inner = f"{margin}  "
        texts = [f'{inner}"{key}": {lines(key, own, inner)}' for key, own in value.items()]
        return "{\n" + ",\n".join(texts) + f"\n{margin}}}"

    return fields(certificate, "") + "\n"


def _check(arguments: argparse.Namespace) -> None:
    from qmlir.checker import check
    from qmlir.running.files import settle

    if arguments.output is not None:
        raise OptionError("--output", "is for a certificate to write", remedy="drop --check or --output")
    settle(arguments.check)
    checked = check(arguments.check, arguments.model)
    counts = dict(checked.counts)
    fields: dict[str, Any] = {"model": None if arguments.model is None else str(arguments.model)}
    fields |= {"certificate": str(arguments.check), "verdict": "integer-only", **counts}
    fields["trusted"] = [{"field": each.field, "reason": each.reason} for each in checked.trusted]
    say(f"{arguments.check}: holds" + (f": {_sentence(counts)}" if counts else ""))
    for each in checked.trusted:
        say(f"on trust: {f'{each.field}: ' if each.field else ''}{each.reason}")
    write_document(arguments, "certify", fields)


# ---------------------------------------------------------------------------------------------------------------
# What is printed


def _bounds(certificate: Mapping[str, Any]) -> dict[str, Any]:
    """The least slack of all sums in bits, and the largest errors in steps of results of 8 or 16 bits."""
    operations = [op for network in _networks(certificate) for op in network["operations"]]
    errors = {
        f"{kind}_error": max(
            (
                each[kind]["error"]
                for each in operations
                if kind in each and each[kind]["error"] is not None and each["types"][-1] != "i32"
            ),
            default=None,
        )
        for kind in ERRORS
    }
    return {"slack": _least_slack(operations), **errors}


def _networks(certificate: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    """What a certificate states about each entry of a network, or about the network."""
    return certificate["entries"] if certificate["about"] == "entries" else [certificate]


def _least_slack(entries: Sequence[Mapping[str, Any]]) -> int | None:
    """The least slack of all sums in bits."""
    return min((each["accumulators"]["slack"] for each in entries if "accumulators" in each), default=None)


def _code_sentence(code: Mapping[str, Any]) -> str:
    """What code computes on floats, as a line."""
    casts = ", ".join(f"{each['function']} ({each['place']})" for each in code["floats"])
    floats = f"floats in {casts} only" if casts else "none on floats"
    return f"{code['form']}: {code['instructions']} instructions in {code['functions']} functions, {floats}"


def _sentence(counts: Mapping[str, Any]) -> str:
    """What the artefact holds, as one line."""
    parts = [counted(counts["operations"], "operation")]
    if "commands" in counts:
        called = counted(counts["calls"], "call")
        parts = [counted(counts["commands"], "command"), f"{called} of the host with {parts[0]}"]
    parts += [counted(counts[f"{kind}s"], kind) for kind in ("sum", *ERRORS) if counts.get(f"{kind}s")]
    unknown = counts.get("tables_without_function")
    return ", ".join(parts) + (f"; {counted(unknown, 'table')} without a known function" if unknown else "")


def _say_bounds(counts: Mapping[str, Any]) -> None:
    """Prints the least slack and the largest errors, a line each."""
    if (slack := counts.get("slack")) is not None:
        say(f"slack of sums: at least {counted(slack, 'bit')}")
    for kind in ERRORS:
        if (error := counts.get(f"{kind}_error")) is not None:
            say(f"error of {kind}s: at most {error:.6g} steps")


def _show(certificate: Mapping[str, Any]) -> None:
    """Prints the sums and the floats at entry and exit, as a table."""
    for network in _networks(certificate):
        if "name" in network:
            say(f'entry "{network["name"]}"')
        _show_network(network)


def _show_network(network: Mapping[str, Any]) -> None:
    """Prints the table of one function."""
    rows: list[tuple[str, ...]] = []
    for each in network["operations"]:
        if (sums := each.get("accumulators")) is not None:
            ends = str(min(sums["lowest"])), str(max(sums["highest"]))
            rows.append((each["node"], each["operation"], str(sums["bits"]), *ends, str(sums["slack"])))
    headings = ("layer", "sums of", "bits", "lowest", "highest", "slack")
    if rows:
        terminal().print(table_of(headings, rows, headings[2:], names=("layer",), whole=("sums of",)))
    for place in ("entry", "exit"):
        for each in network[place]:
            say(f'float at the {place}: {each["operation"]} "{each["node"]}"')


def _show_program(certificate: Mapping[str, Any]) -> None:
    """Prints the sums of each layer of a program, as a table, and what the host computes."""
    found: dict[tuple[str, str, int], list[Mapping[str, Any]]] = {}
    for each in certificate["commands"]:
        if (sums := each.get("accumulators")) is not None:
            found.setdefault((each["layer"], each["command"], sums["bits"]), []).append(sums)
    rows = [
        (
            layer, f"{len(sums)} {command}", str(bits), str(min(min(each["lowest"]) for each in sums)),
            str(max(max(each["highest"]) for each in sums)), str(min(each["slack"] for each in sums)),
        )
        for (layer, command, bits), sums in found.items()
    ]  # fmt: skip
    headings = ("layer", "sums of", "bits", "lowest", "highest", "slack")
    if rows:
        terminal().print(table_of(headings, rows, headings[2:], names=("layer",), whole=("sums of",)))
    for routine in certificate["routines"]:
        say(_call_sentence(routine))


def _call_sentence(routine: Mapping[str, Any]) -> str:
    """What a routine of the host computes, and on which types, as a line."""
    operations = [each for each in routine["operations"] if each["operation"] not in ("quant.qcast", "quant.scast")]
    kinds = Counter(each["operation"] for each in operations)
    types = sorted({kind for each in operations for kind in each["types"] if not kind.startswith("!")})
    parts = [f"{', '.join(kinds)} on {', '.join(types)}"] if operations else []
    parts += [f"{each['operation']} of {each['path'][0]} at the entry" for each in routine["entry"]]
    parts += [f'{each["operation"]} "{each["node"]}" at the exit' for each in routine["exit"]]
    at = ", ".join(map(str, routine["commands"]))
    return f"command {at}, host call {routine['routine']}: {'; '.join(parts) or 'moves integers'}"
