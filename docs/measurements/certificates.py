"""Certificates of networks: `make certify` prints one line for each, with what is proved or why it is refused.

python -m docs.measurements.certificates          the demo's network, transformers of seeded weights (transformers.py),
                                                  ONNX's light models with seeded weights (redrawn.py), and those of
                                                  $QMLIR_SHARED and of $QMLIR_PEERS that there are
python -m docs.measurements.certificates digits kws    some of them
python -m docs.measurements.certificates --list        their names

Each network is quantized to int8 on a part of its data, or is quantized already; then certified, the certificate
checked, and its machine code compared with the reference in numpy, bit for bit, on `--inputs` inputs (100). Each runs
in a process of its own, which computes with one thread; standard error says what it is at. The status is 1 if a network
is refused, or if bits differ.
"""

import argparse
import contextlib
import io
import multiprocessing
import os
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from xdsl.dialects.builtin import ModuleOp

import qmlir
from qmlir.cli import main
from qmlir.compiler import Pipeline
from qmlir.errors import QmlirError
from qmlir.ir.signature import TensorSpec, main_function, signature_of
from qmlir.stages import IMPORTED
from tests.conftest import ROOT
from tests.models.networks import NETWORKS, split
from tests.models.redrawn import redrawn
from tests.models.transformers import TRANSFORMERS

SHARED = Path(os.environ.get("QMLIR_SHARED", ROOT.parent / "shared"))
PEERS = Path(os.environ.get("QMLIR_PEERS", Path.home() / ".cache" / "qmlir-peers")) / "models"

QUANTIZED = {
    "kws_i8": "kws_dscnn_i8.tflite",
    "resnet8_i8": "resnet8_cifar_i8.tflite",
    "vww_i8": "vww_mbv1_i8.tflite",
    "mobilenet_u8": "mobilenet_v1_0.25_224_u8.tflite",
    "mobilenet_v2_u8": "mobilenet_v2_1.0_224_u8.tflite",
    "ad_i8": "ad_fcae_i8.tflite",
    "str_ww_i8": "str_ww_i8.tflite",
    "micro_speech": "micro_speech_quantized.tflite",
    "deeplabv3": "deeplabv3_mnv2_dm05_pascal_quant.tflite",
}
"""Networks that are quantized already, below models/tflite."""

LIGHT = {
    "squeezenet": "squeezenet",
    "shufflenet": "shufflenet",
    "inception_v1": "inception_v1",
    "inception_v2": "inception_v2",
    "densenet121": "densenet121",
    "resnet50": "resnet50",
    "alexnet": "bvlc_alexnet",
    "zfnet": "zfnet512",
    "vgg19": "vgg19",
}
"""Classifiers whose graphs come with ONNX: name → name there. Their weights are drawn anew."""

OF_PEERS = ("dscnn", "resnet8", "mobilenetv2", "resnet50", "minilm")
"""Float networks of seeded weights below $QMLIR_PEERS, which its build_models.py makes."""


def _normal(shape: Sequence[int], count: int) -> list[Any]:
    rng = np.random.default_rng(0)
    return [rng.standard_normal(shape, np.float32) for _ in range(count)]


def _light(name: str) -> ModuleOp:
    with tempfile.TemporaryDirectory() as folder:
        onnx.save(redrawn(f"light_{LIGHT[name]}"), path := Path(folder) / f"{name}.onnx")
        return qmlir.quantize(path, data=_normal((1, 3, 224, 224), 2))


def _of_peers(name: str) -> ModuleOp:
    path = PEERS / f"{name}.onnx"
    (x,) = signature_of(main_function(qmlir.load(path))).inputs
    return qmlir.quantize(path, data=_normal(x.shape, 4), residuals="int16" if name == "minilm" else None)


def digits() -> ModuleOp:
    """The network of `make demo`, quantized as there."""
    folder = ROOT / "examples" / "digits"
    samples = np.load(folder / "digits.npz")["calibration_images"]
    return qmlir.quantize(folder / "digits.onnx", data=[image[None] for image in samples])


def _read(name: str) -> ModuleOp:
    return Pipeline(*IMPORTED)(qmlir.load(SHARED / "models" / "tflite" / QUANTIZED[name]))


def _quantized(name: str) -> ModuleOp:
    network = NETWORKS[name]
    samples = split(network, lambda file: SHARED / file, 0.1).profile
    module = Pipeline("simplify")(qmlir.load(SHARED / network.file))
    return qmlir.quantize(module, qmlir.profile(module, list(samples)), data=list(samples))


def _transformer(name: str) -> ModuleOp:
    """A transformer of seeded weights, with residual streams of 16 bits."""
    with tempfile.TemporaryDirectory() as folder:
        onnx.save(TRANSFORMERS[name].model(), path := Path(folder) / f"{name}.onnx")
        return qmlir.quantize(path, data=TRANSFORMERS[name].samples(16, 1), residuals="int16")


def networks() -> Mapping[str, Callable[[], ModuleOp]]:
    """Name → what makes the quantized network; networks whose files are missing are left out."""
    found: dict[str, Callable[[], ModuleOp]] = {"digits": digits}
    for name in TRANSFORMERS:
        found[name] = lambda name=name: _transformer(name)
    for name, network in NETWORKS.items():
        if (SHARED / network.file).exists():
            found[name] = lambda name=name: _quantized(name)
    for name, file in QUANTIZED.items():
        if (SHARED / "models" / "tflite" / file).exists():
            found[name] = lambda name=name: _read(name)
    for name in OF_PEERS:
        if (PEERS / f"{name}.onnx").exists():
            found[f"peers_{name}"] = lambda name=name: _of_peers(name)
    return found | {f"light_{name}": lambda name=name: _light(name) for name in LIGHT}


