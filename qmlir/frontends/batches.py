"""Notes on an imported module whether the source model, whose batch is dynamic, keeps the samples of a batch apart.

The import of one sample cannot tell: operations on the batch itself, such as a sum over it, may do nothing on one
sample, and be gone. So the model is imported once more for a batch of `SEVERAL` samples.
"""

import warnings
from collections.abc import Callable, Mapping

from xdsl.dialects.builtin import ModuleOp

from qmlir.dialects.batches import SEVERAL, sample_axes
from qmlir.dialects.qmlir import OpaqueOp
from qmlir.errors import QmlirError, UnsupportedError
from qmlir.ir.facts import BATCH, MIXES
from qmlir.ir.signature import main_function


def note_batch(module: ModuleOp, symbols: Mapping[str, str], again: Callable[[int], ModuleOp]) -> None:
    """Records the symbols of first dimensions, and which operation mixes the samples of a batch, if one does.

    Args:
        module: The import of one sample.
        symbols: The symbols, by the inputs' names; nothing is recorded if there are none.
        again: Imports the model for a number of samples.
    """
    if not symbols:
        return
    BATCH.put(module, symbols)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the first import has given them
            several = again(SEVERAL)
    except QmlirError:
        return  # the model has no meaning for a batch but that of a call for each sample
    if any(isinstance(op, OpaqueOp) for op in several.walk()):
        return
    BATCH.put(several, symbols)
    try:
        sample_axes(main_function(several), SEVERAL)
    except UnsupportedError as reason:
        MIXES.put(module, f"{reason.where}: {reason.need}")
