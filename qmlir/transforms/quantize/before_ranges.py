"""What can be wrong with a quantization whatever the ranges are, to be told before any are learned."""

from collections.abc import Mapping
from typing import Any

from xdsl.dialects.builtin import ModuleOp

from qmlir.devices import Accelerator
from qmlir.devices.requirements import required_options
from qmlir.settings.policy import Policy
from qmlir.settings.quant_config import QuantConfig
from qmlir.transforms.nn.simplify import simplify
from qmlir.transforms.quantize.apply_policy import NamedNetwork
from qmlir.transforms.quantize.observers import observers


def check_before_ranges(
    module: ModuleOp, policy: Policy, options: Mapping[str, Any], target: Accelerator | None = None
) -> None:
    """Refuses options and rules that no ranges could make right.

    Args:
        module: The network; it stays unchanged.
        policy: The policy.
        options: Options of the quantizer that are given, by name.
        target: The device, its name, or the path of its file.

    Raises:
        QmlirError: Options contradict each other, the policy or the device, or a rule matches nothing.
    """
    chosen = dict(options)
    if target is not None:
        chosen |= required_options(target, {**policy.default, **chosen})
    policy.config(QuantConfig(**chosen)).recipe().check("quantize")
    if policy.rules:
        copy = module.clone()
        if not observers(copy):
            simplify(copy)
        network = NamedNetwork(copy)
        for rule in policy.rules:
            network.matching(rule)
