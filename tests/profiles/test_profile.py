"""Profiles: histograms that depend on the data alone, exact merging, files bit for bit, and what is refused."""

from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from qmlir.compiler import Pipeline, profile, quantize
from qmlir.errors import FileError, OptionError, ProfileError
from qmlir.profiles.profile import Profile
from qmlir.profiles.tensor_profile import TensorProfile, grid
from qmlir.transforms.quantize.ranges.apply_profile import apply_profile
from qmlir.transforms.quantize.ranges.observers import observers
from tests.transforms.quantize.calibrated import parsed

Array = npt.NDArray[Any]

finite = st.floats(width=32, allow_nan=False, allow_infinity=False)
similar = st.floats(-8, 8, width=32)
batches = st.lists(st.lists(st.one_of(similar, finite), min_size=1, max_size=8), min_size=1, max_size=8)


def profiled(samples: Sequence[Sequence[float]], bins: int = 16) -> Profile:
    found = Profile.empty({"x": (8,)}, bins)
    for sample in samples:
        found.update({"x": np.array(sample, np.float32)})
    return found


def state(found: TensorProfile) -> tuple[Any, ...]:
    return found.count, repr(found.lo), repr(found.hi), found.exponent, found.first, found.counts.tolist()


# ---------------------------------------------------------------------------------------------------------------
# Histograms


@given(batches, st.randoms(use_true_random=False), st.integers(2, 40))
def test_order_does_not_matter(samples: list[list[float]], random: Any, bins: int) -> None:
    shuffled = [random.sample(s, len(s)) for s in random.sample(samples, len(samples))]
    assert state(profiled(samples, bins).tensors["x"]) == state(profiled(shuffled, bins).tensors["x"])


@pytest.mark.slow
@given(batches, batches, st.integers(2, 40))
def test_sharding_does_not_matter(first: list[list[float]], second: list[list[float]], bins: int) -> None:
    whole, part = profiled(first + second, bins), profiled(first, bins)
    part.merge(profiled(second, bins))
    assert state(part.tensors["x"]) == state(whole.tensors["x"])
    assert part.samples == whole.samples


@given(st.lists(st.lists(st.one_of(similar, finite), min_size=8, max_size=8), min_size=1, max_size=8))
def test_samples_at_once_are_samples_one_by_one(samples: list[list[float]]) -> None:
    one_by_one, at_once = profiled(samples), Profile.empty({"x": (8,)}, 16)
    at_once.update_all([{"x": np.array(sample, np.float32)} for sample in samples])
    mine, other = (found.tensors["x"] for found in (at_once, one_by_one))
    assert (state(mine), mine.moments, mine.average_range) == (state(other), other.moments, other.average_range)
    assert at_once.samples == one_by_one.samples


def test_the_first_sample_with_a_number_that_is_not_finite_is_named() -> None:
    found = Profile.empty({"x": (2,), "y": (2,)}, 16)
    good, bad = np.zeros(2, np.float32), np.array([1, np.nan], np.float32)
    with pytest.raises(ProfileError, match=r'"y".*sample 8'):
        found.update_all([{"x": good, "y": good}, {"x": good, "y": bad}, {"x": bad, "y": good}], number=7)
    assert not found.samples
    assert not found.tensors["x"].count


@given(batches, st.integers(2, 40))
def test_each_value_is_in_its_bin(samples: list[list[float]], bins: int) -> None:
    found = profiled(samples, bins).tensors["x"]
    values = np.array([v for s in samples for v in s], np.float32).astype(np.float64)
    assert len(found.counts) <= bins
    edges = np.ldexp(np.arange(found.first, found.first + len(found.counts) + 1, dtype=np.float64), found.exponent)
    expected = [int(((values >= lo) & (values < hi)).sum()) for lo, hi in pairwise(edges)]
    assert found.counts.tolist() == expected
    assert (found.lo, found.hi, found.count) == (values.min(), values.max(), values.size)


@given(finite, finite, finite, st.integers(2, 2000))
def test_a_wider_range_never_has_finer_bins(a: float, b: float, c: float, bins: int) -> None:
    lo, hi = min(a, b), max(a, b)
    exponent, first, last = grid(lo, hi, bins)
    assert last - first + 1 <= bins
    assert grid(min(lo, c), max(hi, c), bins)[0] >= exponent


