"""The pass `batch-samples`: lets a network's code take any number of samples up to a bound.

Enters and leaves: a network on nn or qint, for one sample. The pass proves that the network keeps the samples of a
batch apart (dialects/batches.py), and marks its function; `loops-to-llvm` adds a function that calls the network's for
each sample.
"""

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from qmlir.dialects.batches import batched_inputs, sample_axes
from qmlir.errors import OptionError
from qmlir.ir.facts import SAMPLES
from qmlir.ir.passes import option
from qmlir.ir.signature import batch_attribute, main_function


@dataclass(frozen=True)
class BatchSamplesPass(ModulePass):
    """Marks the network's function with the most samples of a call, and with the inputs that have samples.

    Before:

        func.func @main(%x: tensor<1x4xf32>) -> tensor<1x4xf32> {

    After `batch-samples{most=8}`:

        func.func @main(%x: tensor<1x4xf32>) -> tensor<1x4xf32>
            attributes {qmlir.samples = {inputs = array<i1: true>, most = 8 : i64}} {
    """

    name = "batch-samples"

    most: int = option(1, "the most samples of a call")

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        if self.most < 1:
            raise OptionError("most", "must be a positive number of samples", got=str(self.most))
        function = main_function(op)
        sample_axes(function)
        SAMPLES.put(function, batch_attribute(self.most, batched_inputs(function)))
