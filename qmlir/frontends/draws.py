"""Random numbers of models, which are drawn once, at import.

A network computes the same results from the same inputs, bit for bit; so an operator whose result is random becomes a
constant, as in Glow. The numbers are those of `numpy.random.RandomState`, whose streams numpy never changes. ONNX's own
test cases are drawn from them.
"""

import warnings
from zlib import crc32

import numpy as np

from qmlir.errors import QmlirWarning
from qmlir.frontends.builder import Node


def drawn_by(node: Node, seed: float | None) -> np.random.RandomState:
    """Returns the source of a node's random numbers, and warns that they will not change from call to call.

    The seed is the node's own, if that is a whole number that numpy takes; else it follows from the seed and the name
    of the node's first output, so that nodes without seeds draw different numbers, and the same in every import.
    """
    what = f'{node.file}: {node.kind} "{node.called()}"'
    warnings.warn(f"{what}: its random numbers are drawn once and are the same in every call", QmlirWarning, 2)
    if seed is not None and float(seed).is_integer() and 0 <= seed < 2**32:
        return np.random.RandomState(int(seed))
    return np.random.RandomState(crc32(f"{seed} {node.outputs[0]}".encode()))