def _inputs(module: ModuleOp, name: str, count: int) -> Iterator[list[Any]]:
    """Inputs of a network: those of its own data first, then random numbers of its inputs' types."""
    specs, rng = signature_of(main_function(module)).inputs, np.random.default_rng(0)
    own: list[list[Any]] = []
    if name in NETWORKS:
        own = [[x] for x in split(NETWORKS[name], lambda file: SHARED / file, 0.1).score[:count]]
    elif name in TRANSFORMERS:
        own = [[sample[spec.name] for spec in specs] for sample in TRANSFORMERS[name].samples(count, 2)]
    elif name == "digits":
        own = [[x] for x in np.load(ROOT / "examples" / "digits" / "digits.npz")["test_images"][:count, None]]
    yield from own
    for _ in range(count - len(own)):
        yield [_drawn(rng, spec) for spec in specs]


def _drawn(rng: np.random.Generator, spec: TensorSpec) -> Any:
    if spec.dtype.kind == "f":
        return rng.normal(size=spec.shape).astype(spec.dtype)
    ends = np.iinfo(spec.dtype)
    return rng.integers(ends.min, ends.max, spec.shape, spec.dtype, endpoint=True)


class Stages:
    """The stages that a network goes through, each with its seconds; standard error names each when it begins."""

    def __init__(self, name: str):
        self.name, self.seconds = name, dict[str, float]()

    @contextlib.contextmanager
    def stage(self, does: str) -> Iterator[None]:
        """A stage, named by what the program does in it; the seconds of equal names are added."""
        if does not in self.seconds:
            sys.stderr.write(f"{self.name}: {does}\n")
            sys.stderr.flush()
        begun = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[does] = self.seconds.get(does, 0.0) + time.perf_counter() - begun

    def __str__(self) -> str:
        return "seconds to " + ", ".join(f"{does} {seconds:.1f}" for does, seconds in self.seconds.items())


def compared(module: ModuleOp, name: str, count: int, stages: Stages) -> tuple[int, int]:
    """On how many inputs machine code gives the reference's bits, and of how many."""
    with stages.stage("compile"):
        code, reference = qmlir.compile(module), qmlir.reference(module)
    same = total = 0
    for inputs in _inputs(module, name, count):
        with stages.stage("run"):
            found = code.run_in_order(inputs)
        with stages.stage("run the reference"):
            expected = reference.run_in_order(inputs)
        same += all(map(np.array_equal, found, expected))
        total += 1
    return same, total


BOUNDS = ("slack of ", "error of ")
"""How the lines begin that state a bound."""


def _said(*arguments: str) -> tuple[int, str]:
    """The status of a command, and the last line that it prints, with the bounds from the lines before."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        status = main.main(arguments)
    *before, last = (err if status else out).getvalue().strip().splitlines()
    return status, "; ".join([last, *(line for line in before if line.startswith(BOUNDS))])


def measured(name: str, inputs: int) -> tuple[bool, str]:
    """Whether a network is certified and computed as proved, and a line about it."""
    stages = Stages(name)
    with tempfile.TemporaryDirectory() as folder:
        model, certificate = f"{folder}/{name}.mlir", f"{folder}/{name}.json"
        with stages.stage("quantize"):
            try:
                module = networks()[name]()
            except QmlirError as error:
                return False, f"{name:18} error: {error} [{stages}]"
            qmlir.save(module, model)
        with stages.stage("certify"):
            status, said = _said("certify", model, "-o", certificate)
        if status == 0:
            with stages.stage("check"):
                status, checked = _said("certify", "--check", certificate)
            said = said if status == 0 else checked
    same, total = compared(module, name, inputs, stages) if status == 0 else (0, 0)
    bits = f"; {same} of {total} outputs as the reference" if total else ""
    return status == 0 and same == total, f"{name:18} {said.replace(folder + '/', '')}{bits} [{stages}]"


def alone(name: str, inputs: int) -> tuple[bool, str]:
    """`measured` in a process of its own, with one thread."""
    os.environ["OMP_NUM_THREADS"] = "1"  # what the process inherits, before it loads numpy
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as process:
        future = process.submit(measured, name, inputs)
        error = future.exception()
    if isinstance(error, BrokenProcessPool):
        return False, f"{name:18} error: its process ended before it was done, as where memory is short"
    if error is not None:
        traceback.print_exception(error)
        return False, f"{name:18} error: {type(error).__name__}: {error}"
    return future.result()


def run() -> int:
    """Prints the lines; the status is 1 if a network is refused, or if bits differ."""
    known = networks()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("networks", nargs="*", metavar="NETWORK", help="their names; by default all")
    parser.add_argument("--inputs", type=int, default=100, help="on how many to compare bits (100)")
    parser.add_argument("--list", action="store_true", help="print the names of those that there are")
    arguments, refused, begun = parser.parse_args(), 0, time.perf_counter()
    if unknown := [name for name in arguments.networks if name not in known]:
        parser.error(f"no network {', '.join(unknown)}; there are {', '.join(known)}")
    if arguments.list:
        sys.stdout.write("\n".join(known) + "\n")
        return 0
    names = arguments.networks or list(known)
    for name in names:
        holds, line = alone(name, arguments.inputs)
        sys.stdout.write(line + "\n")
        sys.stdout.flush()
        refused += not holds
    minutes = (time.perf_counter() - begun) / 60
    sys.stdout.write(f"{len(names) - refused} of {len(names)} networks are certified; {minutes:.1f} minutes\n")
    return int(refused > 0)


if __name__ == "__main__":
    sys.exit(run())
