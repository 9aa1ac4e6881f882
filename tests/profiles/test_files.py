"""Profile files: merging shards to the same bytes, Glow's format there and back, and YAML that is wrong."""

from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from qmlir.errors import FileError, ProfileError
from qmlir.numerics.histograms import Moments
from qmlir.profiles.files import glow_name, redistributed, save_glow
from qmlir.profiles.profile import Profile
from qmlir.profiles.tensor_profile import TensorProfile
from qmlir.running.yaml_files import read_yaml

Array = npt.NDArray[Any]

SHAPES = {"x": (5, 3), "y": (2,)}
SAMPLES = [
    {name: (rng.standard_normal((1, *shape)) * 10 ** rng.uniform(-3, 3)).astype(np.float32) for name, shape in SHAPES.items()}  # noqa: E501
    for rng in [np.random.default_rng(1)]
    for _ in range(40)
]  # fmt: skip


def profiled(samples: list[dict[str, Array]], *, per_channel: bool = True) -> Profile:
    found = Profile.empty(SHAPES, 100, keys={"x": "0123456789abcdef"}, per_channel=per_channel)
    for sample in samples:
        found.update(sample)
    return found


@pytest.mark.parametrize("per_channel", [False, True])
def test_ten_shards_in_any_order_are_one_run(per_channel: bool, tmp_path: Path) -> None:
    profiled(SAMPLES, per_channel=per_channel).save(tmp_path / "whole.yaml")
    rng = np.random.default_rng(2)
    cuts = [0, *sorted(rng.choice(np.arange(1, 40), 9, replace=False)), 40]
    for shard, (begin, end) in enumerate(pairwise(cuts)):
        profiled(SAMPLES[begin:end], per_channel=per_channel).save(tmp_path / f"{shard}.yaml")
    for _ in range(4):
        first, *rest = rng.permutation(10)
        merged = Profile.load(tmp_path / f"{first}.yaml")
        for shard in rest:
            merged.merge(Profile.load(tmp_path / f"{shard}.yaml"))
        merged.save(tmp_path / "merged.yaml")
        assert (tmp_path / "merged.yaml").read_bytes() == (tmp_path / "whole.yaml").read_bytes()


def test_what_a_profile_says() -> None:
    found = profiled(SAMPLES).tensors["x"]
    values = np.concatenate([s["x"].reshape(5, 3) for s in SAMPLES]).astype(np.float64)
    assert found.moments is not None
    assert found.channels is not None
    np.testing.assert_allclose(found.moments.mean(found.count), values.mean(), rtol=1e-12)
    np.testing.assert_allclose(found.moments.variance(found.count), values.var(), rtol=1e-12)
    for channel, column in zip(found.channels, values.T, strict=True):
        assert (channel.lo, channel.hi, channel.count) == (column.min(), column.max(), column.size)
        assert channel.moments is not None
        np.testing.assert_allclose(channel.moments.mean(channel.count), column.mean(), rtol=1e-12)
        edges = np.ldexp(np.arange(len(channel.counts) + 1.0) + channel.first, channel.exponent)
        np.testing.assert_array_equal(channel.counts, np.histogram(column, edges)[0])
    np.testing.assert_allclose(found.average_range[0], np.mean([s["x"].min() for s in SAMPLES], dtype=np.float64))


def test_tensors_and_channels_that_never_change_are_named() -> None:
    found = Profile.empty(SHAPES, per_channel=True)
    found.update({"x": np.array([[[1, 2, 3]] * 5], np.float32), "y": np.zeros((1, 2), np.float32)})
    found.update({"x": np.array([[[1, 5, 3]] * 5], np.float32), "y": np.zeros((1, 2), np.float32)})
    assert list(found.dead()) == ["x", "y"]
    assert not found.tensors["x"].is_dead
    assert found.tensors["x"].dead_channels() == [0, 2]
    assert found.tensors["y"].is_dead


def test_shards_of_other_options_do_not_merge() -> None:
    with pytest.raises(ProfileError, match='one where tensor "x" has other channels'):
        profiled(SAMPLES).merge(profiled(SAMPLES, per_channel=False))
    other = profiled(SAMPLES)
    other.tensors["x"].key = "another"
    with pytest.raises(ProfileError, match='one where tensor "x" is computed in another way'):
        profiled(SAMPLES).merge(other)


