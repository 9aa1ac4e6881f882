"""Remedies of searches for a policy, and of scores of the user's own."""

from pathlib import Path

import numpy as np
import onnx
import pytest

from tests.frontends.onnx.agreement import model, node
from tests.remedies.case import Action, Case, both, check, command, write


def tune(*options: str, network: str = "net.onnx") -> Action:
    """Searches for a policy, for which one network is quantized unless the options say more."""
    return command(" ".join(["tune", network, "--data samples.npy -o t.yaml --results results --most 1", *options]))


def without_classes(folder: Path) -> None:
    """Writes a network whose output is an image."""
    onnx.save(model(node("Reshape", "x s"), {"x": [1, 8]}, {"s": np.array([1, 1, 2, 4])}), folder / "image.onnx")


TOTAL = write("total_of.py", "def outputs(outputs, labels):\n    return outputs.sum()\n")
ANALYZE = "analyze net.onnx q.mlir --data samples.npy --metric total_of:outputs"
CASES = {
    "give a limit within reach, or a larger --most; the int8 network has …": Case(
        tune("--floor sqnr=int8+5"), both(tune("--floor sqnr=int8"), tune("--floor sqnr=int8+5 --most 8"))
    ),
    "name the device behind the colon, as in cycles:nmp": Case(
        tune("--budget cycles=100% --target nmp"), tune("--budget cycles:nmp=100% --target nmp")
    ),
    "give --labels, or labels in Python": Case(
        tune("--floor top1=int8"),
        both(write("labels.txt", "0\n1\n2\n" * 4), tune("--floor top1=int8 --labels labels.txt")),
    ),
    "give --metric, or metric in Python": Case(
        tune("--floor metric=int8"), both(TOTAL, tune("--floor metric=int8 --metric total_of:outputs"))
    ),
    "ask for sqnr or metric": Case(
        both(without_classes, tune("--floor agreement=90", network="image.onnx")),
        both(
            TOTAL,
            tune("--floor sqnr=20", network="image.onnx"),
            tune("--floor metric=int8 --metric total_of:outputs", network="image.onnx"),
        ),
    ),
    "leave it out, or ask for channel: no groups": Case(
        tune("--floor sqnr=int8 --granularity group-32"),
        both(tune("--floor sqnr=int8"), tune("--floor sqnr=int8 --granularity channel")),
    ),
    "give --effect, too": Case(both(TOTAL, command(ANALYZE)), command(ANALYZE + " --effect")),
}


@pytest.mark.slow
@pytest.mark.parametrize("text", CASES)
def test_what_searches_tell_works(text: str, folder: Path) -> None:
    check(text, CASES[text], folder)
