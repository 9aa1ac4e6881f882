"""Remedies about plugins: functions of the program, and packages that are not what they should be."""

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import numpy as np
import onnx
import pytest
from xdsl.passes import ModulePass

import qmlir
from qmlir.plugins import CALIBRATIONS, PASSES, installed
from tests.frontends.onnx.agreement import floats, model, node
from tests.packages import install
from tests.packages import site as site
from tests.remedies.case import Action, Case, both, check, command, opt


def registers(name: str, function: object) -> Action:
    return lambda f: qmlir.register_calibration(name, cast(Any, function))


def installs(name: str, entries: Mapping[str, Mapping[str, str]], sources: Mapping[str, str] | None = None) -> Action:
    """Installs a package into the folder of `site`, where Python searches."""

    def run(folder: Path) -> None:
        install(folder.parent / "site", name, entries, sources)
        installed.cache_clear()

    return run


def uninstalls(folder: Path) -> None:
    shutil.rmtree(folder.parent / "site")
    installed.cache_clear()


class NothingPass(ModulePass):
    """Does nothing."""

    name = "nothing"

    def apply(self, ctx: object, op: object) -> None:
        pass


def rounds(*options: str) -> Action:
    """Rounds weights down."""
    return both(
        lambda f: qmlir.register_rounding("down", lambda layer: np.clip(np.floor(layer.weights), -127, 127)),
        command(" ".join(["quantize net.onnx --profile net.yaml -o o.mlir --rounding down", *options])),
    )


def rounds_few(rounding: str, options: str) -> Action:
    """Quantizes a layer with sums of 64 terms, with weights of 4 bits."""
    layer = model(node("MatMul", "x w"), {"x": [1, 64]}, {"w": floats(64, 8)})
    return both(
        lambda f: onnx.save(layer, f / "wide.onnx"),
        lambda f: np.save(f / "wide.npy", np.stack([floats(1, 64, seed=i) for i in range(8)])),
        lambda f: qmlir.register_rounding("down", lambda layer: np.clip(np.floor(layer.weights), -7, 7)),
        command(
            f"quantize wide.onnx --data wide.npy -o w.mlir --weight-precision int4 --rounding {rounding} {options}"
        ),
    )


QUANTIZE = "quantize net.onnx --profile net.yaml -o o.mlir --calibration"
BROKEN = installs("broken", {PASSES: {"broken": "broken:it"}}, {"broken": "1 / 0"})
CASES = {
    "repair it, or choose another": Case(
        both(registers("mine", lambda search: None), command(f"{QUANTIZE} mine")),
        both(
            both(registers("mine", lambda search: (search.low, search.high)), command(f"{QUANTIZE} mine")),
            command(f"{QUANTIZE} mse"),
        ),
    ),
    "give samples with --data (in Python data=), or leave the option out": Case(
        rounds(), both(rounds("--data samples.npy"), command("quantize net.onnx --profile net.yaml -o o.mlir"))
    ),
    "drop --glow-exact": Case(
        rounds("--data samples.npy --glow-exact --calibration minmax"),
        rounds("--data samples.npy --calibration minmax"),
    ),
    "ask for rounding=auto, or granularity=channel": Case(
        rounds_few("down", "--granularity group-32"),
        both(rounds_few("auto", "--granularity group-32"), rounds_few("down", "--granularity channel")),
    ),
    "ask for rounding=auto or rounding=gptq, or weight-levels=even": Case(
        both(rounds_few("down", "--weight-levels even"), rounds_few("adaround", "--weight-levels codebook")),
        both(
            rounds_few("auto", "--weight-levels codebook"),
            both(
                rounds_few("gptq", "--weight-levels codebook"),
                both(rounds_few("adaround", "--weight-levels even"), rounds_few("down", "--weight-levels even")),
            ),
        ),
    ),
    "rename it": Case(
        registers("kl", lambda search: (search.low, search.high)),
        registers("my-kl", lambda search: (search.low, search.high)),
    ),
    "rename or uninstall one of the two": Case(
        both(installs("taker", {CALIBRATIONS: {"kl": "taker:kl"}}), command(f"{QUANTIZE} kl")),
        both(uninstalls, command(f"{QUANTIZE} kl")),
    ),
    "repair or uninstall the package": Case(
        both(BROKEN, opt("--broken q.mlir")), both(uninstalls, opt("--canonicalize q.mlir"))
    ),
    "derive a class from xdsl.passes.ModulePass": Case(
        lambda f: qmlir.Pipeline(cast(Any, lambda module: None)), lambda f: qmlir.Pipeline(NothingPass)
    ),
}


@pytest.mark.parametrize("text", CASES)
def test_what_is_told_about_plugins_works(text: str, folder: Path, site: Path) -> None:
    check(text, CASES[text], folder)
