"""The one resolution of the quantizer's settings: each has a value, and the origin that gave it.

Later origins win over earlier ones: the standard value, what the module states, what the runtime prefers, the policy's
default, an argument. A device then sets what nobody asked for, and refuses what it cannot run; a recipe sets what is
then left (transforms/quantize/prepare/recipes.py). An argument that differs from the policy's default is an error, for
an argument of the standard value as for any other.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from qmlir.errors import OptionError
from qmlir.ir.passes import check_value, option_types
from qmlir.settings.fields import RUNTIMES
from qmlir.settings.policy import Policy, inline
from qmlir.settings.quant_config import QuantConfig

if TYPE_CHECKING:
    from qmlir.devices import Accelerator

Origin: TypeAlias = Literal["standard", "module", "runtime", "policy", "argument", "device", "recipe"]


@dataclass(frozen=True)
class Setting:
    """The value of one of the quantizer's options, and the origin that gave it."""

    value: Any
    origin: Origin


@dataclass(frozen=True)
class Settings:
    """The options of the quantizer in effect for a network: each field of `QuantConfig` with its origin.

    >>> resolve(Policy({"schema": "symmetric"}), {"bias": "int32"}).settings["schema"]
    Setting(value='symmetric', origin='policy')

    settings   option → its value and origin
    elsewhere  whether a device or another runtime is to run the network
    """

    settings: Mapping[str, Setting]
    elsewhere: bool = False

    def config(self) -> QuantConfig:
        """Returns the values without their origins."""
        return QuantConfig(**{name: setting.value for name, setting in self.settings.items()})


def resolve(
    policy: Policy,
    given: Mapping[str, Any],
    *,
    base: QuantConfig | None = None,
    runtime: str | None = None,
    target: "Accelerator | None" = None,
) -> Settings:
    """Returns the settings in effect.

    Args:
        policy: The policy, whose default holds where no argument is given.
        given: Arguments by name; an argument of None is not given.
        base: The settings that the network's module states; by default the standard values.
        runtime: The runtime that is to run the network, a key of `RUNTIMES`.
        target: The device that is to run it, its name, or the path of its file.

    Raises:
        OptionError: An option cannot have its value, an argument contradicts the policy's default, the default holds
            what only a rule can give, or the device cannot run what is asked for.
    """
    arguments = _arguments(given)
    found = {name: Setting(value, "standard") for name, value in QuantConfig().options().items()}
    stated = {} if base is None else base.options()
    found |= {name: Setting(value, "module") for name, value in stated.items() if value != found[name].value}
    if runtime is not None:
        found |= {name: Setting(value, "runtime") for name, value in RUNTIMES[runtime].items()}
    default = policy.default
    for name, value in arguments.items():
        if name in default and default[name] != value:
            need = f"must not contradict the policy's default, {default[name]}"
            raise OptionError(name.replace("_", "-"), need, got=inline(value), remedy="drop one of the two")
    if unknown := default.keys() - found.keys():
        raise OptionError("policy", "cannot set this by default", got=", ".join(sorted(unknown)), remedy="use a rule")
    found |= {name: Setting(value, "policy") for name, value in default.items()}
    found |= {name: Setting(value, "argument") for name, value in arguments.items()}
    if target is not None:
        from qmlir.devices.legality.requirements import (
            required_options,  # device files need pydantic, a fifth of all imports
        )

        asked = {name: setting.value for name, setting in found.items() if setting.origin != "standard"}
        for name, value in required_options(target, asked).items():
            if value != found[name].value:
                found[name] = Setting(value, "device")
    return Settings(found, target is not None or runtime is not None)


def _arguments(given: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the arguments that are given.

    Raises:
        OptionError: An option cannot have its value; the error proposes similar values.
    """
    known = option_types(QuantConfig)
    found = {name: value for name, value in given.items() if value is not None}
    for name, value in found.items():
        check_value(f"quantize {name.replace('_', '-')}", known[name], value)
    return found
