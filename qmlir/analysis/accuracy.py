"""Scores networks on labelled samples: how often the largest output is the label's, and how often it stays so."""

from collections.abc import Mapping, Sequence

import numpy as np
from xdsl.dialects.builtin import ModuleOp

from qmlir.analysis.facts import Accuracy
from qmlir.compiler import compile
from qmlir.errors import OptionError
from qmlir.ir.interfaces import Array

TOP = 5
"""How many of the largest outputs may hold the label for the second score."""


def accuracies(
    networks: Mapping[str, ModuleOp],
    samples: Sequence[Array | Mapping[str, Array]],
    labels: Sequence[int],
    exact: str | None,
) -> dict[str, Accuracy]:
    """Runs networks on labelled samples.

    Args:
        networks: The networks by name; the first output of each holds a number for each class.
        samples: Their inputs.
        labels: The number of the right class of each sample, from 0.
        exact: The name of the float network, whose decisions the others are compared with; None without.

    Returns:
        The scores of each network, by name.

    Raises:
        OptionError: There are more or fewer labels than samples, or a label is no number of a class.
    """
    if len(labels) != len(samples) or not labels:
        got = f"{len(labels)} labels for {len(samples)} samples"
        raise OptionError("labels", "must be one for each sample", got=got)
    found = {name: _outputs(module, samples) for name, module in networks.items()}
    classes = min(outputs.shape[1] for outputs in found.values())
    wrong = next((label for label in labels if not 0 <= label < classes), None)
    if wrong is not None:
        raise OptionError(
            "labels", f"must be numbers from 0 to {classes - 1}, as there are {classes} outputs", got=str(wrong)
        )
    decided = {name: outputs.argmax(axis=1) for name, outputs in found.items()}
    right = np.array(labels)
    return {
        name: Accuracy(
            len(labels),
            float((decided[name] == right).mean()),
            _among(outputs, right) if classes > TOP else None,
            None if exact in (None, name) else float((decided[name] == decided[exact or ""]).mean()),
        )
        for name, outputs in found.items()
    }


def _outputs(module: ModuleOp, samples: Sequence[Array | Mapping[str, Array]]) -> Array:
    """The first output for each sample, [samples, classes]."""
    network = compile(module)
    return np.stack([network.run(sample)[0].reshape(-1) for sample in samples])


def _among(outputs: Array, labels: Array) -> float:
    """The share of samples whose label is among the largest outputs; of equal outputs the first one counts."""
    largest = np.argsort(-outputs.astype(np.float64), axis=1, kind="stable")[:, :TOP]
    return float((largest == labels[:, None]).any(axis=1).mean())
