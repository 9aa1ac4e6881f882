"""The arguments of `load` and `quantize` that the options of a policy's file stand for.

The file of `qmlir quantize --policy` says all of a run, and gives the same bits from Python. Only arguments that the
caller leaves out come from the file. Options about what is printed and written belong to the command.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from xdsl.dialects.builtin import ModuleOp

from qmlir.display import bytes_of
from qmlir.errors import OptionError
from qmlir.ir.reading import ReadingNotes
from qmlir.settings.fields import names_of, scalar_text

if TYPE_CHECKING:
    from qmlir.profiles.profile import Profile


def loading_of(options: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the arguments of `load`, from options of the command line or of a policy by their names there."""
    from qmlir.ir.budget import BUDGET

    ends = {name: options.get(name) for name in ("inputs", "outputs")}
    return {
        "bind": dict(options.get("bind") or ()),
        "constants": constants_in(dict(options.get("constant") or ())),
        "fold_budget": options.get("fold-budget") or BUDGET,
        "shapes": dict(options.get("shape") or ()),
        "state": dict(options.get("state") or ()),
        **{name: options.get(name) for name in ("numerics", "signature", "weights", "entry")},
        **{name: names_of(names) if isinstance(names, str) else names for name, names in ends.items()},
    }


def constants_in(files: Mapping[str, str | Path]) -> dict[str, Any]:
    """Returns the arrays that become constants, by the names of the inputs."""
    from qmlir.samples.arrays import only_array, read_arrays

    constants: dict[str, Any] = {}
    for name, file in files.items():
        only_array(Path(file))
        (constants[name],) = read_arrays(Path(file)).values()
    return constants


def arguments_of(
    module: ModuleOp, profile: "Profile | str | Path | None", options: Mapping[str, Any], given: Mapping[str, Any]
) -> dict[str, Any]:
    """Returns the arguments of `quantize` without its policy: what the caller gives, and what options stand for.

    Args:
        module: The network; it stays unchanged.
        profile: The ranges, if the caller gives them.
        options: The options of a policy's file.
        given: All other arguments; None for those that the caller leaves out.
    """
    from qmlir.devices import load_device
    from qmlir.devices.description.changing import settings_of
    from qmlir.dialects.inputs import reading_notes
    from qmlir.ir.signature import main_function, signature_of
    from qmlir.profiles.profile import Profile
    from qmlir.running.files import path_of
    from qmlir.samples.reading import in_sequences, samples_as_noted
    from qmlir.transforms.quantize.ranges.apply_profile import apply_profile

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
        read = samples_as_noted(path_of(options["data"]), main_function(module), notes)
        samples = read.first(options.get("samples"))
        found["data"] = in_sequences(samples, options.get("sequence"), signature_of(main_function(module)))
    if given.get("tests") is None and "test-data" in options:
        found["tests"] = samples_as_noted(path_of(options["test-data"]), main_function(module), notes)
    found |= {"preprocess": notes.preprocess or None, "dtype": notes.dtype or None}
    if "target" in options:
        changes = [f"{key}={scalar_text(value)}" for key, value in options.get("set", {}).items()]
        found["target"] = load_device(options["target"]).with_(settings_of(changes)) if changes else options["target"]
    if "memory-budget" in options:
        found["memory_budget"] = bytes_of(str(options["memory-budget"]))
    found |= {"runtime": options.get("for"), "fail_on_float": options.get("fail-on-float", False)}
    found |= {"measure": options.get("measure"), "auto_seconds": options.get("auto-seconds")}
    known = {name: value for name, value in given.items() if value is not None}
    return {**found, "io": options.get("io"), **known}
