"""How a network was quantized, as an attribute of its module: the quantizer's options in effect, and the rules."""

from collections.abc import Mapping
from typing import Any, cast

from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, ModuleOp

from qmlir.errors import OptionError
from qmlir.ir.facts import QUANTIZER
from qmlir.settings.policy import Policy
from qmlir.settings.quant_config import OpConfig, QuantConfig, policy_attribute, settings_of

RULES = "rules"


def record_quantizer(module: ModuleOp, config: QuantConfig, policy: Policy) -> None:
    """Writes the options in effect and the rules on a module.

    Args:
        module: The network that they quantize.
        config: The options in effect.
        policy: The policy, whose rules are written.
    """
    rules = [policy_attribute({key: _as_tuple(value) for key, value in r.as_dict().items()}) for r in policy.rules]
    options = policy_attribute(config.options())
    QUANTIZER.put(module, DictionaryAttr({**options.data, RULES: ArrayAttr(rules)}))


def recorded_quantizer(module: ModuleOp) -> Mapping[str, Any] | None:
    """Returns the options that a network was quantized with, by their names on the command line, and its `rules`.

    Returns None for a network that another program quantized, or that is not quantized: its file does not say.
    """
    attribute = QUANTIZER.of(module)
    if attribute is None or not isinstance(listed := attribute.data.get(RULES), ArrayAttr):
        return None
    options = DictionaryAttr({name: value for name, value in attribute.data.items() if name != RULES})
    try:
        found = {name.replace("_", "-"): value for name, value in settings_of(options).items()}
        rules = [settings_of(each) for each in cast(ArrayAttr[Any], listed) if isinstance(each, DictionaryAttr)]
    except OptionError:  # the text was changed by hand
        return None
    return {**found, RULES: [{key: _as_list(value) for key, value in rule.items()} for rule in rules]}


def recorded_config(module: ModuleOp) -> OpConfig:
    """Returns the options that a network was quantized with where no rule applies; the standard ones if unknown."""
    known = {name.replace("_", "-"): name for name in QuantConfig().options()}
    held = recorded_quantizer(module) or {}
    return OpConfig().with_settings({known[name]: value for name, value in held.items() if name in known})


def _as_tuple(value: Any) -> Any:
    return tuple(cast(list[Any], value)) if isinstance(value, list) else value


def _as_list(value: Any) -> Any:
    return list(cast(tuple[Any, ...], value)) if isinstance(value, tuple) else value
