"""Loads the model that a command works on, and compiles it as its options say."""

import argparse
from hashlib import file_digest, sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

from qmlir.cli.flags import ArgumentParser
from qmlir.errors import OptionError
from qmlir.settings.fields import LOADING, PROCESSOR

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp

    from qmlir.backends.cpu.jit import Executable


def load_model(arguments: argparse.Namespace) -> "ModuleOp":
    """Loads a command's model with the options that all commands share."""
    from qmlir.compiler import load
    from qmlir.running.held_options import loading_of

    return load(arguments.model, **loading_of({name: getattr(arguments, name.replace("-", "_")) for name in LOADING}))


def entries_of(arguments: argparse.Namespace) -> dict[str, "ModuleOp"]:
    """Loads the networks that `--entries` names, by the names of the entries; none without the option.

    Raises:
        OptionError: A part of it is neither a size of the model nor a file.
    """
    found: dict[str, ModuleOp] = {}
    for text in arguments.entries or ():
        name, *parts = text.split(":")
        sizes = dict(part.split("=", 1) for part in parts if "=" in part)
        files = [part for part in parts if "=" not in part]
        if len(files) > 1 or not all(size.isdecimal() and int(size) for size in sizes.values()):
            need = "must be NAME, NAME:SIZE=N or NAME:FILE for each entry, with commas between them"
            raise OptionError("--entries", need, got=text)
        own = argparse.Namespace(**vars(arguments))
        own.model = Path(files[0]) if files else arguments.model
        own.bind = [*arguments.bind, *((size, int(n)) for size, n in sizes.items())]
        if name in found:
            raise OptionError("--entries", "must name each entry once", got=name)
        found[name] = load_known(own)
    return found


def name_functions(module: "ModuleOp", name: str) -> None:
    """Names a network's function as C code calls it; the functions of several entries get their names behind it."""
    from xdsl.dialects.builtin import StringAttr

    from qmlir.ir.signature import entry_functions

    functions = entry_functions(module)
    for function in functions:
        own = name if len(functions) == 1 else f"{name}_{function.sym_name.data}"
        function.sym_name = StringAttr(own)


def load_known(arguments: argparse.Namespace) -> "ModuleOp":
    """Loads a command's model, and refuses it if it has operations that qmlir does not know."""
    from qmlir.frontends.opaque import refuse_opaque

    module = load_model(arguments)
    refuse_opaque(module, str(arguments.model))
    return module


def load_simplified(arguments: argparse.Namespace) -> "ModuleOp":
    """Loads a command's model of known operations, and simplifies it if its file is another framework's."""
    from qmlir.compiler import Pipeline
    from qmlir.frontends import IMPORTED as ENDINGS
    from qmlir.stages import IMPORTED

    module = load_known(arguments)
    return Pipeline(*IMPORTED)(module) if arguments.model.suffix in ENDINGS else module


def _hash_of(path: Path) -> str:
    """Returns the hash of a file's content; empty if it cannot be read, which loading it will report."""
    try:
        with path.open("rb") as file:
            return file_digest(file, "sha256").hexdigest()
    except OSError:
        return ""


def add_code_options(parser: ArgumentParser) -> None:
    """Adds the options of every command that generates code for a processor."""
    add_processor_options(parser)
    parser.add_options("no-cache")


def add_processor_options(parser: ArgumentParser) -> None:
    """Adds the options that name the processor that code is for."""
    from qmlir.backends.cpu.processors import PROCESSORS, TRIPLES

    parser.add_options(*PROCESSOR, processors=", ".join(PROCESSORS), triples=", ".join(TRIPLES))


def memory_of(arguments: argparse.Namespace) -> str:
    """Returns what code is made for: what `--memory` says, little memory for a bundle, and speed otherwise."""
    return arguments.memory or ("small" if getattr(arguments, "bundle", False) else "fast")


def compiled(arguments: argparse.Namespace, entry: str = "") -> "Executable":
    """Loads a command's model and compiles it for the processor that its options name, or takes the code from disk.

    Args:
        arguments: The command line.
        entry: The name of the network's function in the code; by default the name in the model. Only with a name may
            the network have several entries, whose own names follow it.
    """
    from qmlir.backends.cpu.llvm import Machine
    from qmlir.running.cached import kept
    from qmlir.running.held_options import constants_in

    machine = Machine.of(arguments.cpu, arguments.features, arguments.triple)
    debug = bool(getattr(arguments, "debug_info", False))

    def make() -> "Executable":
        from qmlir.compiler import compile, main_function

        module = load_simplified(arguments)
        if entry:
            name_functions(module, entry)
        else:
            main_function(module)  # of several entries, callers choose one
        cpu, features, triple = arguments.cpu, arguments.features, arguments.triple
        threads, batch, memory = arguments.threads or 1, arguments.batch, memory_of(arguments)
        io = getattr(arguments, "io", None)
        return compile(
            module, threads, cpu=cpu, features=features, triple=triple, batch=batch, memory=memory, io=io,
            debug_info=debug,
        )  # fmt: skip

    if arguments.no_cache or debug:  # debug lines have the file's name in them
        return make()
    arrays = constants_in(dict(arguments.constant))
    constants = {n: [a.dtype.str, list(a.shape), sha256(a.tobytes()).hexdigest()] for n, a in arrays.items()}
    options = ("bind", "numerics", "entry", "signature", "fold_budget", "shape", "state", "inputs", "outputs")
    read: dict[str, Any] = {key: getattr(arguments, key) for key in options}
    read["weights"] = None if arguments.weights is None else _hash_of(arguments.weights)
    read |= {"route": "command", "symbol": entry, "constants": constants, "threads": arguments.threads or 1}
    read |= {"batch": arguments.batch, "memory": memory_of(arguments), "io": getattr(arguments, "io", None)}
    return kept(arguments.model, read, machine, make)
