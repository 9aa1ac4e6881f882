"""Sweeps over variants of a device and policies: keys, rows, refusals, the front, and its picture."""

import csv
import io
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any

import pytest

import qmlir
from qmlir.analysis.explore import Workload, explore, measuring
from qmlir.analysis.explore.measuring import Figures
from qmlir.analysis.explore.result import OBJECTIVES, Explored, Row, undominated
from qmlir.analysis.explore.sweep import Variant, keys_in, sweeps_of, variants_of
from qmlir.analysis.front_plot import Axis, Dot, best_of, front_svg
from qmlir.devices import load_device
from qmlir.errors import OptionError, QmlirError
from tests.cli.small import Small, write_small

# ---------------------------------------------------------------------------------------------------------------
# Keys and values


def test_sweeps_are_keys_and_values() -> None:
    assert sweeps_of(["array.lanes.k=8,16", " memory.act.bytes = 64KiB,1024 ", 'quant.types=["i8","i16"],["i8"]']) == {
        "array.lanes.k": [8, 16],
        "memory.act.bytes": [65536, 1024],
        "quant.types": [["i8", "i16"], ["i8"]],
    }


@pytest.mark.parametrize("text", ["array.lanes.k", "=8", "array.lanes.k="])
def test_sweeps_that_are_none(text: str) -> None:
    with pytest.raises(OptionError, match=r"must be a key and values: array\.lanes\.k=8,16,32"):
        sweeps_of([text])


def test_a_key_is_there_once() -> None:
    with pytest.raises(OptionError, match=r"must name array\.lanes\.k once"):
        sweeps_of(["array.lanes.k=8", "array.lanes.k=16"])


@pytest.mark.parametrize("name", ["nmp", "ethos-u55-like", "gemmini"])
def test_every_key_that_is_listed_can_be_named(name: str) -> None:
    device = load_device(name)
    keys = list(keys_in(device))
    assert {"array.lanes.k", "clock_mhz", f"memory.{device.memory[0].id}.bytes"} <= set(keys)
    for key in keys:
        (variant,) = variants_of(device, {key: [None]})  # a value that few keys take: the key itself is never unknown
        assert "there is no such key" not in str(variant.refused)


@pytest.mark.parametrize(
    ("key", "remedy"),
    [
        ("memory.act.size", "memory.act has id, bytes, holds, align, banks"),
        ("memory.cat.bytes", r"did you mean memory.act.bytes.*\? memory has act"),
        ("frequency", "a device has schema, name, description, encoder, clock_mhz, array"),
    ],
)
def test_keys_that_do_not_exist(key: str, remedy: str) -> None:
    with pytest.raises(OptionError, match=f"sweep {key}: there is no such key of nmp; .*{remedy}"):
        variants_of(load_device("nmp"), {key: [1]})


def test_variants_are_all_combinations() -> None:
    device = load_device("nmp")
    found = variants_of(device, {"array.lanes.k": [8, 16], "array.lanes.n": [4, 0]})
    assert [each.said for each in found] == [
        f"array.lanes.k={k} array.lanes.n={n}" for k in (8, 16) for n in (4, 0)
    ]  # the values of the last key first
    assert [each.device is None for each in found] == [False, True, False, True]
    assert found[2].device is not None
    assert found[2].device.array.lanes.k == 16
    assert isinstance(found[1].refused, OptionError)
    assert [each.said for each in variants_of(device, {})] == ["as it is"]
    with pytest.raises(OptionError, match="must have values"):
        variants_of(device, {"array.lanes.k": []})
    with pytest.raises(OptionError, match="must have at most 10000 variants, got 10201"):
        variants_of(device, {"array.lanes.k": [*range(101)], "array.lanes.n": [*range(101)]})


# ---------------------------------------------------------------------------------------------------------------
# The front


def row(cycles: int | None, sqnr: float | None, weights: int = 1, model: str = "m") -> Row:
    if cycles is None:
        return Row(model, Variant({}, None), "default", None, "no reason")
    return Row(model, Variant({}, None), "default", Figures(cycles, 0.5, weights, 1, 1, 0, sqnr, None))


def test_rows_on_the_front_are_those_that_none_beats() -> None:
    rows = [row(10, 30), row(20, 40), row(20, 35), row(5, None), row(None, None), row(10, 30), row(99, 1, model="n")]
    assert undominated(rows, ["cycles", "sqnr"]) == [True, True, False, True, False, True, True]
    assert undominated(rows, ["cycles"]) == [False, False, False, True, False, False, True]
    assert undominated([row(10, 30, 5), row(20, 30, 4)], ["cycles", "weights"]) == [True, True]


