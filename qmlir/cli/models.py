"""Loads the model that a command works on, and declares the options that say how to read and how to compile it."""

import argparse
from hashlib import file_digest, sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

from qmlir.cli.flags import ArgumentParser, choice, count, shape_of
from qmlir.settings.fields import names_of

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp

    from qmlir.backends.cpu.jit import Executable
    from qmlir.numerics import Array


def add_loading_options(parser: ArgumentParser) -> None:
    """Adds the options of every command that loads a model."""
    parser.add_argument(
        "--bind",
        action="append",
        default=[],
        type=_binding,
        metavar="NAME=N",
        help="value of a symbolic dimension of an .onnx file; an unbound first dimension is 1",
    )
    parser.add_argument(
        "--constant",
        action="append",
        default=[],
        type=_constant,
        metavar="NAME=FILE",
        help="value of an input of an .onnx file or a Caffe2 net that becomes a constant: .npy or FILE.npz:ARRAY",
    )
    parser.add_argument(
        "--weights",
        type=Path,
        metavar="FILE",
        help="the init net of a Caffe2 net, .pb or .pbtxt, which makes its weights",
    )
    parser.add_argument(
        "--shape",
        action="append",
        default=[],
        type=shape_of,
        metavar="NAME=SHAPE",
        help="shape of an input of a Caffe2 net, such as data=1x3x224x224; another element type than f32 follows it: "
        "indices=8xi64",
    )
    for option, what in (("inputs", "begins, its arguments"), ("outputs", "ends, its results")):
        parser.add_argument(
            f"--{option}",
            type=names_of,
            metavar="NAME,…",
            help=f"tensors of the file at which the network {what}, in this order; by default the file's {option}",
        )
    parser.add_argument(
        "--state",
        action="append",
        default=[],
        type=_pair,
        metavar="PAST=PRESENT",
        help="an input that lives from call to call, such as a cache, and the output that is its value in the next "
        "call; before the first call it is 0",
    )
    parser.add_argument(
        "--numerics",
        metavar="RUNTIME",
        help="whose rounding quantized operations follow: default, onnxruntime (its sums of u8 by s8 saturate), "
        "onnxruntime-vnni (its sums are exact), litert-reference, litert-xnnpack or litert-builtin; by default "
        "what an .mlir file says",
    )
    parser.add_argument(
        "--signature",
        metavar="KEY",
        help="the signature of a .tflite file whose subgraph is the network; by default its first subgraph",
    )
    parser.add_argument(
        "--fold-budget",
        type=count,
        metavar="BYTES",
        help="what constants may take that are computed from smaller ones, at import and in each later simplification; "
        "beyond it their operations stay (default: 1 GiB)",
    )


def _binding(text: str) -> tuple[str, int]:
    name, _, value = text.partition("=")
    if not name or not value.isdecimal() or int(value) < 1:
        raise argparse.ArgumentTypeError(f"must be NAME=N with a positive number, got {text}")
    return name, int(value)


def _pair(text: str) -> tuple[str, str]:
    past, _, present = text.partition("=")
    if not past or not present:
        raise argparse.ArgumentTypeError(f"must be PAST=PRESENT, got {text}")
    return past, present


def _constant(text: str) -> tuple[str, Path]:
    name, _, file = text.partition("=")
    if not name or not file:
        raise argparse.ArgumentTypeError(f"must be NAME=FILE, got {text}")
    return name, Path(file)


def _constants(arguments: argparse.Namespace) -> "dict[str, Array]":
    """The arrays that become constants, by the names of the inputs."""
    if not arguments.constant:
        return {}
    from qmlir.samples.arrays import only_array, read_arrays

    constants: dict[str, Any] = {}
    for name, file in arguments.constant:
        only_array(file)
        (constants[name],) = read_arrays(file).values()
    return constants


