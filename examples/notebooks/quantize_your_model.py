"""A notebook: from a float model to int8, with accuracy, size and a file for ONNX Runtime.

marimo edit examples/notebooks/quantize_your_model.py
python examples/notebooks/quantize_your_model.py
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
    # Quantize your model

    Change the two paths and the preprocessing below to those of your model. A sample is an array of the input's shape;
    `samples` learn the ranges, and `images` with their `labels` measure the accuracy.
    """)
    return


@app.cell
def _(Path, np):
    folder = Path(__file__).resolve().parents[1] / "digits"
    model = folder / "digits.onnx"
    data = np.load(folder / "digits.npz")
    samples = data["calibration_images"][:, None]
    images, labels = data["test_images"][:, None], data["test_labels"]
    return images, labels, model, samples


@app.cell
def _(model, qmlir, samples):
    network = qmlir.load(model)
    profile = qmlir.profile(network, samples)
    quantized = qmlir.quantize(network, profile, data=samples)
    return network, profile, quantized


@app.cell
def _(mo):
    mo.md("""
    ## What was decided

    Each operation has an outcome and a reason. An operation that stays float names what would change that.
    """)
    return


@app.cell
def _(qmlir, quantized):
    for _entry in qmlir.decisions(quantized):
        print(f"{_entry.node:24} {_entry.outcome:10} {_entry.reason}")
    return


@app.cell
def _(images, labels, network, np, qmlir, quantized):
    def accuracy(executable):
        """The share of images that an executable tells right."""
        scores = np.array([executable(image) for image in images]).reshape(len(images), -1)
        return float((scores.argmax(axis=1) == labels).mean())

    floats = qmlir.compile(qmlir.Pipeline("simplify")(network))
    integers = qmlir.compile(quantized)
    for _name, _executable in (("float", floats), ("int8", integers)):
        print(f"{_name:6} {accuracy(_executable):7.2%}  {_executable.sizes.weights:7} bytes of weights")
    return accuracy, integers


@app.cell
def _(images, integers, np, qmlir, quantized):
    # The integer network has one exact meaning: machine code gives the bits of the reference in numpy.
    reference = qmlir.reference(quantized)
    assert all(np.array_equal(integers(image), reference(image)) for image in images[:50])
    return


@app.cell
def _(accuracy, network, profile, qmlir, samples):
    # Other options cost other amounts of accuracy; the profile serves them all.
    for _options in ({"schema": "symmetric_with_power2_scale"}, {"weight_precision": "int4"}):
        _executable = qmlir.compile(qmlir.quantize(network, profile, data=samples[:50], **_options))
        print(f"{_options!s:45} {accuracy(_executable):7.2%}")
    return


@app.cell
def _(Path, images, np, qmlir, quantized):
    from tempfile import TemporaryDirectory

    import onnxruntime

    with TemporaryDirectory() as _folder:
        _path = Path(_folder) / "digits_int8.onnx"
        qmlir.export(quantized, _path, format="onnx-integer")
        _session = onnxruntime.InferenceSession(_path)
    _same = [np.array_equal(_session.run(None, {"image": x})[0], qmlir.reference(quantized)(x)) for x in images[:20]]
    print(f"onnxruntime: {sum(_same)} of {len(_same)} results have the same bits")
    return


if __name__ == "__main__":
    app.run()