def test_the_line_of_a_picture_joins_the_best_of_two_axes() -> None:
    dots = [Dot(x, y, "s", f"{x},{y}", True) for x, y in ((1, 10), (2, 30), (3, 20), (4, 40), (4, 35))]
    less, more = Axis("cycles", 1), Axis("dB", -1)
    assert [dot.name for dot in best_of(dots, less, more)] == ["1,10", "2,30", "4,40"]
    assert [dot.name for dot in best_of(dots, less, less)] == ["1,10"]
    text = front_svg("<title>", dots, less, more)
    assert text == front_svg("<title>", dots, less, more)
    tree = ElementTree.fromstring(text)
    circles = [each for each in tree.iter() if each.tag.endswith("circle")]
    assert len(circles) == len(dots) + 1  # and one of the legend
    places = [(float(c.get("cx", 0)), float(c.get("cy", 0))) for c in circles[:-1]]
    assert [p[0] for p in places] == sorted(p[0] for p in places)
    assert places[3][1] < places[1][1] < places[2][1] < places[0][1]  # more is above


@pytest.mark.parametrize("values", [[], [5.0], [3.0, 3.0], [0.0, 2.0], [1.0, 1e6], [-4.0, 8.0], [1.0, float("inf")]])
def test_any_values_can_be_drawn(values: list[float]) -> None:
    text = front_svg("a & b", [Dot(v, v, "<s>", "n", False) for v in values], Axis("x", 1), Axis("y", -1))
    ElementTree.fromstring(text)
    assert "nan" not in text
    assert "inf" not in text


# ---------------------------------------------------------------------------------------------------------------
# Real sweeps


def samples_of(small: Small) -> list[Any]:
    return [sample[None] for sample in small.samples]


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Small:
    return write_small(tmp_path_factory.mktemp("explore"))


SWEEP: dict[str, list[object]] = {"array.lanes.n": [4, 8, 0], "memory.sram.bytes": [1024, 65536]}
POLICIES: dict[str, Any] = {
    "int8": {"default": {"precision": "int8"}},
    "int16": {"default": {"precision": "int16"}},
    "power of two": {"default": {"schema": "symmetric_with_power2_scale"}},
}


def swept(small: Small, **options: Any) -> Explored:
    load = Workload(small.onnx, samples_of(small), name="small")
    return explore("ethos-u55-like", load, sweep=SWEEP, policies=POLICIES, **options)


@pytest.fixture(scope="module")
def found(small: Small) -> Explored:
    return swept(small, results=small / "results")


@pytest.mark.slow
def test_rows_are_what_the_device_says_of_each_network(found: Explored, small: Small) -> None:
    assert len(found) == 3 * 2 * 3
    samples = samples_of(small)
    for row in found:
        if row.variant.device is None or row.figures is None:
            continue
        quantized = qmlir.quantize(small.onnx, data=samples, policy=POLICIES[row.policy], target=row.variant.device)
        program = qmlir.compile(quantized, target=row.variant.device)
        program(samples[0])
        assert program.report is not None
        assert program.report.cycles == row.figures.cycles  # those of the simulator, not a prediction of ours
        assert program.report.utilization == pytest.approx(row.figures.utilization)
        assert sum(len(s.data) for s in program.program.segments) == row.figures.weights
        assert row.figures.stream + row.figures.weights < len(program.program.to_bytes())
        assert row.figures.sqnr == pytest.approx(qmlir.score(small.onnx, quantized, samples, [0] * len(samples)).sqnr)
    served = {(row.policy, row.variant.settings["memory.sram.bytes"]) for row in found if row.figures is not None}
    assert ("int8", 65536) in served


def test_what_the_device_cannot_serve_is_a_row_with_the_reason(found: Explored) -> None:
    refused = [row for row in found if row.figures is None]
    no_lanes = [row for row in refused if row.variant.settings["array.lanes.n"] == 0]
    assert len(no_lanes) == 6
    assert all(row.error == "OptionError" and "array.lanes.n" in row.reason for row in no_lanes)
    schema = [row for row in refused if row.policy == "power of two" and row not in no_lanes]
    assert len(schema) == 4
    assert all("schema: must be asymmetric for ethos-u55-like" in row.reason for row in schema)
    refused = [row for row in refused if row not in schema]
    small_memory = [r for r in refused if r.variant.settings["memory.sram.bytes"] == 1024 and r not in no_lanes]
    assert small_memory
    assert all("memory sram" in row.reason for row in small_memory)
    assert not any(row.front for row in refused)


def test_the_front_is_marked_and_drawn(found: Explored) -> None:
    assert found.front
    assert {row.policy for row in found.front} >= {"int16"}
    best = max((row.figures.sqnr or 0.0 for row in found if row.figures is not None), default=0.0)
    assert any(row.figures is not None and row.figures.sqnr == best for row in found.front)
    text = found.svg()
    served = sum(row.figures is not None for row in found)
    assert text.count("<title>") == served
    assert found.svg("weights", "cycles") != text
    with pytest.raises(OptionError, match="there is no objective cycle"):
        found.svg("cycle")


def test_the_rows_as_csv_and_as_a_table(found: Explored) -> None:
    rows = list(csv.DictReader(io.StringIO(found.csv())))
    assert len(rows) == len(found)
    assert list(rows[0]) == [
        "model", "array.lanes.n", "memory.sram.bytes", "policy", *OBJECTIVES, "front", "error", "reason",
    ]  # fmt: skip
    for each, row in zip(rows, found, strict=True):
        assert each["cycles"] == ("" if row.figures is None else str(row.figures.cycles))
        assert each["reason"] == row.reason
    assert "18 combinations on ethos-u55-like" in repr(found)


