"""`qmlir.quantize`: the compiler's `quantize`, with the arguments that a policy's file holds under `options`.

The file of `qmlir quantize --policy` says all of a run, and gives the same bits from Python. Only arguments that
Python's caller leaves out come from the file. Options about what is printed and written belong to the command.
"""

from collections.abc import Mapping
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

from xdsl.dialects.builtin import ModuleOp

from qmlir import compiler
from qmlir.arguments import Network, policy_given
from qmlir.display import bytes_of
from qmlir.errors import OptionError
from qmlir.frontends.torch_modules import example_for, is_torch_module
from qmlir.ir.reading import ReadingNotes
from qmlir.settings.fields import names_of, scalar_text
from qmlir.settings.policy import Policy

if TYPE_CHECKING:
    from qmlir.frontends.torch_modules import TorchModule
    from qmlir.profiles.profile import Profile
    from qmlir.settings.quant_config import QuantOptions


@wraps(compiler.quantize)
def quantize(
    module: "Network | TorchModule",
    profile: "Profile | str | Path | None" = None,
    *,
    policy: Any = None,
    **given: "Unpack[QuantOptions]",
) -> ModuleOp:
    """Returns a network on quantized types; see `compiler.quantize`."""
    held, arguments = policy_given(policy), dict[str, Any](given)
    if not held.options:
        return compiler.quantize(module, profile, policy=held, **arguments)
    if is_torch_module(module):
        example = example_for(module, arguments.get("data"), arguments.pop("example", None))
        module = compiler.load(module, example=example)
    if isinstance(module, str | Path):
        module = load_with(module, held.options)
    found = _arguments(module, profile, held, arguments)
    known = {name: value for name, value in arguments.items() if value is not None}
    return compiler.quantize(**{**found, **known}, policy=Policy(held.default, held.rules))


def load_with(path: str | Path, options: Mapping[str, Any]) -> ModuleOp:
    """Loads a network as options say, which are those of the command line or of a policy, by their names there."""
    from qmlir.ir.budget import BUDGET

    ends = {name: options.get(name) for name in ("inputs", "outputs")}
    return compiler.load(
        path,
        bind=dict(options.get("bind") or ()),
        constants=constants_in(dict(options.get("constant") or ())),
        numerics=options.get("numerics"),
        signature=options.get("signature"),
        fold_budget=options.get("fold-budget") or BUDGET,
        weights=options.get("weights"),
        shapes=dict(options.get("shape") or ()),
        state=dict(options.get("state") or ()),
        **{name: names_of(names) if isinstance(names, str) else names for name, names in ends.items()},
    )


def constants_in(files: Mapping[str, str | Path]) -> dict[str, Any]:
    """Returns the arrays that become constants, by the names of the inputs."""
    from qmlir.samples.arrays import only_array, read_arrays

    constants: dict[str, Any] = {}
    for name, file in files.items():
        only_array(Path(file))
        (constants[name],) = read_arrays(Path(file)).values()
    return constants


def _arguments(
    module: ModuleOp, profile: "Profile | str | Path | None", policy: Policy, given: dict[str, Any]
) -> dict[str, Any]:
    """Returns the arguments of `compiler.quantize` that a policy's options stand for."""
    from qmlir.devices import load_device
    from qmlir.devices.changing import settings_of
    from qmlir.dialects.inputs import reading_notes
    from qmlir.ir.signature import signature_of
    from qmlir.profiles.profile import Profile
    from qmlir.samples.reading import in_sequences, read_samples
    from qmlir.transforms.quantize.apply_profile import apply_profile

    options = policy.options
    found: dict[str, Any] = {"module": module, "profile": profile}
    notes = reading_notes(module)
    if profile is None and "profile" in options:
        held = Profile.load(options["profile"])
        notes = held.notes or notes
        found["module"] = module = module.clone()
        by_name, partial = options.get("profile-by-name", False), options.get("partial-profile", False)
        apply_profile(
            module, held, source=options["profile"], partial=partial, by_name=by_name, switch="partial-profile"
        )
    said = {name: given.get(name) or options.get(name, "") for name in ("preprocess", "dtype")}
    notes = ReadingNotes(**said).over(notes)
    if given.get("data") is None and "data" in options:
        if ("labels" in options or "metric" in options) and "test-data" not in options:
            need = "are held out of the data by the command only"
            raise OptionError("policy samples to score on", need, remedy="name other samples as --test-data")
        texts = {"preprocess": notes.preprocess or None, "dtype": notes.dtype or None}
        samples = read_samples(options["data"], module, **texts).first(options.get("samples"))
        found["data"] = in_sequences(samples, options.get("sequence"), signature_of(compiler.main_function(module)))
    found |= {"preprocess": notes.preprocess or None, "dtype": notes.dtype or None}
    if "target" in options:
        changes = [f"{key}={scalar_text(value)}" for key, value in options.get("set", {}).items()]
        found["target"] = load_device(options["target"]).with_(settings_of(changes)) if changes else options["target"]
    if "memory-budget" in options:
        found["memory_budget"] = bytes_of(str(options["memory-budget"]))
    found |= {"runtime": options.get("for"), "fail_on_float": options.get("fail-on-float", False)}
    return found | {"io": options.get("io")}
