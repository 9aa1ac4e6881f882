"""Profiles of a network whose tensors have got other names since."""

import re
from pathlib import Path

import numpy as np
import onnx
import pytest

import qmlir
from qmlir.errors import ProfileError, QmlirWarning
from qmlir.profiles.profile import Profile
from qmlir.transforms.quantize.ranges.apply_profile import apply_profile
from qmlir.transforms.quantize.ranges.observers import observers
from tests.cli.small import Small, run, write_small
from tests.frontends.onnx.agreement import floats, model, node


def renamed(proto: onnx.ModelProto, prefix: str = "t") -> onnx.ModelProto:
    """A model with other names for all of its tensors and nodes."""
    text = onnx.ModelProto()
    text.CopyFrom(proto)
    names = {n for each in proto.graph.node for n in (*each.input, *each.output)}
    new = {name: f"{prefix}{number}" for number, name in enumerate(sorted(names), 3)}
    for each in text.graph.node:
        each.name = f"n_{each.name}"
        for side in (each.input, each.output):
            side[:] = [new[name] for name in side]
    for each in (*text.graph.input, *text.graph.output, *text.graph.initializer):
        each.name = new[each.name]
    return text


def ranges_of(module: "qmlir.ModuleOp") -> list[object]:
    (function,) = module.ops
    return [observer.range for observer in observers(function)]


@pytest.fixture
def small(tmp_path: Path) -> Small:
    small = write_small(tmp_path)
    onnx.save(renamed(onnx.load(small.onnx)), small / "renamed.onnx")
    assert run("profile", small.onnx, "--data", small.data, "-o", small / "p.yaml", "-q") == 0
    return small


@pytest.mark.parametrize("switch", [(), ("--profile-by-name",), ("--partial-profile",)])
def test_a_profile_survives_other_names(
    switch: tuple[str, ...], small: Small, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ("--profile", small / "p.yaml", *switch, "-o")
    assert run("quantize", small / "renamed.onnx", *command, small / "r.mlir") == 0
    out = capsys.readouterr().out
    assert "4 of 4 tensors found in the profile" in out
    assert re.search(r'  renamed: "t\d+" is "image" there', out)
    assert "not used" not in out
    assert run("quantize", small.onnx, *command, small / "q.mlir") == 0
    samples = [sample[None] for sample in small.samples]
    found = [qmlir.compile(small / f"{name}.mlir").run_all(samples) for name in "rq"]
    np.testing.assert_array_equal(found[0], found[1])


def test_a_tensor_is_found_by_its_name_first(small: Small) -> None:
    profile = Profile.load(small / "p.yaml")
    module = qmlir.load(small.onnx)
    report = apply_profile(module, profile)
    assert report.renamed == {}


def test_by_name_takes_what_is_computed_in_another_way(small: Small) -> None:
    profile = Profile.load(small / "p.yaml")
    for tensor in profile.tensors.values():
        tensor.key = "0" * 16
    with pytest.raises(ProfileError, match="is computed in another way when it was profiled"):
        apply_profile(qmlir.load(small.onnx), profile)
    assert len(apply_profile(qmlir.load(small.onnx), profile, by_name=True).matched) == 4


def branches(count: int) -> onnx.ModelProto:
    """Products of one input with matrices of one shape, and their sum."""
    weights = {f"w{number}": floats(8, 8) * (number + 1) for number in range(count)}
    products = [node("MatMul", f"x w{number}", f"b{number}") for number in range(count)]
    return model([*products, node("Sum", " ".join(f"b{number}" for number in range(count)))], {"x": [1, 8]}, weights)


def test_parallel_branches_are_taken_in_order_with_a_warning(tmp_path: Path) -> None:
    onnx.save(branches(3), tmp_path / "net.onnx")
    onnx.save(renamed(branches(3), "u"), tmp_path / "renamed.onnx")
    samples = [floats(1, 8) for _ in range(3)]
    profile = qmlir.profile(tmp_path / "net.onnx", samples)
    first, second = qmlir.load(tmp_path / "net.onnx"), qmlir.load(tmp_path / "renamed.onnx")
    apply_profile(first, profile)
    with pytest.warns(QmlirWarning, match=r'"b0", "b1", "b2", and are computed in the same way, so that they were tak'):
        apply_profile(second, profile)
    assert ranges_of(first) == ranges_of(second)


def test_a_branch_more_is_refused_and_told(tmp_path: Path) -> None:
    onnx.save(branches(3), tmp_path / "net.onnx")
    onnx.save(renamed(branches(2), "u"), tmp_path / "two.onnx")
    profile = qmlir.profile(tmp_path / "net.onnx", [floats(1, 8)])
    with pytest.raises(ProfileError, match='is not there; "b0", "b1", "b2" are computed in the same way'):
        apply_profile(qmlir.load(tmp_path / "two.onnx"), profile)
