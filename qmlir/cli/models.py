"""Loads the model that a command works on, and compiles it as its options say."""

import argparse
from hashlib import file_digest, sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

from qmlir.cli.flags import ArgumentParser
from qmlir.settings.fields import LOADING, PROCESSOR

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp

    from qmlir.backends.cpu.jit import Executable


def load_model(arguments: argparse.Namespace) -> "ModuleOp":
    """Loads a command's model with the options that all commands share."""
    from qmlir.compiler import load
    from qmlir.running.held_options import loading_of

    return load(arguments.model, **loading_of({name: getattr(arguments, name.replace("-", "_")) for name in LOADING}))


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
        entry: The name of the network's function in the code; by default the name in the model.
    """
    from qmlir.backends.cpu.llvm import Machine
    from qmlir.running.cached import kept
    from qmlir.running.held_options import constants_in

    machine = Machine.of(arguments.cpu, arguments.features, arguments.triple)
    debug = bool(getattr(arguments, "debug_info", False))

    def make() -> "Executable":
        from xdsl.dialects.builtin import StringAttr

        from qmlir.compiler import compile, main_function

        module = load_simplified(arguments)
        if entry:
            main_function(module).sym_name = StringAttr(entry)
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
    options = ("bind", "numerics", "signature", "fold_budget", "shape", "state", "inputs", "outputs")
    read: dict[str, Any] = {key: getattr(arguments, key) for key in options}
    read["weights"] = None if arguments.weights is None else _hash_of(arguments.weights)
    read |= {"route": "command", "entry": entry, "constants": constants, "threads": arguments.threads or 1}
    read |= {"batch": arguments.batch, "memory": memory_of(arguments), "io": getattr(arguments, "io", None)}
    return kept(arguments.model, read, machine, make)