def test_bins_are_as_fine_as_they_can_be() -> None:
    assert grid(0.0, 1.0, 4) == (-1, 0, 2)
    assert grid(0.0, 0.999, 4) == (-2, 0, 3)
    assert grid(-1.0, 1.0, 2000)[0] == -9
    assert grid(5.0, 5.0, 2000)[1] == grid(5.0, 5.0, 2000)[2]  # one value, one bin


@pytest.mark.parametrize("value", [0.0, -0.0, 1.0, 1e-45, -3e38])
def test_a_single_value(value: float) -> None:
    found = profiled([[value] * 3, [value]]).tensors["x"]
    assert (found.lo, found.hi, found.count, found.counts.sum()) == (np.float32(value), np.float32(value), 4, 4)


def test_a_zero_of_either_sign_is_zero() -> None:
    assert state(profiled([[0.0], [-0.0]]).tensors["x"]) == state(profiled([[-0.0], [0.0]]).tensors["x"])


def test_the_whole_range_of_float32() -> None:
    top = float(np.finfo(np.float32).max)
    found = profiled([[-top, 1e-45, top]], bins=2).tensors["x"]
    assert found.counts.tolist() == [1, 2]


def test_memory_stays_bounded() -> None:
    found = profiled([list(np.geomspace(1e-30, 1e30, 8) * s) for s in range(1, 40)], bins=100)
    assert len(found.tensors["x"].counts) <= 100


def test_nothing_to_see() -> None:
    found = profiled([[]]).tensors["x"]
    assert (found.count, found.counts.size) == (0, 0)


# ---------------------------------------------------------------------------------------------------------------
# What is refused


@pytest.mark.parametrize(("value", "kind"), [(np.nan, "NaN"), (np.inf, "an infinity"), (-np.inf, "an infinity")])
def test_values_that_are_not_finite_name_tensor_and_sample_and_change_nothing(value: float, kind: str) -> None:
    found = Profile.empty({"good": (2,), "bad": (2,)})
    fine = {"good": np.zeros(2), "bad": np.zeros(2)}
    found.update(fine)
    before = [state(t) for t in found.tensors.values()]
    with pytest.raises(ProfileError, match=rf'tensor "bad": .*, got {kind} on sample 1 \(counted from 0\); remove'):
        found.update(fine | {"good": np.ones(2), "bad": np.array([0.0, value])})
    assert [state(t) for t in found.tensors.values()] == before
    assert found.samples == 1


@pytest.mark.parametrize("bins", [1, 0, -3])
def test_too_few_bins(bins: int) -> None:
    with pytest.raises(OptionError, match="bins: must be at least 2"):
        Profile.empty({"x": (1,)}, bins)


def test_profiles_of_two_networks_do_not_merge() -> None:
    with pytest.raises(ProfileError, match="must be of the same network"):
        profiled([[1.0]]).merge(Profile.empty({"y": (8,)}, 16))
    with pytest.raises(ProfileError, match="with at most 16 bins, got one of 1 tensor with at most 32"):
        profiled([[1.0]]).merge(Profile.empty({"x": (8,)}, 32))


# ---------------------------------------------------------------------------------------------------------------
# Files


@pytest.mark.slow
@given(batches)
def test_saved_and_loaded(tmp_path_factory: pytest.TempPathFactory, samples: list[list[float]]) -> None:
    path = tmp_path_factory.mktemp("profile") / "p.yaml"
    found = profiled(samples)
    found.save(path)
    again = Profile.load(path)
    assert (again.structure, again.samples, again.bins) == (found.structure, found.samples, found.bins)
    assert state(again.tensors["x"]) == state(found.tensors["x"])
    again.save(path.with_suffix(".2"))
    assert path.read_bytes() == path.with_suffix(".2").read_bytes()


@pytest.mark.parametrize("name", ["yes", "1", "a: b", "«ü»", "", "x" * 300, "- [", "tab\there"])
def test_any_name_survives(name: str, tmp_path: Path) -> None:
    Profile.empty({name: (2, 3)}).save(tmp_path / "p.yaml")
    assert {n: t.shape for n, t in Profile.load(tmp_path / "p.yaml").tensors.items()} == {name: (2, 3)}