@pytest.mark.slow
def test_any_number_of_workers_finds_the_same_rows(found: Explored, small: Small, tmp_path: Path) -> None:
    counted: list[int] = []
    again = swept(small, results=tmp_path, workers=2, done=counted.append)
    assert again.csv() == found.csv()
    assert counted[-1] == 12  # the variants that exist
    files = {path.name: path.read_bytes() for path in (small / "results").iterdir()}
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == files


def test_a_sweep_goes_on_where_it_stopped(found: Explored, small: Small, monkeypatch: pytest.MonkeyPatch) -> None:
    (removed, *_) = sorted((small / "results").iterdir())
    content = removed.read_bytes()
    removed.unlink()
    measured: list[Any] = []
    from qmlir.analysis import explore as exploring

    real = exploring.measured
    monkeypatch.setattr(exploring, "measured", lambda shared, task: (measured.append(task), real(shared, task))[1])
    assert swept(small, results=small / "results").csv() == found.csv()
    assert len(measured) == 1
    assert removed.read_bytes() == content


@pytest.mark.slow
def test_the_picture_of_the_page_is_fresh() -> None:
    from docs.measurements.exploring import PICTURE, swept

    assert PICTURE.read_text(encoding="utf-8") == swept("digits").svg()


def test_costs_need_no_samples(small: Small) -> None:
    (row,) = explore("nmp", small.onnx)
    assert row.figures is not None
    assert (row.model, row.figures.sqnr, row.figures.agreement) == (Path(small.onnx).stem, None, None)
    assert row.front


@pytest.mark.parametrize(
    ("options", "need"),
    [
        ({"front": ["cycle"]}, "there is no objective cycle; did you mean cycles"),
        ({"front": []}, "must name objectives"),
        ({"policies": {}}, "must hold a policy"),
        ({"policies": {"p": {"options": {"target": "nmp"}}}}, "must have no options of a run, got target"),
        ({"sweep": {"array.lanes.q": [1]}}, "there is no such key"),
    ],
)
def test_arguments_that_cannot_be(small: Small, options: dict[str, Any], need: str) -> None:
    with pytest.raises(OptionError, match=need):
        explore("nmp", small.onnx, **options)


def test_networks_that_are_quantized_already(small: Small) -> None:
    quantized = qmlir.quantize(small.onnx, data=samples_of(small))
    with pytest.raises(QmlirError, match="a sweep quantizes float networks, got a quantized one; give the network"):
        explore("nmp", quantized)
    assert explore("nmp", small.onnx)


HYBRID = """
func.func @main(%x: tensor<1x4xf32>) -> tensor<1x2xf32> {
  %q = nn.constant <tensor<2x4xi8>, [1, 2, 3, 4, 5, 6, 7, 8]> : tensor<2x4x!quant.uniform<i8:f32, 0.5>>
  %w = quant.dcast %q : tensor<2x4x!quant.uniform<i8:f32, 0.5>> to tensor<2x4xf32>
  %y = nn.fully_connected %x, %w : tensor<1x4xf32>, tensor<2x4xf32> -> tensor<1x2xf32>
  func.return %y : tensor<1x2xf32>
}
"""


def test_networks_that_store_their_weights_in_8_bits(tmp_path: Path) -> None:
    """They compute in floats."""
    (tmp_path / "hybrid.mlir").write_text(HYBRID)
    (row,) = explore("nmp", tmp_path / "hybrid.mlir")
    assert row.figures is not None
    assert row.figures.cycles > 0


@pytest.mark.slow
def test_variants_that_quantize_alike_share_a_network(small: Small, monkeypatch: pytest.MonkeyPatch) -> None:
    """A network is quantized once for each policy and granularity, and each row is what the variant alone gives."""
    made: list[Any] = []

    def counted(*arguments: Any, **options: Any) -> Any:
        made.append(options["target"])
        return qmlir.quantize(*arguments, **options)

    sweep: dict[str, list[object]] = {
        "array.lanes.n": [8, 16],
        "queue.exec.unpacks": [[], [4]],
        "quant.granularity": ["tensor", "channel"],
    }
    policies = {"int8": {"default": {}}, "w4": {"default": {"weight_precision": "int4"}}}
    monkeypatch.setattr(measuring, "quantize", counted)
    load = Workload(small.onnx, samples_of(small), name="small")
    rows = explore("nmp", load, sweep=sweep, policies=policies)
    assert len(rows) == 2**4
    assert len(made) == 4
    for row in (rows[0], rows[7], rows[-1]):
        assert row.variant.device is not None
        (alone,) = explore(row.variant.device, load, policies={row.policy: policies[row.policy]})
        assert alone.figures == row.figures
    packed, plain = (
        {
            row.figures.weights
            for row in rows
            if row.figures is not None and row.policy == "w4" and row.variant.settings["queue.exec.unpacks"] == bits
        }
        for bits in ([4], [])
    )
    assert max(packed) < min(plain)
