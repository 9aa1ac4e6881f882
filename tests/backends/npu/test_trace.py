"""The timeline of a run, and its file in Chrome's trace event format."""

import itertools
import json
from collections import Counter, defaultdict
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from qmlir.backends.npu.chrome import chrome_trace, write_chrome_trace
from qmlir.backends.npu.trace import Trace
from qmlir.backends.simulated import serial
from qmlir.devices import shipped_devices
from qmlir.devices.model.timeline import HOST
from qmlir.isa.commands import Mark
from tests.backends.npu.test_compiled import compiled

COMMON = {"ph": str, "pid": int, "name": str}
TIMED = {**COMMON, "ts": int, "tid": int}
FIELDS: Mapping[str, Mapping[str, type]] = {
    "M": {**COMMON, "args": dict},
    "X": {**TIMED, "cat": str, "dur": int, "args": dict},
    "i": {**TIMED, "cat": str, "s": str, "args": dict},
    "s": {**TIMED, "cat": str, "id": int},
    "f": {**TIMED, "cat": str, "id": int, "bp": str},
    "C": {**COMMON, "ts": int, "args": dict},
}
"""The kinds of events that are written, with the fields that the trace event format gives each and their types."""

METADATA = {"process_name": ("name", str), "thread_name": ("name", str), "thread_sort_index": ("sort_index", int)}

Events = list[dict[str, Any]]


@cache
def trace(device: str) -> Trace:
    """The timeline of a small network on a device."""
    return compiled(device).trace


def by_track(events: Events) -> dict[str, Events]:
    """The slices of each track, by its name."""
    names = {event["tid"]: event["args"]["name"] for event in events if event["name"] == "thread_name"}
    found: dict[str, Events] = {name: [] for name in names.values()}
    for event in events:
        if event["ph"] == "X":
            found[names[event["tid"]]].append(event)
    return found


@pytest.mark.parametrize("device", shipped_devices())
def test_the_format(device: str, tmp_path: Path) -> None:
    """Each event has the fields that the format documents for its kind, and no others but a thread's number."""
    write_chrome_trace(trace(device), tmp_path / "t.json")
    whole = json.loads((tmp_path / "t.json").read_text(encoding="utf-8"))
    assert set(whole) == {"traceEvents", "displayTimeUnit", "otherData"}
    assert whole["displayTimeUnit"] in ("ms", "ns")
    events = whole["traceEvents"]
    for event in events:
        fields = FIELDS[event["ph"]]
        assert set(fields) <= set(event) <= {*fields, "tid"}
        assert all(type(event[name]) is kind for name, kind in fields.items())
        assert event.get("ts", 0) >= 0
        assert event.get("dur", 1) >= 1
        if event["ph"] == "M":
            key, kind = METADATA[event["name"]]
            assert type(event["args"][key]) is kind
        if event["ph"] == "C":
            assert all(type(number) is int for number in event["args"].values())
        assert event.get("s", "t") in ("g", "p", "t")
        assert event.get("bp", "e") == "e"
    named = {event["tid"] for event in events if event["name"] == "thread_name"}
    assert {event["tid"] for event in events if "tid" in event} == named
    assert named.isdisjoint({0, *(event["pid"] for event in events)})  # Perfetto shows these two as one track


@pytest.mark.parametrize("device", shipped_devices())
def test_slices_do_not_overlap_and_add_up(device: str) -> None:
    executable, events = compiled(device), chrome_trace(trace(device))["traceEvents"]
    report = executable.report
    assert report is not None
    tracks = by_track(events)
    for slices in tracks.values():
        ordered = sorted(slices, key=lambda event: event["ts"])
        assert all(a["ts"] + a["dur"] <= b["ts"] for a, b in itertools.pairwise(ordered))
        assert all(event["ts"] + event["dur"] <= report.cycles for event in slices)
    cycles = Counter[str]()
    for event in tracks.pop("layers"):
        cycles[event["name"]] += event["dur"]
        assert event["args"]["cycles"] >= event["dur"]
    assert sum(cycles.values()) == report.cycles
    assert cycles == {layer.name or "before the first layer": layer.cycles for layer in report.layers if layer.cycles}
    commands = [e for slices in tracks.values() for e in slices if e["cat"] not in ("waits", "setup")]
    assert sum(event["args"].get("MACs", 0) for event in commands) == report.products
    numbers = [e["args"]["number"] for e in commands] + [e["args"]["number"] for e in events if e["ph"] == "i"]
    marks = [n for n, command in enumerate(executable.program.commands) if isinstance(command, Mark)]
    assert sorted(numbers + marks) == list(range(len(executable.program.commands)))
    assert max(event["args"]["ended"] for event in commands) == report.cycles


@pytest.mark.parametrize("device", shipped_devices())
def test_engines_are_busy_as_the_report_says(device: str) -> None:
    found, asked = trace(device), Counter[str]()
    for span in found.spans:
        asked[span.engine] += span.busy
    report = compiled(device).report
    assert report is not None
    assert found.report == report
    expected = sum((layer.asked for layer in report.layers), Counter[str]())
    assert +asked == {name: cycles for name, cycles in expected.items() if name in asked}
    assert {HOST} <= set(asked)


@pytest.mark.parametrize("device", shipped_devices())
def test_waits_are_visible(device: str) -> None:
    """What a command spends before its slice is told, and arrows lead from the end of the command it waited for."""
    found = trace(device)
    events = chrome_trace(found)["traceEvents"]
    slices = {e["args"]["number"]: e for e in events if e["ph"] == "X" and "ended" in e["args"]}
    assert any(e["cat"] == "waits" and e["args"]["why"] for e in events if e["ph"] == "X")
    arrows: dict[int, Events] = defaultdict(list)
    for event in events:
        if event["ph"] in "sf":
            arrows[event["id"]].append(event)
    assert arrows
    for number, (begin, end) in arrows.items():
        assert (begin["ph"], end["ph"]) == ("s", "f")
        assert begin["ts"] < end["ts"] == found.spans[number].start
        cause = found.spans[number].began.cause
        (source,) = (s for s in found.spans if (s.command.queue, s.count) == (cause.queue, cause.ended))
        assert source.end == cause.time
        assert found.spans[number].start == cause.time + found.spans[number].began.setup
        shown = slices[source.number]
        assert shown["tid"] == begin["tid"]
        assert shown["ts"] <= begin["ts"] < source.end


def test_one_by_one() -> None:
    """With a barrier after each command, nothing overlaps on any track."""
    executable = compiled("nmp")
    events = chrome_trace(executable.with_program(serial(executable.program, executable.device)).trace)["traceEvents"]
    slices = sorted((e for e in events if e["ph"] == "X" and "ended" in e["args"]), key=lambda event: event["ts"])
    assert all(a["ts"] + a["dur"] <= b["ts"] for a, b in itertools.pairwise(slices))
