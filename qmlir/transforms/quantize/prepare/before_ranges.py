"""What can be wrong with a quantization whatever the ranges are, to be told before any are learned."""

from xdsl.dialects.builtin import ModuleOp

from qmlir.settings.policy import Policy
from qmlir.settings.resolve import Settings
from qmlir.transforms.nn.simplify import simplify
from qmlir.transforms.quantize.prepare.apply_policy import NamedNetwork
from qmlir.transforms.quantize.ranges.observers import observers


def check_before_ranges(module: ModuleOp, policy: Policy, settings: Settings) -> None:
    """Refuses options and rules that no ranges could make right.

    Args:
        module: The network; it stays unchanged.
        policy: The policy.
        settings: The settings in effect where no rule applies.

    Raises:
        QmlirError: Settings contradict each other, or a rule matches nothing.
    """
    settings.config().op_config().check("quantize")
    if policy.rules:
        copy = module.clone()
        if not observers(copy):
            simplify(copy)
        network = NamedNetwork(copy)
        for rule in policy.rules:
            network.matching(rule)
