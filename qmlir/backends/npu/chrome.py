"""A timeline in Chrome's trace event format, which ui.perfetto.dev and chrome://tracing show.

A microsecond of the picture is a cycle of the device. There is a track for each engine, with a slice for each command;
a track of the layers, whose slices divide all cycles among them; and a counter for each memory: its bytes in use. What
a command spends before its slice is a slice of the category `setup` or `waits`. An arrow leads to a command that waited
from the command whose end it waited for.

Slices of a track do not overlap. Where a command on a pipelined queue begins before the one before it has ended, that
one's slice is shown until then; its arguments hold the cycle at which it ended.
"""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from qmlir.backends.npu.trace import Span, Trace
from qmlir.isa.commands import (
    Arithmetic,
    Arrange,
    Convolve,
    Fill,
    Host,
    Mark,
    Move,
    OfRows,
    Pool,
    Post,
    Reduce,
    Unpack,
    Window,
)
from qmlir.isa.encoding import Command, mnemonic
from qmlir.running.files import write_whole

Event = Mapping[str, Any]

PROCESS = 1
"""The number of the only process: the device."""

LAYERS = "layers"
"""The name of the track of the layers, which is the first."""

FIRST = PROCESS + 1
"""The number of the first track. Perfetto takes the numbers 0 and that of the process for one and the same track."""


def write_chrome_trace(trace: Trace, path: Path) -> None:
    """Writes a timeline as a .json file; it appears whole or not at all."""
    write_whole(path, json.dumps(chrome_trace(trace), separators=(",", ":")) + "\n")


def chrome_trace(trace: Trace) -> dict[str, Any]:
    """Returns a timeline as an object of the trace event format."""
    report, device = trace.report, trace.device
    return {
        "traceEvents": [*_metadata(trace), *_layers(trace), *_slices(trace), *_arrows(trace), *_counters(trace)],
        "displayTimeUnit": "ms",
        "otherData": {
            "device": device.name,
            "clock_mhz": device.clock,
            "unit": "1 µs is 1 cycle",
            "cycles": report.cycles,
            "macs": report.products,
        },
    }


def _metadata(trace: Trace) -> Iterator[Event]:
    """Yields the names of the process and of the tracks, and the order of the tracks."""
    yield {"ph": "M", "pid": PROCESS, "name": "process_name", "args": {"name": trace.device.name}}
    for number, name in enumerate((LAYERS, *trace.tracks), FIRST):
        about = {"ph": "M", "pid": PROCESS, "tid": number}
        yield {**about, "name": "thread_name", "args": {"name": name}}
        yield {**about, "name": "thread_sort_index", "args": {"sort_index": number}}


def _layers(trace: Trace) -> Iterator[Event]:
    """Yields a slice for each stretch of cycles that belongs to a layer."""
    counts = {layer.name: layer for layer in trace.report.layers}
    for stretch in trace.layers:
        layer = counts[stretch.layer]
        about = {"cycles": layer.cycles, "bound": layer.bound, "bound by": layer.bound_by, "MACs": layer.products}
        yield _slice(stretch.layer or "before the first layer", "layer", FIRST, stretch.start, stretch.end, about)


def _slice(name: str, category: str, track: int, start: int, end: int, about: Event) -> Event:
    times = {"ts": start, "dur": end - start}
    return {"ph": "X", "name": name, "cat": category, "pid": PROCESS, "tid": track, **times, "args": about}


# ---------------------------------------------------------------------------------------------------------------
# Commands


def _slices(trace: Trace) -> Iterator[Event]:
    """Yields the slices of all engines; a command that takes no time is an instant."""
    by_place = {(span.command.queue, span.count): span for span in trace.spans}
    for track, name in enumerate(trace.tracks, FIRST + 1):
        spans = [span for span in trace.spans if span.track == name]
        shown = 0  # the track is full until then
        for number, span in enumerate(spans):
            yield from _before(span, shown, track, trace, by_place)
            end = span.end if number + 1 == len(spans) else min(span.end, spans[number + 1].start)
            if span.busy and end > span.start:
                named = f"{span.layer}: {_kind(span, trace)}" if span.layer else _kind(span, trace)
                yield _slice(named, mnemonic(type(span.command)), track, span.start, end, _about(span, trace))
            elif not isinstance(span.command, Mark):
                about = {"number": span.number, "ended": span.end}
                at = {"ts": span.start, "pid": PROCESS, "tid": track}
                yield {"ph": "i", "s": "t", "name": mnemonic(type(span.command)), "cat": "control", **at, "args": about}
            shown = max(shown, end)


