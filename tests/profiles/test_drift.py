"""How far tensors move from one profile to another."""

import json
import math
from pathlib import Path

import numpy as np
import pytest

import qmlir
from qmlir.profiles.drift import Drift, profile_drift
from qmlir.profiles.profile import Profile
from tests.cli.small import Small, run, write_small

rng = np.random.default_rng(5)


def profile_of(values: np.ndarray, name: str = "x", key: str = "k", *, bins: int = 2000) -> Profile:
    profile = Profile.empty({name: values.shape[1:]}, bins, keys={name: key})
    for sample in values.astype(np.float32):
        profile.update({name: sample})
    return profile


def test_figures_are_those_of_the_values() -> None:
    before, after = rng.normal(0, 1, (40, 500)), rng.normal(0.5, 2, (40, 500))
    (moved,) = profile_drift(profile_of(before), profile_of(after)).tensors
    assert (moved.before_lo, moved.before_hi) == (np.float32(before.min()), np.float32(before.max()))
    assert (moved.lo, moved.hi) == (np.float32(after.min()), np.float32(after.max()))
    span = before.max() - before.min()
    assert moved.change == pytest.approx(
        max(abs(after.min() - before.min()), abs(after.max() - before.max())) / span, rel=1e-6
    )
    assert moved.shift == pytest.approx((after.mean() - before.mean()) / before.std(), rel=1e-5)
    assert moved.outside == pytest.approx(((after < before.min()) | (after > before.max())).mean(), abs=2e-3)
    points = np.sort(np.concatenate([before.ravel(), after.ravel()]))
    below = [np.searchsorted(np.sort(each.ravel()), points, "right") / each.size for each in (before, after)]
    assert moved.distance == pytest.approx(np.abs(below[0] - below[1]).max(), abs=5e-3)


def test_a_profile_has_not_moved_from_itself() -> None:
    profile = profile_of(rng.normal(0, 1, (3, 50)))
    (moved,) = profile_drift(profile, profile).tensors
    assert (moved.change, moved.outside, moved.shift, moved.distance) == (0, 0, 0, 0)


def test_tensors_that_never_change_and_those_that_are_far_apart() -> None:
    still, up = profile_of(np.full((2, 4), 3.0)), profile_of(np.full((2, 4), 700.0))
    (moved,) = profile_drift(still, up).tensors
    assert (moved.change, moved.outside, moved.shift, moved.distance) == (math.inf, 1, None, 1)
    assert "∞" in str(profile_drift(still, up))
    (moved,) = profile_drift(still, still).tensors
    assert moved.change == 0


def test_bins_of_any_width_are_compared() -> None:
    values = rng.normal(0, 1, (5, 400))
    (moved,) = profile_drift(profile_of(values, bins=2000), profile_of(values * 1.001, bins=60)).tensors
    assert moved.distance is not None
    assert moved.distance < 0.05


def test_renamed_tensors_are_found_and_others_are_told() -> None:
    values = rng.normal(0, 1, (2, 8))
    drift = profile_drift(profile_of(values, "old"), profile_of(values, "new"))
    assert [(each.before, each.tensor) for each in drift.tensors] == [("old", "new")]
    assert "new (was old)" in str(drift)
    drift = profile_drift(profile_of(values, "old", "k"), profile_of(values, "new", "l"))
    assert (drift.tensors, drift.gone, drift.new) == ([], ["old"], ["new"])
    both = Profile.empty({"a": (8,), "b": (8,)}, keys={"a": "k", "b": "k"})
    both.update({"a": values[0].astype(np.float32), "b": values[1].astype(np.float32)})
    assert profile_drift(both, profile_of(values, "new")).gone == ["a", "b"]  # which of them it was, nobody knows


def test_profiles_by_hand_have_ranges_only(tmp_path: Path) -> None:
    for name, hi in (("a", 2.0), ("b", 3.0)):
        (tmp_path / f"{name}.yaml").write_text(f"format: qmlir-profile-1\ntensors: {{x: {{range: [0.0, {hi}]}}}}\n")
    (moved,) = qmlir.profile_drift(tmp_path / "a.yaml", tmp_path / "b.yaml").tensors
    assert (moved.change, moved.outside, moved.shift, moved.distance) == (0.5, None, None, None)


@pytest.fixture
def profiles(tmp_path: Path) -> Small:
    small = write_small(tmp_path)
    np.savez(small / "louder.npz", image=small.samples * 2)
    for data in ("data", "louder"):
        assert run("profile", small.onnx, "--data", small / f"{data}.npz", "-o", small / f"{data}.yaml", "-q") == 0
    return small


def test_the_command_prints_what_the_function_returns(profiles: Small, capsys: pytest.CaptureFixture[str]) -> None:
    files = (profiles / "data.yaml", profiles / "louder.yaml")
    assert run("profile", "diff", *files) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split()[:3] == ["tensor", "range", "before"]
    assert lines[-1] == "4 tensors compared, over 6 samples before and 6 after; 0 no longer there, 0 new"
    assert run("profile", "diff", *files, "--json") == 0
    document = json.loads(capsys.readouterr().out)
    drift: Drift = qmlir.profile_drift(*files)
    assert document["tensors"] == [each.as_dict() for each in drift.tensors]
    image = next(each for each in drift.tensors if each.tensor == "image")
    assert image.lo == 2 * image.before_lo
    assert document["samples"] == document["samples_before"] == 6


def test_what_is_no_profile_is_an_error(profiles: Small, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("profile", "diff", profiles / "data.yaml", profiles.onnx) == 1
    assert "small.onnx: must be a profile in YAML" in capsys.readouterr().err