def test_a_file_appears_whole_or_not_at_all(tmp_path: Path) -> None:
    with pytest.raises(FileError, match="must be writable"):
        profiled([[1.0]]).save(tmp_path / "none" / "p.yaml")
    assert not list(tmp_path.iterdir())


BREAK: dict[str, tuple[Callable[[str], str | bytes], str]] = {
    "empty": (lambda t: "", "another file"),
    "no YAML": (lambda t: "a: [1, 2", "p.yaml:2:1: must be a profile in YAML, got a mistake (did not find expected"),
    "bytes": (lambda t: b"\x80\xff\x00", "text that is not UTF-8"),
    "cut in a list": (lambda t: t[: t.rindex("counts: ") + 9], "must be a profile in YAML, got a mistake"),
    "cut between tensors": (lambda t: t[: t.index("  y:")], "its tensors are not those that were observed"),
    "another format": (lambda t: t.replace("profile-1", "profile-9"), "another file"),
    "a list": (lambda t: "[1, 2]", "another file"),
    "no tensors": (lambda t: t[: t.index("tensors:")], "a broken entry"),
    "no tensor": (
        lambda t: t.replace("  x:\n", "  x: 1\n  z:\n"),
        "p.yaml:6:6: must be a whole profile, got a broken entry",
    ),
    "an odd histogram": (lambda t: t.replace("exponent:", "exponents:"), 'tensor "x": exponent must be an integer'),
    "a histogram elsewhere": (lambda t: t.replace("first: ", "first: 1", 1), "for range [1.0, 2.0]"),
    "a shape of words": (lambda t: t.replace("shape: [2]", "shape: [two]"), "7:12: must be a whole profile"),
    "an odd sum": (lambda t: t.replace("sum: 3p0", "sum: 3p0.5"), "sum must be m · 2^e, written mpe"),
    "half the extremes": (lambda t: t.replace("sums: [", "some: ["), "extremes are samples and two sums"),
    "a count without a range": (lambda t: t.replace("range: [1.0, 2.0]", "range: null"), "2 elements without a range"),
    "wrong counts": (lambda t: t.replace("count: 2", "count: 3", 1), "counts that do not add up"),
    "negative counts": (lambda t: t.replace("counts: 1", "counts: -1", 1), "counts are integers from 0"),
    "range out of order": (lambda t: t.replace("range: [1.0, 2.0]", "range: [2.0, 1.0]"), "range [2.0, 1.0]"),
    "range of infinity": (lambda t: t.replace("range: [1.0, 2.0]", "range: [1.0, .inf]"), "range [1.0, inf]"),
    "range of one": (lambda t: t.replace("range: [1.0, 2.0]", "range: [1.0]"), "range must be 2 numbers"),
    "words for numbers": (
        lambda t: t.replace("\nsamples: 1", "\nsamples: many"),
        "3:10: must be a whole profile, got a broken entry",
    ),
}


@pytest.mark.parametrize("how", BREAK)
def test_a_broken_file(how: str, tmp_path: Path) -> None:
    path = tmp_path / "p.yaml"
    found = Profile.empty({"x": (2,), "y": (2,)}, 8)
    found.update({"x": np.array([1.0, 2.0]), "y": np.array([-1.0, 2.0])})
    found.save(path)
    change, got = BREAK[how]
    text = path.read_text()
    broken = change(text)
    assert broken != text
    path.write_bytes(broken if isinstance(broken, bytes) else broken.encode())
    with pytest.raises(FileError) as error:
        Profile.load(path)
    assert str(path) in str(error.value)
    assert got in str(error.value)
    assert str(error.value).endswith("; write one with `qmlir profile`")
    assert "\n" not in str(error.value)


def test_no_file(tmp_path: Path) -> None:
    with pytest.raises(FileError, match="must be a readable profile, got no such file or directory"):
        Profile.load(tmp_path / "none.yaml")
    with pytest.raises(FileError, match="must be a readable profile, got is a directory"):
        Profile.load(tmp_path)


# ---------------------------------------------------------------------------------------------------------------
# On networks

