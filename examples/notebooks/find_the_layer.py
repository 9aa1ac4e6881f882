"""A notebook: find the layer that costs the accuracy of a quantized network, and treat it differently by a rule.

marimo edit examples/notebooks/find_the_layer.py
python examples/notebooks/find_the_layer.py
"""

import marimo

__generated_with = "0.25.2"
app = marimo.App()


@app.cell
def _():
    from pathlib import Path

    import marimo as mo
    import numpy as np

    import qmlir

    return Path, mo, np, qmlir


@app.cell
def _(mo):
    mo.md("""
    # Find the layer that hurts

    A network loses accuracy, and one layer is to blame. To have such a network, weights take 3 bits here: far too few
    for some layers of the digits network, and enough for others.
    """)
    return


@app.cell
def _(Path, np, qmlir):
    folder = Path(__file__).resolve().parents[1] / "digits"
    data = np.load(folder / "digits.npz")
    samples, images = data["calibration_images"][:, None], data["test_images"][:30, None]
    network = qmlir.load(folder / "digits.onnx")
    profile = qmlir.profile(network, samples)
    coarse = {"weight_precision": "int3", "rounding": "nearest"}
    quantized = qmlir.quantize(network, profile, **coarse)
    return coarse, images, network, profile, quantized


@app.cell
def _(mo):
    mo.md("""
    ## Two errors of each tensor

    *own* is the error of the operation alone, on the float network's tensors. *whole* is the error in the quantized
    network, with the errors of all layers before. Both are SQNR in dB: less is worse. The cause has a low own SQNR;
    layers behind it inherit a low whole SQNR.
    """)
    return


@app.cell
def _(images, network, qmlir, quantized):
    def show(rows):
        """Prints the tensors, the worst first."""
        for row in sorted(rows, key=lambda row: row.isolated_sqnr)[:4]:
            print(f"{row.tensor:12} {row.operation:20} own {row.isolated_sqnr:5.1f}  whole {row.cumulative_sqnr:5.1f}")

    rows = list(qmlir.analyze(network, quantized, images))
    show(rows)
    worst = min(rows, key=lambda row: row.isolated_sqnr)
    return rows, show, worst


@app.cell
def _(mo, worst):
    mo.md(f"""
    ## A rule for the worst layer

    `{worst.tensor}` is the worst. A rule names its tensor and gives the layer weights of 8 bits; all others keep 3.
    """)
    return


@app.cell
def _(coarse, images, network, profile, qmlir, show, worst):
    rule = qmlir.Rule({"weight_precision": "int8"}, name=worst.tensor)
    better = qmlir.quantize(network, profile, policy=qmlir.Policy(rules=[rule]), **coarse)
    improved = list(qmlir.analyze(network, better, images))
    show(improved)
    return better, improved


@app.cell
def _(improved, rows):
    def result(errors):
        """The error of the network's result, which is the last tensor."""
        return next(row.cumulative_sqnr for row in errors if row.tensor == "scores")

    print(f"scores: {result(rows):.1f} dB before the rule, {result(improved):.1f} dB with it")
    assert result(improved) > result(rows)
    return


@app.cell
def _(better, qmlir, quantized):
    # The ledger shows that nothing but this layer has changed.
    for _before, _after in zip(qmlir.decisions(quantized), qmlir.decisions(better), strict=True):
        if _before.reason != _after.reason:
            print(f"{_after.node}: {_before.reason} → {_after.reason}")
    return


if __name__ == "__main__":
    app.run()