def _before(
    span: Span, shown: int, track: int, trace: Trace, by_place: Mapping[tuple[int, int], Span]
) -> Iterator[Event]:
    """Yields what a command spends between the cycle `shown` and its beginning: waiting first, then its setup."""
    begin = max(span.began.free, shown)
    setup = max(span.start - span.began.setup, begin)
    cause = span.began.cause
    if begin < setup and cause.kind:
        other = by_place[cause.queue, cause.ended]
        what = f"{trace.device.queue[cause.queue].id} {cause.ended}: {_kind(other, trace)} of {other.layer}"
        about = {"for": what, "why": cause.kind, "number": other.number}
        yield _slice("waits", "waits", track, begin, setup, about)
    if setup < span.start:
        yield _slice("setup", "setup", track, setup, span.start, {"number": span.number})


def _kind(span: Span, trace: Trace) -> str:
    """What a command does; of a call, the name of the routine."""
    if isinstance(span.command, Host):
        return trace.routines[span.command.routine]
    return mnemonic(type(span.command))


def _about(span: Span, trace: Trace) -> dict[str, Any]:
    """The arguments of a command's slice."""
    about: dict[str, Any] = {"layer": span.layer, "number": span.number}
    if tile := _tile(span.command):
        about["tile"] = tile
    if span.products:
        about["MACs"] = span.products
        about["MACs/cycle"] = round(span.products / span.busy, 2)
    for key, moved in (("read", span.read), ("written", span.written)):
        about |= {f"{key} {memory}": size for memory, size in moved.items()}
    return {**about, "busy": span.busy, "ended": span.end}


def _tile(command: Command) -> str:
    """The part of a tensor that a command works on: rows, columns and channels of its result, or bytes."""
    match command:
        case Window():
            channels = command.out_channels if isinstance(command, Convolve) else command.channels
            window = f"{command.kernel_rows}x{command.kernel_columns}x{command.channels}"
            return f"{command.out_rows}x{command.out_columns}x{channels} from windows of {window}"
        case Pool():
            window = f"{command.kernel_rows}x{command.kernel_columns}"
            return f"{command.out_rows}x{command.out_columns}x{command.channels} from windows of {window}"
        case Post() | Arithmetic() | Reduce():
            return f"{command.rows}x{command.columns}x{command.channels}"
        case OfRows():
            return f"{command.rows} rows of {command.channels}"
        case Move() | Fill():
            return f"{command.planes}x{command.rows}x{command.size} bytes"
        case Unpack():
            return f"{command.count} weights of {command.bits} bits"
        case Arrange():
            return f"{command.rows}x{command.columns} as weights"
        case _:
            return ""


# ---------------------------------------------------------------------------------------------------------------
# Arrows and counters


def _arrows(trace: Trace) -> Iterator[Event]:
    """Yields the two ends of an arrow for each command that waited for a command of another queue."""
    tracks = {name: number for number, name in enumerate(trace.tracks, FIRST + 1)}
    by_place = {(span.command.queue, span.count): span for span in trace.spans}
    for span in trace.spans:
        cause = span.began.cause
        other = by_place.get((cause.queue, cause.ended))
        late = span.start - span.began.setup > span.began.free
        if cause.kind and other is not None and late and other.busy and cause.queue != span.command.queue:
            about = {"name": cause.kind, "cat": "waits", "id": span.number, "pid": PROCESS}
            yield {**about, "ph": "s", "tid": tracks[other.track], "ts": max(cause.time - 1, 0)}
            yield {**about, "ph": "f", "bp": "e", "tid": tracks[span.track], "ts": span.start}


def _counters(trace: Trace) -> Iterator[Event]:
    """Yields the bytes in use of each memory, where they change; viewers put the unit behind the name."""
    for memory, usage in trace.usage.items():
        about = {"ph": "C", "pid": PROCESS, "name": f"{memory}: used"}
        for time, used in usage:
            yield {**about, "ts": time, "args": {"bytes": used}}
