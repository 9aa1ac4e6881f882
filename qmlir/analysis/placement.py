"""Finds out which operations of a network a device computes, by the compiler's own division of the network."""

from xdsl.dialects.builtin import ModuleOp

from qmlir.compiler import Pipeline
from qmlir.devices import Accelerator, load_device
from qmlir.devices.legality.limits import Legality, legality_of
from qmlir.devices.legality.requirements import requirements, target_of_device
from qmlir.frontends.opaque import refuse_opaque
from qmlir.ir.context import make_context
from qmlir.lowering.qint_to_npu.partition import on_the_host
from qmlir.stages import IMPORTED, OBSERVE, TO_INTEGERS
from qmlir.transforms.quantize.apply.fold_qdq import is_as_imported
from qmlir.transforms.quantize.ranges.apply_profile import fill_ranges, is_float


def judge(module: ModuleOp, device: Accelerator) -> list[Legality]:
    """Returns the legality of each integer operation of a network: whether the device computes it, and why not.

    The host computes what the device cannot, and what would cost more on the device than on the host.

    Args:
        module: A network. A float network is judged as if each of its tensors had the range [−1, 1], quantized as the
            device requires. This is enough to see which operations the device can compute.
        device: A device, the name of a device that comes with qmlir, or the path of a device file.
    """
    refuse_opaque(module, "the network")
    described = load_device(device)
    context = make_context()
    context.target = target_of_device(described)
    network = Pipeline(*IMPORTED)(module, context) if is_as_imported(module) else module.clone()
    if is_float(network):
        network = Pipeline(*OBSERVE)(network, context)
        fill_ranges(network)
        Pipeline(("quantize", requirements(described).options())).apply(network, context)
    integers = Pipeline(*TO_INTEGERS)(network, context)
    return legality_of(integers, described, on_the_host(integers, described))
