"""A notebook: change the array of an accelerator, and watch what that does to cycles, bounds and utilization.

marimo edit examples/notebooks/design_a_device.py
python examples/notebooks/design_a_device.py
"""

import marimo

__generated_with = "0.25.2"
app = marimo.App()


@app.cell
def _():
    import re
    from importlib import resources
    from pathlib import Path
    from tempfile import TemporaryDirectory

    import marimo as mo
    import numpy as np

    import qmlir

    return Path, TemporaryDirectory, mo, np, qmlir, re, resources


@app.cell
def _(mo):
    mo.md("""
    # Design a device

    A device is one TOML file. This notebook takes a device that comes with qmlir, changes the width of its array and
    the speed of its external memory, and compiles the digits network for each variant. The question: what is worth
    building for this network, more multipliers or a faster memory?
    """)
    return


@app.cell
def _(Path, np, qmlir):
    folder = Path(__file__).resolve().parents[1] / "digits"
    data = np.load(folder / "digits.npz")
    samples, image = data["calibration_images"][:, None], data["test_images"][0][None]
    network = qmlir.load(folder / "digits.onnx")
    profile = qmlir.profile(network, samples)
    return image, network, profile


@app.cell
def _(re, resources):
    text = (resources.files("qmlir") / "targets" / "nvdla-small.toml").read_text(encoding="utf-8")

    def variant(n, faster):
        """The device's file with `n` output channels at a time, and a memory that is `faster` times as fast."""
        wide = re.sub(r"(lanes = \{ k = 8, n = )8", rf"\g<1>{n}", text)
        assert wide != text or n == 8
        memory = re.sub(r"(read = )8\.0(, write = )8\.0", rf"\g<1>{faster}.0\g<2>{faster}.0", wide)
        return memory.replace("\nbytes_per_cycle = 8.0", f"\nbytes_per_cycle = {faster}.0")  # the queue that loads

    print(text[: text.index("[[queue]]")])
    return (variant,)


@app.cell
def _(Path, TemporaryDirectory, image, network, np, profile, qmlir, variant):
    reports = {}
    with TemporaryDirectory() as _folder:
        for _n, _faster in ((8, 1), (16, 1), (8, 4)):
            _device = Path(_folder) / f"n{_n}-dram{_faster}.toml"
            _device.write_text(variant(_n, _faster), encoding="utf-8")
            _quantized = qmlir.quantize(network, profile, target=_device)
            _program = qmlir.compile(_quantized, target=_device)
            # The simulator gives the bits of the reference, whatever the device looks like.
            assert np.array_equal(_program(image), qmlir.reference(_quantized)(image))
            reports[_n, _faster] = _program.report
    return (reports,)


@app.cell
def _(reports):
    for (_n, _faster), _report in reports.items():
        _used = _report.products / (_report.peak * _report.cycles)
        print(f"{_report.peak:4} MACs a cycle, {_faster} bytes a cycle: {_report.cycles:6} cycles, {_used:5.1%} used")
    return


@app.cell
def _(mo):
    mo.md("""
    ## Which layer waits for what

    The bound of a layer is the time in which the part that works longest for it is busy. Where the bound is a memory,
    more multipliers do not help.
    """)
    return


@app.cell
def _(reports):
    for _layer in reports[8, 1].layers:
        print(f"{_layer.name:20} {_layer.cycles:6} cycles, at least {_layer.bound:6} for {_layer.bound_by}")
    assert reports[8, 4].cycles < reports[16, 1].cycles  # this network needs a faster memory, not a wider array
    return


if __name__ == "__main__":
    app.run()
