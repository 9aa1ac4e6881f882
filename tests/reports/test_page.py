"""The page of a report in a real browser: it opens, finds layers, leads to the worst one, and loads nothing."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import qmlir
from docs.measurements.test_import import resnet50
from qmlir.errors import OptionError, QmlirError
from qmlir.reports import report as reporting
from qmlir.reports.page import joined
from qmlir.reports.report import Report
from qmlir.transforms.quantize.ranges.apply_profile import fill_ranges
from tests.cli.small import Small, write_small
from tests.reports.conftest import Browser

MOST_BYTES = 5_000_000


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Small:
    return write_small(tmp_path_factory.mktemp("report"))


@pytest.fixture(scope="module")
def made(small: Small) -> Report:
    """Two configs, of which the second is worse; all that a report can show."""
    network, samples = qmlir.load(small.onnx), list(small.samples[:, None])
    op_configs = [qmlir.quantize(network, data=samples, per_channel=each, target=DEVICE) for each in (True, False)]
    names = ["float", "<b>per channel</b>", "per tensor"]
    return qmlir.report(
        network, *op_configs, data=samples, labels=[0, 1, 2, 0, 1, 2], target=DEVICE, seconds=0.01, names=names
    )


DEVICE = "ethos-u55-like"


@pytest.fixture
def page(made: Report, browser: Browser, tmp_path: Path) -> Iterator[Browser]:
    made.save(tmp_path / "report.html")
    browser.open(tmp_path / "report.html")
    yield browser
    assert browser.complaints() == []


@pytest.mark.slow
def test_it_opens_and_shows_its_parts(page: Browser) -> None:
    shown = page.run("return [...document.querySelectorAll('main > section:not([hidden])')].map(s => s.id)")
    assert shown == ["summary", "worst", "network", "errors", "times", "device", "layers"]
    assert "<b>per channel</b>" in page.text("#summary-table"), "a name is text, not markup"
    assert page.text("#title") == "float"
    for part in ("errors", "times", "device"):
        page.run(f"document.getElementById('{part}').scrollIntoView()")
        page.wait(f"return document.querySelector('#{part} .plot').childElementCount > 0")


def test_the_search_finds_a_layer(page: Browser) -> None:
    page.type("#search", "conv1")
    assert page.text("#found li").startswith("conv1+relu1")
    page.type("#search", "\n")
    assert page.wait("return document.querySelector('#details h3')?.textContent") == "conv1+relu1"
    assert page.run("return document.querySelectorAll('.node.chosen').length") == 1
    page.wait("return document.querySelectorAll('#details .drawn').length === 4")


def test_the_worst_layer_is_two_clicks_away(page: Browser, made: Report) -> None:
    quantized = made.facts.networks[1:]
    errors = [(layer.errors.whole, layer.name) for n in quantized for layer in n.layers if layer.errors]
    page.click("#worst-by button:nth-child(2)")
    page.click("#worst-list tbody td.name button")
    assert page.wait("return document.querySelector('#details h3')?.textContent") == min(errors)[1]
    place = page.run("return document.querySelector('.node.chosen').getBoundingClientRect().top")
    assert 0 < place < page.run("return innerHeight")


def test_a_click_on_a_node_shows_its_facts(page: Browser) -> None:
    page.run("document.getElementById('network').scrollIntoView()")
    page.click(".node[aria-label='fully_connected dense1'] rect")
    page.wait("return document.querySelector('#details h3')?.textContent === 'dense1'")
    assert "dense1" in page.run("return document.querySelector('#layer-table tr.chosen').textContent")
    page.wait("return document.querySelector('#details tbody') !== null")
    rows = page.run("return [...document.querySelectorAll('#details tbody th')].map(e => e.textContent)")
    assert {"scale", "own SQNR", "whole SQNR", "weights", "MACs", "time", "cycles", "bound"} <= {*rows}


def test_tables_are_sorted_by_their_headings(page: Browser) -> None:
    cells = (
        "return [...document.querySelectorAll('#layer-table tbody tr td:nth-child(1)')].map(e => Number(e.textContent))"
    )
    before = page.run(cells)
    assert before == sorted(before)
    page.run("document.querySelector('#layer-table th:nth-child(1) button').click()")
    page.run("document.querySelector('#layer-table th:nth-child(1) button').click()")
    assert page.run(cells) == before[::-1]


def test_graphs_are_zoomed_and_coloured(page: Browser) -> None:
    scale = "return Number(/scale\\(([^)]+)/.exec(document.querySelector('.canvas > g').getAttribute('transform'))[1])"
    before = page.run(scale)
    page.run("document.querySelector('.buttons button:nth-child(2)').click()")
    assert page.run(scale) > before
    fills = "return [...document.querySelectorAll('.node[data-row] rect')].map(e => e.getAttribute('fill'))"
    coloured = page.run(fills)
    page.run("const s = document.getElementById('colour'); s.value = 'precision'; s.dispatchEvent(new Event('change'))")
    assert page.run(fills) != coloured
    assert "8 bits" in page.text("#legend")


def test_the_page_loads_nothing(page: Browser, made: Report) -> None:
    loaded = page.run("return performance.getEntriesByType('resource').map(e => e.name).filter(n => !/^data:/.test(n))")
    assert loaded == []
    assert "default-src 'none'" in made.html


def test_dark_and_narrow(page: Browser) -> None:
    ground = "return getComputedStyle(document.body).backgroundColor"
    before = page.run(ground)
    page.click("#theme")
    assert page.run(ground) != before
    size = page.driver.get_window_size()
    try:
        page.driver.set_window_size(520, 900)
        page.wait("return innerWidth < 700")
        assert page.run("return document.documentElement.scrollWidth <= innerWidth"), "nothing sticks out"
    finally:
        page.driver.set_window_size(size["width"], size["height"])


CONTRAST = """
const rgb = (text) => text.startsWith("#") ? [1, 3, 5].map((i) => parseInt(text.slice(i, i + 2), 16))
  : text.match(/[0-9.]+/g).slice(0, 3).map(Number);
