"""Certificates of networks: `make certify` prints one line for each, with what is proved or why it is refused.

python -m tests.models.certificates               the demo's network, transformers of seeded weights (transformers.py),
                                                  and those of $QMLIR_SHARED that there are
python -m tests.models.certificates digits kws    some of them

Each network is quantized to int8 on a part of its data, or is quantized already; then certified, and the certificate
checked.
"""

import argparse
import contextlib
import io
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import numpy as np
import onnx
from xdsl.dialects.builtin import ModuleOp

import qmlir
from qmlir.cli import main
from qmlir.compiler import IMPORTED, Pipeline
from tests.conftest import ROOT
from tests.models.networks import NETWORKS, split
from tests.models.transformers import TRANSFORMERS

SHARED = Path(os.environ.get("QMLIR_SHARED", ROOT.parent / "shared"))

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
    return found


def _said(*arguments: str) -> tuple[int, str]:
    """The status of a command, and the last line that it prints."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        status = main.main(arguments)
    return status, (err if status else out).getvalue().strip().splitlines()[-1]


def lines(names: list[str]) -> Iterator[tuple[bool, str]]:
    """For each network whether it is certified, and a line about it."""
    makes = networks()
    for name in names or makes:
        with tempfile.TemporaryDirectory() as folder:
            model, certificate = f"{folder}/{name}.mlir", f"{folder}/{name}.json"
            start = time.perf_counter()
            qmlir.save(makes[name](), model)
            made = time.perf_counter()
            status, said = _said("certify", model, "-o", certificate)
            certified = time.perf_counter()
            if status == 0:
                status, checked = _said("certify", "--check", certificate)
                said = said if status == 0 else checked
            done = time.perf_counter()
        times = (
            f"{made - start:.1f} s to quantize, {certified - made:.1f} s to certify, {done - certified:.1f} s to check"
        )
        yield status == 0, f"{name:17} {said.replace(folder + '/', '')} [{times}]"


def run() -> int:
    """Prints the lines; the status is 1 if a network is refused."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("networks", nargs="*", help="their names; by default all")
    refused = 0
    for holds, line in lines(parser.parse_args().networks):
        sys.stdout.write(line + "\n")
        sys.stdout.flush()
        refused += not holds
    return int(refused > 0)


if __name__ == "__main__":
    sys.exit(run())
