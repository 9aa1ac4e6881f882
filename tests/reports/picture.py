"""Makes docs/images/report.png: the upper part of the report of the digits network, quantized in two ways.

python -m tests.reports.picture        # needs chromium and chromedriver
"""

import tempfile
from pathlib import Path

import numpy as np
from PIL import Image

import qmlir
from qmlir.reports.report import Report
from tests.conftest import ROOT
from tests.reports.conftest import chromium

PICTURE = ROOT / "docs" / "images" / "report.png"
WIDTH, HEIGHT = 1280, 1560
MOST_BYTES = 300_000
DEVICE = "ethos-u55-like"


def report() -> Report:
    """The report of the digits network: weights with a scale for each channel, beside one scale for all."""
    folder = ROOT / "examples" / "digits"
    data = np.load(folder / "digits.npz")
    network = qmlir.load(folder / "digits.onnx")
    calibration = [image[None] for image in data["calibration_images"]]
    profile = qmlir.profile(network, calibration)
    op_configs = [qmlir.quantize(network, profile, target=DEVICE, per_channel=each) for each in (True, False)]
    return qmlir.report(
        network, *op_configs, data=[image[None] for image in data["test_images"]], labels=data["test_labels"],
        profile=profile, target=DEVICE, names=["float", "int8 per channel", "int8 per tensor"], title="digits.onnx",
    )  # fmt: skip


def main() -> None:
    """Writes the picture."""
    with tempfile.TemporaryDirectory() as folder:
        page, whole = Path(folder, "report.html"), Path(folder, "report.png")
        report().save(page)
        with chromium(WIDTH, HEIGHT) as browser:
            browser.open(page)
            browser.wait("return document.querySelectorAll('#details .drawn').length >= 2")
            browser.wait("return [...document.querySelectorAll('#details .drawn')].every(e => e.childElementCount > 0)")
            browser.run("return new Promise(done => setTimeout(done, 500))")  # bokeh paints after a moment
            browser.driver.save_screenshot(str(whole))
        Image.open(whole).convert("RGB").save(PICTURE, optimize=True)
    assert PICTURE.stat().st_size <= MOST_BYTES


if __name__ == "__main__":
    main()