TEXT = """
func.func @main(%x: tensor<BATCHx4xf32> {qmlir.name = #qmlir.name<tensors ["x"]>}) -> tensor<BATCHx4xf32> {
  %0 = nn.relu %x {qmlir.name = #qmlir.name<tensors ["r"]>} : tensor<BATCHx4xf32> -> tensor<BATCHx4xf32>
  func.return %0 : tensor<BATCHx4xf32>
}
"""


def network(batch: int = 1, text: str = TEXT) -> Any:
    return parsed(text.replace("BATCH", str(batch)))


def samples(batch: int = 1) -> list[Array]:
    return [np.full((batch, 4), v, np.float32) for v in (-1.0, 0.5, 6.0)]


def test_profiling_a_network() -> None:
    found = profile(network(), samples())
    assert {n: (t.lo, t.hi, t.count) for n, t in found.tensors.items()} == {"x": (-1, 6, 12), "r": (0, 6, 12)}
    assert found.samples == 3


def test_the_batch_does_not_matter() -> None:
    one = profile(network(1), samples(1))
    four = profile(network(4), samples(4))
    assert four.structure == one.structure
    assert quantize(network(8), one).is_structurally_equivalent(quantize(network(8), four))


def test_no_sample() -> None:
    with pytest.raises(ProfileError, match="calibration data: must hold at least one sample, got none"):
        profile(network(), [])


def test_nothing_to_profile() -> None:
    module = parsed("""
func.func @main(%x: tensor<4xi8>) -> tensor<4xi8> {
  func.return %x : tensor<4xi8>
}
""")
    with pytest.raises(ProfileError, match="the network: must have float tensors with elements, got only "):
        profile(module, [np.zeros(4, np.int8)])


def test_a_nan_in_the_data_and_one_that_the_network_makes() -> None:
    with pytest.raises(ProfileError, match=r'tensor "x": .*got NaN on sample 1'):
        profile(network(), [np.zeros((1, 4), np.float32), np.full((1, 4), np.nan, np.float32)])
    square = network(text=TEXT.replace("nn.relu %x", "nn.mul %x, %x").replace(": tensor<BATCHx4xf32> ->", ": tensor<BATCHx4xf32>, tensor<BATCHx4xf32> ->"))  # fmt: skip  # noqa: E501
    with pytest.raises(ProfileError, match=r'tensor "r": .*got an infinity on sample 0'):
        profile(square, [np.full((1, 4), 1e30, np.float32)])


def test_an_empty_profile_is_refused() -> None:
    with pytest.raises(ProfileError, match="profile: must hold at least one sample, got an empty profile"):
        quantize(network(), Profile.empty({"x": (4,), "r": (4,)}))


def test_the_profile_of_another_model_is_refused() -> None:
    text = TEXT.replace('"r"', '"elsewhere"').replace('"x"', '"y"').replace("x4x", "x5x")
    other = profile(network(text=text), [np.ones((1, 5), np.float32)])
    message = r'whose tensors "x", "r" it lacks, got a profile of 2 tensors, "y", "elsewhere" .*; profile this model'
    with pytest.raises(ProfileError, match=message):
        quantize(network(), other)
    observed = Pipeline("insert-observers")(network())
    with pytest.raises(ProfileError, match=message):  # where nothing fits, `partial` does not help
        apply_profile(observed, other, partial=True)


def test_another_shape_is_another_tensor() -> None:
    with pytest.raises(ProfileError, match='"x", "r"'):
        quantize(network(text=TEXT.replace("x4x", "x5x")), profile(network(), samples()))


def test_part_of_a_profile() -> None:
    found = profile(network(text=TEXT.replace('"r"', '"elsewhere"').replace("nn.relu", "nn.tanh")), samples())
    observed = Pipeline("insert-observers")(network())
    with pytest.raises(ProfileError, match='whose tensors "r" it lacks'):
        apply_profile(observed, found)
    apply_profile(observed, found, partial=True)
    assert [o.bounds for o in observers(observed)] == [(-1.0, 6.0), None]


def test_a_profile_may_know_more() -> None:
    """One of the whole network serves a part of it."""
    observed = Pipeline("insert-observers")(network())
    found = Profile.empty({"x": (4,), "r": (4,), "later": (9,)})
    found.update({"x": np.ones(4), "r": np.ones(4), "later": np.ones(9)})
    apply_profile(observed, found)
    assert all(o.bounds == (1.0, 1.0) for o in observers(observed))
