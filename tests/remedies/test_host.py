"""The remedy of what runs on a device's host: the key of the device file with which the ledger's sentence ends."""

import re
import tomllib
from pathlib import Path

import numpy as np
import onnx
import pytest

import qmlir
from qmlir.policies.ledger import REMEDIES, Entry
from tests.devices.test_limits import TARGETS
from tests.frontends.onnx.agreement import floats, model, node

SHAPE = (1, 4, 16, 16)
FILTER = {"w": floats(4, 4, 3, 3)}
CASES = {
    "ops.conv2d.stride_max": (
        "ethos-u55-like",
        [node("Conv", "a w", strides=[4, 4])],
        "stride_max = 3",
        "stride_max = 4",
    ),
    "ops.conv2d.dilation_max": (
        "ethos-u55-like",
        [node("Conv", "a w", dilations=[3, 3])],
        "dilation_max = 2",
        "dilation_max = 3",
    ),
    "ops.maxpool.stride_max": (
        "ethos-u55-like",
        [node("MaxPool", "a", kernel_shape=[2, 2], strides=[5, 5])],
        "maxpool = { kernel_max = [256, 256], stride_max = 3",
        "maxpool = { kernel_max = [256, 256], stride_max = 5",
    ),
    "ops.mul": ("ethos-u55-like", [node("Mul", "a a")], "", "mul = {}"),
}
"""Key → device, nodes, what its file says of the key ("" where it lacks it), and what lets the device compute them."""


def hosted(network: Path, device: str | Path) -> list[Entry]:
    """The operations, but data movement, that the host computes."""
    samples = [np.random.default_rng(0).normal(size=SHAPE).astype(np.float32)]
    module = qmlir.quantize(network, qmlir.profile(network, samples), target=device)
    entries = qmlir.compile(module, target=device).ledger
    assert any(e.code in ("host", "device") for e in entries)
    return [e for e in entries if e.code == "host" and e.operation != "nn.transpose"]


@pytest.mark.parametrize("key", CASES)
def test_the_key_that_the_sentence_ends_with_is_the_one_to_change(key: str, tmp_path: Path) -> None:
    name, nodes, line, changed = CASES[key]
    text = (TARGETS / f"{name}.toml").read_text("utf-8")
    strict = text if line else re.sub(rf"^{re.escape(changed)}\n", "", text, flags=re.MULTILINE)
    (tmp_path / "strict.toml").write_text(strict, "utf-8")
    onnx.save(model([node("Add", "x x", "a"), *nodes], {"x": list(SHAPE)}, FILTER), tmp_path / "network.onnx")

    found = hosted(tmp_path / "network.onnx", tmp_path / "strict.toml")
    assert [e.remedy for e in found] == [REMEDIES["host"]] * len(found)
    assert any(e.reason.endswith(f"({key})") for e in found), found

    wide = text.replace(line, changed, 1) if line else text
    assert tomllib.loads(wide) != tomllib.loads(strict)
    (tmp_path / "wide.toml").write_text(wide, "utf-8")
    assert hosted(tmp_path / "network.onnx", tmp_path / "wide.toml") == []