def test_broken_channels_are_named(tmp_path: Path) -> None:
    profiled(SAMPLES[:1]).save(tmp_path / "p.yaml")
    text = (tmp_path / "p.yaml").read_text()
    (tmp_path / "p.yaml").write_text(text.replace("    - count: 5\n", "    - count: 7\n", 1))
    with pytest.raises(FileError, match=r'p.yaml:\d+:\d+: .*tensor "x": channel 0: counts that do not add up'):
        Profile.load(tmp_path / "p.yaml")
    (tmp_path / "p.yaml").write_text(text.replace("shape: [5, 3]", "shape: [5, 4]"))
    with pytest.raises(FileError, match='tensor "x": 3 channels where the shape has 4'):
        Profile.load(tmp_path / "p.yaml")


def test_unknown_moments_stay_unknown() -> None:
    one, other = profiled(SAMPLES[:3]), profiled(SAMPLES[3:])
    other.tensors["x"].moments = None
    one.merge(other)
    assert one.tensors["x"].moments is None
    assert isinstance(one.tensors["y"].moments, Moments)


# ---------------------------------------------------------------------------------------------------------------
# Glow's


def test_glow_there_and_back(tmp_path: Path) -> None:
    found = profiled(SAMPLES)
    save_glow(found, tmp_path / "glow.yaml", bins=50)
    again = Profile.load(tmp_path / "glow.yaml")
    assert list(again.tensors) == ["x:0", "y:0"]
    for (name, tensor), shape in zip(found.tensors.items(), SHAPES.values(), strict=True):
        back = again.tensors[glow_name(name)]
        assert (back.lo, back.hi, back.count) == (tensor.lo, tensor.hi, len(SAMPLES) * np.prod(shape))
        assert back.moments is None
        # Each way spreads a bin over others: what lies below a value moves by two bins' worth at most.
        value = tensor.lo + (tensor.hi - tensor.lo) * 0.52
        assert abs(below(tensor, value) - below(back, value)) <= np.histogram(values(name), 50)[0].max()


def values(name: str) -> Array:
    return np.concatenate([s[name].ravel() for s in SAMPLES])


