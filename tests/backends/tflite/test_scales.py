"""Scales at which LiteRT's kernels on bytes end the process or refuse a file: operations are computed on floats."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp

import qmlir
from qmlir.errors import UnsupportedError
from qmlir.policies.runtimes import follow
from tests.backends.quantized_text import network
from tests.backends.tflite.runtime import kinds

RUN = """
import sys
from pathlib import Path
import numpy as np
from tests.backends.tflite.runtime import LiteRT
inputs = [np.load(name) for name in sys.argv[3:]]
np.save("result.npy", LiteRT(Path(sys.argv[1]), reference=sys.argv[2] == "True").run(inputs)[0])
"""
"""Runs a file in a process of its own, which a failed check of a kernel ends."""

SIGNED = {"softmax": "0.00390625:-128", "log_softmax": "0.0625:127"}
UNSIGNED = {"softmax": "0.00390625", "log_softmax": "0.0625:255"}


def along(operation: str, storage: str, scale: str) -> ModuleOp:
    result = (SIGNED if storage == "i8" else UNSIGNED)[operation]
    x, y = (f"tensor<2x8x!quant.uniform<{storage}:f32, {s}>>" for s in (scale, result))
    return network(f"""
      func.func @main(%x: {x}) -> {y} {{
        %y = nn.{operation} %x {{axis = 1 : i64}} : {x} -> {y}
        func.return %y : {y}
      }}""")


def swish(scale: str, result: str) -> ModuleOp:
    x, y = (f"tensor<2x8x!quant.uniform<i8:f32, {s}>>" for s in (scale, result))
    return network(f"""
      func.func @main(%x: {x}) -> {y} {{
        %y = nn.hard_swish %x : {x} -> {y}
        func.return %y : {y}
      }}""")


def difference(scale: str, result: str) -> ModuleOp:
    x, y = (f"tensor<2x8x!quant.uniform<i8:f32, {s}>>" for s in (scale, result))
    return network(f"""
      func.func @main(%x: {x}, %z: {x}) -> {y} {{
        %y = nn.squared_difference %x, %z : {x}, {x} -> {y}
        func.return %y : {y}
      }}""")


def layer(weights: str) -> ModuleOp:
    x, w = "tensor<2x8x!quant.uniform<i8:f32, 1.0>>", f"tensor<1x8x!quant.uniform<i8<-127:127>:f32, {weights}>>"
    y = "tensor<2x1x!quant.uniform<i8:f32, 0.5>>"
    return network(f"""
      func.func @main(%x: {x}) -> {y} {{
        %w = nn.constant <tensor<1x8xi8>, [1, -2, 3, 4, -5, 6, 7, 8]> : {w}
        %y = nn.fully_connected %x, %w : {x}, {w} -> {y}
        func.return %y : {y}
      }}""")


CASES = {
    **{f"{operation} {storage} {scale}": (along(operation, storage, scale), operation.upper(), on_bytes)
       for operation in SIGNED for storage in ("i8", "u8")
       for scale, on_bytes in (("1.0e-30", False), ("1.4901161193847656e-08", False), ("2.0e-08", True))},
    "squared difference 2^-12": (difference("1.0", "0.000244140625"), "SQUARED_DIFFERENCE", False),
    "squared difference": (difference("1.0", "0.000245"), "SQUARED_DIFFERENCE", True),
    "hard swish 2^-7": (swish("1.0", "0.0078125"), "HARD_SWISH", False),
    "hard swish": (swish("1.0", "0.0079"), "HARD_SWISH", True),
    "layer": (layer("127.0"), "FULLY_CONNECTED", True),
}  # fmt: skip


@pytest.mark.parametrize("reference", [True, False], ids=["reference", "default"])
@pytest.mark.parametrize("name", CASES)
def test_litert_runs_the_file(name: str, *, reference: bool, tmp_path: Path) -> None:
    module, kind, on_bytes = CASES[name]
    qmlir.export(module, tmp_path / "m.tflite")
    assert kinds(tmp_path / "m.tflite") == (
        [kind] if on_bytes else [*["DEQUANTIZE"] * _count(module), kind, "QUANTIZE"]
    )
    numerics = "litert-reference" if reference else "litert-xnnpack"
    module = module.clone()
    follow(module, numerics)
    network = qmlir.reference(module)
    random, given, files = np.random.default_rng(0), dict[str, np.ndarray](), list[str]()
    for spec in network.signature.inputs:
        limits = np.iinfo(spec.dtype)
        given[spec.name] = random.integers(limits.min, limits.max + 1, spec.shape).astype(spec.dtype)
        files.append(str(tmp_path / f"{spec.name}.npy"))
        np.save(files[-1], given[spec.name])
    run = [sys.executable, "-c", f"import os, sys; sys.path.insert(0, os.getcwd()); os.chdir({str(tmp_path)!r})\n{RUN}"]
    subprocess.run([*run, "m.tflite", str(reference), *files], check=True, capture_output=True)
    ours, theirs = network.run(given)[0], np.load(tmp_path / "result.npy")
    assert np.abs(ours.astype(int) - theirs.astype(int)).max() <= (0 if on_bytes else 1)


def _count(module: ModuleOp) -> int:
    return len(qmlir.reference(module).signature.inputs)


def test_factors_that_xnnpack_has_no_multiplier_for(tmp_path: Path) -> None:
    with pytest.raises(
        UnsupportedError, match="needs s_x · s_w / s_y below 256 beside bytes, got 256; give its result"
    ):
        qmlir.export(layer("128.0"), tmp_path / "m.tflite")


def test_a_scale_beyond_the_sigmoids_multiplier() -> None:
    """The kernel's multiplier would not fit 31 bits; the operation is computed on floats."""
    x, y = "tensor<5x!quant.uniform<i16:f32, 1.0e+30>>", "tensor<5x!quant.uniform<i16:f32, 0.000030517578125>>"
    module = network(f"""
      func.func @main(%x: {x}) -> {y} {{
        %y = nn.sigmoid %x : {x} -> {y}
        func.return %y : {y}
      }}""")
    follow(module, "litert-reference")
    found = qmlir.reference(module)(np.array([-32768, -1, 0, 1, 32767], np.int16))
    assert found.tolist() == [0, 0, 16384, 32767, 32767]