const light = (text) => rgb(text).map((v) => (v /= 255) <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
  .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
const contrast = (a, b) => (Math.max(light(a), light(b)) + 0.05) / (Math.min(light(a), light(b)) + 0.05);
const card = getComputedStyle(document.querySelector("section")).backgroundColor;
const hues = new Set();
for (const one of Bokeh.documents) for (const root of one.roots()) for (const model of root.references())
  if (["Quad", "Line", "Scatter", "VBar", "VSpan", "Step"].includes(model.type))
    for (const part of ["fill_color", "line_color"]) {
      const hue = model[part]?.value ?? model[part];
      if (typeof hue === "string" && hue.startsWith("#")) hues.add(hue);
    }
return [...hues].map((hue) => [hue, contrast(hue, card)]);
"""
"""Each colour of the plots with its contrast to the ground, as the Web Content Accessibility Guidelines define it."""


def test_plots_can_be_read_on_light_and_dark_ground(page: Browser) -> None:
    page.wait("return document.querySelectorAll('#details .drawn canvas, #details .drawn > *').length > 0")
    for _ in range(2):
        seen = page.run(CONTRAST)
        assert len(seen) >= 2
        assert min(contrast for _, contrast in seen) >= 3, seen
        page.click("#theme")


OVERLAPS = """
return [...document.querySelectorAll("#graph .node")].filter((node) => {
  const [head, figure] = [".kind", ".figure"].map((part) => node.querySelector(part)?.getBoundingClientRect());
  const box = node.querySelector("rect").getBoundingClientRect();
  return head && figure && figure.width && (head.right > figure.left || figure.right > box.right);
}).map((node) => node.textContent);
"""


CHANGED = "s.dispatchEvent(new Event('change'))"


def test_names_leave_room_for_numbers(page: Browser) -> None:
    """A node's operation with its window ends before the number begins, whichever number is shown."""
    page.run("document.querySelector('#graph').scrollIntoView()")
    options = page.run("return [...document.querySelectorAll('#colour option')].map((o) => o.value)")
    assert len(options) >= 3
    for option in options:
        page.run(f"const s = document.querySelector('#colour'); s.value = '{option}'; {CHANGED}")
        assert page.run(OVERLAPS) == []


def test_on_a_phone_tables_show_their_numbers(page: Browser) -> None:
    """On 390 pixels the tables of the summary and of the worst layers fit; others scroll below fixed names."""
    size = {"width": 390, "height": 844, "deviceScaleFactor": 1, "mobile": True}
    page.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    try:
        page.wait("return innerWidth === 390")
        for table in ("#summary-table", "#worst-list table"):
            ends = f"const t = document.querySelector('{table}'), b = t.parentElement;"
            assert page.run(ends + "return b.scrollWidth <= b.clientWidth && b.scrollHeight <= b.clientHeight"), table
        fixed = "return getComputedStyle(document.querySelector('#layer-table td.name')).position"
        assert page.run(fixed) == "sticky"
        smallest = """return Math.min(...[...document.querySelectorAll("main *")]
          .filter((e) => e.checkVisibility() && !e.closest("svg, .bk-Figure, [class*=bk]") && e.childNodes.length
            && [...e.childNodes].some((n) => n.nodeType === 3 && n.data.trim()))
          .map((e) => parseFloat(getComputedStyle(e).fontSize)))"""
        assert page.run(smallest) >= 12
    finally:
        page.driver.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


def test_a_quantized_network_alone(small: Small, browser: Browser, tmp_path: Path) -> None:
    quantized = qmlir.quantize(small.onnx, data=list(small.samples[:, None]))
    qmlir.save(quantized, tmp_path / "alone.mlir")
    found = qmlir.report(tmp_path / "alone.mlir", seconds=0)
    assert {*found.facts.missing} == {"errors", "histograms", "times", "device", "accuracy"}
    found.save(tmp_path / "alone.html")
    browser.open(tmp_path / "alone.html")
    assert browser.text("#title") == "alone"
    assert "need a float model and samples (--data)" in browser.text("#worst-list")
    browser.click("#layer-table td.name button")
    browser.wait("return document.querySelector('#details h3') !== null")
    assert browser.complaints() == []


@pytest.mark.slow
def test_resnet50(browser: Browser, tmp_path: Path) -> None:
    """Its layers have fewer channels than usual: the page has the same size, and errors take less time."""
    onnx.save(resnet50(8, 64), tmp_path / "resnet50.onnx")
    network = qmlir.load(tmp_path / "resnet50.onnx")
    ranged = qmlir.Pipeline("simplify", "insert-observers")(network)
    fill_ranges(ranged)
    quantized = qmlir.quantize(ranged)
    picture = np.random.default_rng(0).standard_normal((1, 3, 64, 64)).astype(np.float32)
    found = qmlir.report(network, quantized, quantized.clone(), data=[picture], seconds=0, names=["float", "a", "b"])
    found.save(tmp_path / "report.html")
    size, ready = (tmp_path / "report.html").stat().st_size, browser.open(tmp_path / "report.html")
    layers = len(found.facts.networks[1].layers)
    sys.stdout.write(f"\nreport of {layers} layers, two configs: {size / 1e6:.2f} MB, opens in {ready / 1000:.2f} s\n")
    assert layers > 70
    assert size <= MOST_BYTES
    assert browser.complaints() == []


# ---------------------------------------------------------------------------------------------------------------
# Without a browser


def test_layers_of_networks_are_joined_by_their_tensors(made: Report) -> None:
    rows = dict(joined(made.facts.networks))
    floats, *quantized = made.facts.networks
    for name, at in rows.items():
        layers = [n.layers[i] for n, i in zip(made.facts.networks, at, strict=True) if i is not None]
        assert {layer.result.name for layer in layers} == {layers[0].result.name}
        assert layers[0].name == name
    assert [at[1] for at in rows.values() if at[1] is not None] == list(range(len(quantized[0].layers)))
    assert rows["conv1+relu1"][0] is not None
    assert len(floats.layers) <= len(rows)


def test_a_report_in_a_notebook(made: Report) -> None:
    assert made._repr_html_().startswith("<iframe srcdoc=")
    assert repr(made).startswith("<report of float, <b>per channel</b>, per tensor: ")


@pytest.mark.parametrize("given", [{"names": ["a"]}, {"names": ["a", "a"]}, {"seconds": -1.0}, {"labels": [0.5]}])
def test_arguments_that_are_refused(small: Small, given: dict[str, Any]) -> None:
    with pytest.raises(OptionError, match=next(iter(given))):
        qmlir.report(small.onnx, small.onnx, **given)


def test_bokeh_is_asked_for(small: Small, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "bokeh", None)
    with pytest.raises(
        QmlirError, match=r"needs bokeh to draw plots, got none installed; pip install 'qmlir\[report\]'"
    ):
        reporting.report(small.onnx)