def load_model(arguments: argparse.Namespace) -> "ModuleOp":
    """Loads a command's model with the options that all commands share."""
    from qmlir.compiler import load
    from qmlir.ir.budget import BUDGET

    return load(
        arguments.model,
        bind=dict(arguments.bind),
        constants=_constants(arguments),
        numerics=arguments.numerics,
        signature=arguments.signature,
        fold_budget=arguments.fold_budget or BUDGET,
        weights=arguments.weights,
        shapes=dict(arguments.shape),
        state=dict(arguments.state),
        inputs=arguments.inputs,
        outputs=arguments.outputs,
    )


def load_known(arguments: argparse.Namespace) -> "ModuleOp":
    """Loads a command's model, and refuses it if it has operations that qmlir does not know."""
    from qmlir.frontends.opaque import refuse_opaque

    module = load_model(arguments)
    refuse_opaque(module, str(arguments.model))
    return module


def load_simplified(arguments: argparse.Namespace) -> "ModuleOp":
    """Loads a command's model of known operations, and simplifies it if its file is another framework's."""
    from qmlir.compiler import IMPORTED, Pipeline
    from qmlir.frontends import IMPORTED as ENDINGS

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
    parser.add_argument(
        "--no-cache",
        action="store_true",
        help="compile, even if the same code is on disk (in $QMLIR_CACHE, by default ~/.cache/qmlir), and keep nothing",
    )


def add_processor_options(parser: ArgumentParser) -> None:
    """Adds the options that name the processor that code is for."""
    from qmlir.backends.cpu.processors import PROCESSORS, TRIPLES

    parser.add_argument(
        "--cpu",
        metavar="NAME",
        help="the processor to generate code for: native (this one, the default); LLVM's name of another of this "
        f"architecture, such as znver3; or, with its usual triple, {', '.join(PROCESSORS)}, or LLVM's name of another "
        "processor of AArch64, x86-64 or RISC-V; Cortex-M0+ and m0plus are cortex-m0plus",
    )
    parser.add_argument(
        "--features",
        metavar="LIST",
        help="processor features to switch on or off in addition: --features=+avx2,-avx512f",
    )
    parser.add_argument(
        "--triple",
        metavar="TRIPLE",
        help=f"the architecture and system to generate code for: {', '.join(TRIPLES)} (default: this machine's, or "
        "that which --cpu implies); --cpu is then a processor of that architecture, by default the most generic one",
    )
    help = "what the code is made for: fast packs and copies data where that saves time, small takes as little scratch "
    help += "memory as it can (default: small for --bundle, otherwise fast)"
    parser.add_argument("--memory", **choice(("fast", "small")), help=help)


def memory_of(arguments: argparse.Namespace) -> str:
    """Returns what code is made for: what `--memory` says, little memory for a bundle, and speed otherwise."""
    return arguments.memory or ("small" if getattr(arguments, "bundle", False) else "fast")


def compiled(arguments: argparse.Namespace, entry: str = "") -> "Executable":
    """Loads a command's model and compiles it for the processor that its options name, or takes the code from disk.

    Args:
        arguments: The command line.
        entry: The name of the network's function in the code; by default the name in the model.
    """
    from qmlir.backends.cpu.machine import Machine
    from qmlir.cached import kept

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
    constants = {
        n: [a.dtype.str, list(a.shape), sha256(a.tobytes()).hexdigest()] for n, a in _constants(arguments).items()
    }
    options = ("bind", "numerics", "signature", "fold_budget", "shape", "state", "inputs", "outputs")
    read: dict[str, Any] = {key: getattr(arguments, key) for key in options}
    read["weights"] = None if arguments.weights is None else _hash_of(arguments.weights)
    read |= {"route": "command", "entry": entry, "constants": constants, "threads": arguments.threads or 1}
    read |= {"batch": arguments.batch, "memory": memory_of(arguments), "io": getattr(arguments, "io", None)}
    return kept(arguments.model, read, machine, make)
