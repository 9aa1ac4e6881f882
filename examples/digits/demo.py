"""The main job on real digits: profile, quantize, compile, run and certify, with what each step decided and reached.

    python examples/digits/demo.py [--schema symmetric]

`train.py` beside it made `digits.onnx` and `digits.npz` from scikit-learn's handwritten digits.
"""

import argparse
import time
from pathlib import Path
from typing import Any, get_args

import numpy as np
from rich.console import Console
from rich.table import Table

import qmlir
from qmlir.analysis.counts import decided
from qmlir.cli import main as command_line
from qmlir.cli.ledger import print_decisions
from qmlir.numerics.schemas import Schema

HERE = Path(__file__).resolve().parent

REPORT = HERE.parent.parent / "build" / "digits.html"
"""Where the report goes."""


def main() -> None:
    """Runs the demo and prints what came out."""
    parser = argparse.ArgumentParser(description="Quantize and compile the digits network.")
    parser.add_argument("--schema", choices=get_args(Schema), default="asymmetric", help="how ranges become scales")
    schema: str = parser.parse_args().schema
    console = Console()
    data = np.load(HERE / "digits.npz")
    images, labels = data["test_images"], data["test_labels"]

    network = qmlir.load(HERE / "digits.onnx")
    profile = qmlir.profile(network, (image[None] for image in data["calibration_images"]))
    console.print(f"Profiled {len(profile.tensors)} tensors on {profile.samples} images.")
    quantized = qmlir.quantize(network, profile, schema=schema)
    console.rule(f"what was decided, schema {schema}")
    print_decisions(decided(quantized), console, whole=True)

    floats = qmlir.compile(qmlir.Pipeline("simplify")(network))
    integers = qmlir.compile(quantized)
    reference = qmlir.reference(quantized)
    console.rule(f"what came out, on {len(images)} images")
    table = Table("", "accuracy", "weights", "scratch memory", "code", "latency", box=None)
    results: dict[str, list[Any]] = {}
    for name, network_code in (("float", floats), ("integer", integers)):
        outputs, latency = _run(network_code, images)
        accuracy = 100 * float(np.mean([o.argmax() == y for o, y in zip(outputs, labels, strict=True)]))
        sizes = network_code.sizes
        row = (f"{accuracy:.2f} %", f"{sizes.weights} bytes", f"{sizes.arena} bytes", f"{sizes.code} bytes")
        table.add_row(name, *row, f"{1e6 * latency:.0f} us")
        results[name] = outputs
    console.print(table)
    same = sum(np.array_equal(o, reference(image[None])) for o, image in zip(results["integer"], images, strict=True))
    agree = sum(a.argmax() == b.argmax() for a, b in zip(results["float"], results["integer"], strict=True))
    console.print(f"{agree} of {len(images)} decisions as in float.")
    console.print(f"{same} of {len(images)} outputs of the machine code equal the numpy reference bit for bit.")

    console.rule("something to look at")
    samples = [image[None] for image in images]
    names = ["float", f"int8, {schema}"]
    report = qmlir.report(
        network, quantized, data=samples, labels=labels, profile=profile, seconds=0.3, names=names, title="digits"
    )
    REPORT.parent.mkdir(exist_ok=True)
    report.save(REPORT)
    console.print("A page with the graph, the error of each layer and its distributions; open it in a browser:")
    console.print(str(REPORT), soft_wrap=True)

    console.rule("integers only, with a proof")
    qmlir.save(quantized, REPORT.with_suffix(".mlir"))
    certificate = str(REPORT.with_suffix(".json"))
    command_line.main(["certify", str(REPORT.with_suffix(".mlir")), "-o", certificate])
    command_line.main(["certify", "--check", certificate])


def _run(network: Any, images: Any) -> tuple[list[Any], float]:
    """The outputs for all images and the median seconds a call took."""
    outputs: list[Any] = []
    seconds: list[float] = []
    for image in images:
        start = time.perf_counter()
        outputs.append(network(image[None]))
        seconds.append(time.perf_counter() - start)
    return outputs, float(np.median(seconds))


if __name__ == "__main__":
    main()
