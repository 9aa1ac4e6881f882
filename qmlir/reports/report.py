"""`qmlir.report`: from networks and samples to a page that shows what quantization did to each layer."""

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

from xdsl.dialects.builtin import ModuleOp

from qmlir.analysis.facts import Facts
from qmlir.analysis.gather import Given, gather
from qmlir.compiler import load
from qmlir.devices import load_device
from qmlir.errors import OptionError, QmlirError
from qmlir.ir.interfaces import Array
from qmlir.ir.verify import require_module
from qmlir.running.files import path_of, write_whole
from qmlir.settings.arguments import Network, profile_given, samples_given

if TYPE_CHECKING:
    from qmlir.devices import Accelerator
    from qmlir.profiles.profile import Profile

FRAME = 720
"""The height in pixels of a report in a notebook."""


class Report:
    """A report: its facts, and the page that shows them.

    facts  all that the page shows, as plain data
    title  the page's title
    html   the page; it needs no other file and no network
    """

    def __init__(self, facts: Facts, title: str):
        """Makes the page of some facts.

        Raises:
            QmlirError: bokeh is not installed.
        """
        require_plots()
        from qmlir.reports.page import page_of

        self.facts, self.title = facts, title
        self.html = page_of(facts, title)

    def save(self, path: str | Path) -> None:
        """Writes the page; the file appears whole or not at all."""
        write_whole(path_of(path), self.html)

    def _repr_html_(self) -> str:
        """The page in a notebook."""
        style = f"width:100%;height:{FRAME}px;border:0"
        return f'<iframe srcdoc="{escape(self.html)}" style="{style}" title="{escape(self.title)}"></iframe>'

    def __repr__(self) -> str:
        layers = max(len(network.layers) for network in self.facts.networks)
        names = ", ".join(network.name for network in self.facts.networks)
        return f"<report of {names}: {layers} layers, {len(self.html.encode()) / 1e6:.1f} MB>"


def require_plots() -> None:
    """Checks that plots can be drawn, before anything is measured.

    Raises:
        QmlirError: bokeh is not installed.
    """
    from importlib.util import find_spec

    if find_spec("bokeh") is None:
        remedy = "pip install 'qmlir[report]'"
        raise QmlirError("needs bokeh to draw plots", where="a report", got="none installed", remedy=remedy)


def report(
    *networks: Network,
    data: Iterable[Array | Mapping[str, Array]] | None = None,
    labels: Sequence[int] | Array | None = None,
    profile: "Profile | str | Path | None" = None,
    target: "Accelerator | None" = None,
    seconds: float = 1.0,
    names: Sequence[str] | None = None,
    title: str | None = None,
) -> Report:
    """Makes a page that shows what quantization did to each layer of a network.

        qmlir.report(network, quantized, data=samples).save("report.html")

    Args:
        networks: At most one float network and at most two networks that were quantized from it, as modules or paths.
            One quantized network alone gives a page, too; the page says what to give for the rest.
        data: Samples. With a float network, the error of each layer is computed on the first 32 of them.
        labels: The number of the right class of each sample, counted from 0, for the accuracy of each network.
        profile: The distributions of the float network's tensors, or the path of a profile; by default they are
            learned from the samples.
        target: A device, its name, or the path of its file; the page shows its cycles.
        seconds: How long to measure calls of each network on this processor; 0 to measure nothing.
        names: What the page calls the networks, in their order; by default the names of their files.
        title: The page's title; by default the name of the first network.

    Raises:
        OptionError: The networks are others than these, or labels do not fit the samples.
        QmlirError: bokeh is not installed, the networks have no tensor in common, or there are labels and a network
            does not have one output with a number for each class.

    >>> import qmlir
    >>> q = qmlir.quantize("digits.onnx", data=samples)
    >>> "</html>" in qmlir.report("digits.onnx", q, data=samples, seconds=0).html
    True
    """
    require_plots()
    if target is not None:
        load_device(target)
    called = _names(networks, names)
    modules = {name: _module(network) for name, network in zip(called, networks, strict=True)}
    found = None if profile is None else profile_given(profile)[0]
    samples = () if data is None else [*samples_given(data)]
    if not 0 <= seconds < 1e6:
        raise OptionError("seconds", "must be a number of seconds, or 0", got=str(seconds))
    given = Given(samples, labels, found, target, seconds)
    return Report(gather(modules, given), title or (called[0] if called else ""))


def _module(network: Network) -> ModuleOp:
    if isinstance(network, str | Path):
        return load(network)
    require_module(network)
    return network


def _names(networks: Sequence[Network], names: Sequence[str] | None) -> list[str]:
    """What the page calls each network: different names.

    Raises:
        OptionError: The names that were given are not as many as networks, or not different.
    """
    if names is not None:
        if len(names) != len(networks) or len({*names}) != len(names):
            need = "must be a different name for each network"
            raise OptionError("names", need, got=f"{', '.join(names)} for {len(networks)} networks")
        return list(names)
    files = [Path(each).name if isinstance(each, str | Path) else "network" for each in networks]
    stems = [Path(name).stem for name in files]
    for choice in (stems, files):
        if len({*choice}) == len(choice):
            return choice
    return [f"{name} {number}" for number, name in enumerate(files, 1)]