def below(tensor: TensorProfile, value: float) -> int:
    return int(tensor.counts[: int(value // 2.0**tensor.exponent) - tensor.first].sum())


def test_what_glow_writes_is_read_to_the_last_digit(tmp_path: Path) -> None:
    value = float(np.float32(2**-40 / 3))
    found = Profile.empty({"t": (1,)})
    found.update({"t": np.array([value, 0.0], np.float32)})
    save_glow(found, tmp_path / "glow.yaml")
    assert "e-" not in (tmp_path / "glow.yaml").read_text().partition("Max")[2]
    assert Profile.load(tmp_path / "glow.yaml").tensors["t:0"].hi == value


@pytest.mark.parametrize(
    ("name", "expected"),
    [("a/b.c", "a_b_c:0"), ("1", "A1:0"), ("", "A:0"), ("_x", "_x:0"), ("ü", "_:0")],
)
def test_names_for_glow(name: str, expected: str) -> None:
    assert glow_name(name) == expected


@pytest.mark.parametrize("seed", range(20))
def test_counts_are_kept_in_other_bins(seed: int) -> None:
    rng = np.random.default_rng(seed)
    old = np.sort(rng.uniform(-1, 1, 9))
    heights = rng.integers(0, 50, len(old) - 1).astype(float)
    new = np.linspace(-1, 1, 7)
    counts = redistributed(old, heights, new)
    assert counts.sum() == heights.sum()
    assert (counts >= 0).all()
    for edge in range(7):  # no more of it moves than a bin's share, and the rounding
        inside, touched = heights[old[1:] <= new[edge]].sum(), heights[old[:-1] <= new[edge]].sum()
        assert inside - 1 <= counts[:edge].sum() <= touched + 1


def test_what_lies_on_the_ends_stays_there() -> None:
    assert redistributed(np.array([0.0, 0, 1, 2, 2]), np.array([5.0, 2, 2, 7]), np.array([0.0, 1, 2])).tolist() == [
        7,
        9,
    ]
    assert redistributed(np.array([1.0, 1]), np.array([5.0]), np.array([0.0, 1, 2])).tolist() == [0, 5]


GLOW = """---
GlowToolsVersion: ''
...
---
GraphPreLowerHash: 0x1
...
---
- NodeOutputName:  'x:0'
  Min:             0.5
  Max:             1.5
  Histogram:       [ 1, 2 ]
...
"""


@pytest.mark.parametrize(
    ("old", "new", "got"),
    [
        ("0.5", "2.5", "entry 0 of it with Min 2.5 and Max 1.5"),
        ("0.5", ".nan", "entry 0 of it with Min nan"),
        ("[ 1, 2 ]", "[ 1, -2 ]", "a Histogram that is no list of counts"),
        ("[ 1, 2 ]", "[ 1, b ]", "entry 0 of it with"),
        ("Min:", "Low:", "entry 0 of it with 'Min'"),
        ("GraphPreLowerHash: 0x1\n...\n---\n", "", "got 2 documents"),
    ],
)
def test_a_broken_file_of_glow(old: str, new: str, got: str, tmp_path: Path) -> None:
    (tmp_path / "glow.yaml").write_text(GLOW.replace(old, new))
    with pytest.raises(FileError, match=r"as Glow writes|whole profile of Glow's") as error:
        Profile.load(tmp_path / "glow.yaml")
    assert got in str(error.value)


def test_a_tensor_of_one_value_and_one_without_a_histogram(tmp_path: Path) -> None:
    (tmp_path / "glow.yaml").write_text(GLOW.replace("0.5", "1.5"))
    found = Profile.load(tmp_path / "glow.yaml").tensors["x:0"]
    assert (found.count, found.counts.tolist()) == (3, [3])
    (tmp_path / "glow.yaml").write_text(GLOW.replace("[ 1, 2 ]", "[]"))
    found = Profile.load(tmp_path / "glow.yaml").tensors["x:0"]
    assert (found.count, found.counts.tolist()) == (1, [])


# ---------------------------------------------------------------------------------------------------------------
# YAML in general


@pytest.mark.parametrize(
    ("text", "got"),
    [
        ("a: [1, 2\n", "t.yaml:2:1: "),
        ("a: 1\n b: 2\n", "t.yaml:2:3: "),
        ("a: &x 1\nb: *y\n", "t.yaml:2:4: "),
        ("a: !!python/object:os.system 1\n", "t.yaml:1:4: "),
        ("a: 2020-99-99\n", "month must be in 1..12"),
        ("[" * 5000, "t.yaml"),
        ("a: \x01", "t.yaml"),
    ],
)
def test_malformed_yaml_names_the_place(text: str, got: str, tmp_path: Path) -> None:
    (tmp_path / "t.yaml").write_text(text)
    with pytest.raises(FileError, match="must be a list of cats in YAML") as error:
        read_yaml(tmp_path / "t.yaml", "a list of cats", remedy="ask the cats")
    assert got in str(error.value)
    assert "\n" not in str(error.value)


def test_places(tmp_path: Path) -> None:
    (tmp_path / "t.yaml").write_text("rules:\n  - a: 1\n    b: {c: 2}\n  - a: 1\n    a: 2\n")
    file = read_yaml(tmp_path / "t.yaml", "rules", remedy="")
    assert file.place("rules", 0, "b", "c").endswith("t.yaml:3:12")
    assert file.place("rules", 7).endswith("t.yaml:2:3")
    assert (repeated := file.repeated_key()) is not None
    assert repeated == (f"{tmp_path / 't.yaml'}:5:5", "a")


@pytest.mark.parametrize("number", ["1e-3", "1E-3", ".001", "0.001", "1.e-3"])
def test_numbers_are_read_however_they_are_written(number: str, tmp_path: Path) -> None:
    path = tmp_path / "p.yaml"
    path.write_text(f"format: qmlir-profile-1\ntensors:\n  1e-3: {{range: [-{number}, {number}]}}\n")
    assert {name: (t.lo, t.hi) for name, t in Profile.load(path).tensors.items()} == {"1e-3": (-0.001, 0.001)}
