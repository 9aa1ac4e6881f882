"""Device files: what ships is whole, and what is wrong is named with its key, its unit and the nearest name."""

import difflib
import re
from pathlib import Path

import pytest

from qmlir.devices import load_device, parse_device, shipped_devices
from qmlir.dialects.target import load_target
from qmlir.errors import FileError, OptionError
from qmlir.numerics.contracts import CONTRACTS

NMP = (Path(__file__).parents[2] / "qmlir" / "targets" / "nmp.toml").read_text("utf-8")


def test_what_ships() -> None:
    peaks = {name: load_device(name).peak_macs for name in shipped_devices()}
    assert peaks == {
        "ethos-u55-like": 128,
        "gemmini": 256,
        "nmp": 512,
        "npu-transformer": 1024,
        "nvdla-small": 64,
        "vta": 256,
    }


def test_the_peak_is_that_of_the_faster_lanes() -> None:
    wide = NMP.replace("lanes = { c = 16 }", "lanes = { c = 64, taps = 9, m = 2 }")
    assert parse_device(wide, "mine.toml").peak_macs == 64 * 9 * 2


@pytest.mark.parametrize("name", shipped_devices())
def test_a_shipped_device(name: str) -> None:
    device = load_device(name)
    assert device.name == name
    assert device.quant.contract in CONTRACTS
    assert device.memory_of("ifm") in device.memory


def test_a_device_is_no_target_of_its_own() -> None:
    with pytest.raises(OptionError, match="must be one of cpu, got nmp"):
        load_target("nmp")


REJECTED = [
    ("align = 32", "aling = 32", 'memory "act" aling: there is no such key; did you mean align?'),
    ("[sync]", "[sink]", "sync: is missing (how queues wait for each other); sink: there is no such key"),
    ("k = 32, n", "k = 0, n", "array.lanes.k: must be at least 1 lanes, got 0"),
    ('types = ["i8"', 'types = ["u8"', "quant.types 1: must be 'i8' or 'i16', got 'u8'"),
    ("k = 32, n", "k = true, n", "array.lanes.k: must be a whole number of lanes, got True"),
    ("setup = 40", 'setup = "long"', "queue \"load\" setup: must be a whole number of cycles, got 'long'"),
    ("can_pad = true", "can_pad = 1", 'queue "load" can_pad: must be true or false, got 1'),
    ("bytes_per_cycle = 16.0", "bytes_per_cycle = 0.0", "bytes_per_cycle: must be more than 0 bytes/cycle, got 0.0"),
    ("bytes_per_cycle = 16.0", "bytes_per_cycle = inf", "must be a finite number of bytes/cycle, got inf"),
    ("bytes_per_cycle = 16.0", "bytes_per_cycle = 1e-308", "must be at least 1e-06 bytes/cycle, got 1e-308"),
    ("kernel_max = [11, 11]", "kernel_max = [11]",
     "ops.conv2d.kernel_max 2: is missing; ops.conv2d.kernel_max is a pair"),
    ('holds = ["weights"]', "holds = []", 'memory "wgt" holds: must be a list of at least 1 value, got an empty list'),
    ("rate = 0.5", "rate = 1.5", "array.modes 2 rate: must be at most 1 share of the peak, got 1.5"),
    ('"ws"', '"wss"', "array.dataflow: must be 'ws', 'os' or 'dot', got 'wss'; did you mean ws?"),
    ('["weights"]', '["weight"]', "got 'weight'; did you mean weights?"),
    ("bytes = 262144\nbanks = 8", "bytes = 262145\nbanks = 8", "memory act: bytes must be a multiple of its 8 banks"),
    ("bytes = 131072", "bytes = 64",
     "memory acc: must have a bank, or align bytes, for each of acc, bias: at least 128"),
    ("align = 32", "align = 48", "memory act: align must be a power of two, got 48 bytes"),
    ('id = "wgt"', 'id = "act"', "memory act is there twice"),
    ('from = ["dram"]', 'from = ["drm"]', "queue load: there is no memory drm; did you mean dram?"),
    ("max_waits = 3", "tokens = 3", "sync.tokens is for kind tokens, got watermark"),
    ('kind = "watermark"', 'kind = "tokens"\nbetween = [["load", "exec"], ["post", "sotre"]]',
     "sync.between: there is no queue sotre; did you mean store?"),
    ('kind = "watermark"', 'kind = "tokens"\nbetween = [["load", "exec"], ["post", "store"]]',
     "sync.between: no tokens from queue load reach post"),
    ("max_waits = 3", 'compares = ["act"]', "sync.compares is for kind interlock, got watermark"),
    ('"watermark"', '"interlock"\ncompares = ["acte"]', "sync.compares: there is no memory acte; did you mean act?"),
    ('from = ["dram"]', "", "queue load: the engine dma needs from"),
    ('shares_bus_with = "load"', 'shares_bus_with = "loud"', "there is no other queue loud; did you mean load?"),
    ('engine = "vector"\n', 'engine = "vector"\nshares_bus_with = "load"\n',
     "queue post: shares_bus_with is for two queues of the engine dma, got post (vector) and load (dma)"),
    ('shares_bus_with = "load"', 'shares_bus_with = "exec"',
     "queue store: shares_bus_with is for two queues of the engine dma, got store (dma) and exec (array)"),
    ("elements_per_cycle = 16.0", "", "queue post: the engine vector needs elements_per_cycle"),
    ('engine = "array"', 'engine = "vector"\nelements_per_cycle = 1.0', "some queue must have the engine array"),
    ('holds = ["acc", "bias"]', 'holds = ["bias"]', "some memory must hold acc"),
    ('engine = "vector"\n', 'engine = "array"\n',
     "some queue must have the engine vector, or array with post fused"),
    ('engine = "vector"\nelements_per_cycle = 16.0', 'engine = "array"\nfused = ["post"]\nelements_per_cycle = 16.0',
     "some queue must have the engine vector, or array with pool fused"),
    ("external = true", "", "a memory must be external, where networks begin and end"),
    ('round = "half-up"', 'round = "half-even"', "a pow2 scale rounds half-up, got half-even with 32 bits"),
    ("min = 0, max = 47", "min = 9, max = 7", "shift.min must be at most shift.max"),
    ("depthwise = { lanes = { c = 16 } }", "", "ops.depthwise needs the table array.depthwise"),
    ('lut = { entries = 256, type = "i8" }\nmove = {}\nact = ["none",', 'move = {}\nact = ["lut",',
     "ops.act names lut, but there is no table ops.lut"),
    ('add = { operand_scale = "independent" }', 'add = { operand_scale = "independent", ratio = "shift-add" }',
     "ops.add.ratio = shift-add needs ops.add.multiplier_bits"),
    ('holds = ["weights"]', 'holds = ["lut"]', None),
    ("can_pad = true", "unpacks = [2, 4, 7]", None),
    ('engine = "array"', 'engine = "array"\nunpacks = [2, 4, 7]', None),
    ("can_pad = true", "unpacks = [8]", 'queue "load" unpacks 1: must be at most 7 bits, got 8'),
    ("can_pad = true", "unpacks = [4, 1]", 'queue "load" unpacks 2: must be at least 2 bits, got 1'),
    ("can_pad = true", "unpacks = 4", 'queue "load" unpacks: must be a list, got 4'),
    ("can_pad = true", "unpacks = [4.0]", 'queue "load" unpacks 1: must be a whole number of bits, got 4.0'),
    ('engine = "vector"\n', 'engine = "vector"\nunpacks = [4]\n',
     "queue post: unpacks is for the engines array and dma, got vector"),
    ("arranges = true\n", "", r"ops.matmul needs a queue that arranges computed matrices as weights (arranges = true)"),
    ("can_pad = true", "arranges = true", "queue load: arranges needs elements_per_cycle"),
    ('from = ["act", "acc"]', 'from = ["acc"]\narranges = true\nelements_per_cycle = 4.0',
     "queue store: arranges is for a queue from a memory that holds ifm to one that holds weights"),
    ("can_pad = true", "arranges = 1", 'queue "load" arranges: must be true or false, got 1'),
    ('shares_bus_with = "load"', "unpacks = [4]",
     "queue store: unpacks is for a queue from and to memories that hold weights"),
    ("schema = 1", "schema = 2", "schema: must be 1, got 2"),
    ('name = "nmp"', 'name = "N M P"', "name: "),
    ("schema = 1", "schema = ", "must be TOML"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "instead", "message"), REJECTED)
def test_what_is_wrong_is_named(text: str, instead: str, message: str | None) -> None:
    assert text in NMP
    changed = NMP.replace(text, instead, 1)
    if message is None:  # another memory holds weights as well
        parse_device(changed, "mine.toml")
        return
    with pytest.raises(FileError) as error:
        parse_device(changed, "mine.toml")
    assert str(error.value).startswith("mine.toml:")
    assert message in str(error.value)


PROPOSED = re.compile(r"did you mean ([\w-]+)\?")
MISNAMED = [(text, instead, message) for text, instead, message in REJECTED if message and PROPOSED.search(message)]


def complaint(text: str) -> str:
    """What is wrong with a device file; empty where nothing is."""
    try:
        parse_device(text, "mine.toml")
    except FileError as error:
        return str(error)
    return ""


@pytest.mark.parametrize(("text", "instead", "message"), MISNAMED)
def test_the_name_that_is_proposed_is_accepted(text: str, instead: str, message: str) -> None:
    """The word of the file that is most like the proposed name is the wrong one; other rules may stay broken."""
    (name,) = PROPOSED.findall(complaint(NMP.replace(text, instead, 1)))
    words = [word for word in re.findall(r"[\w-]+", instead) if word not in re.findall(r"[\w-]+", text)]
    (wrong,) = difflib.get_close_matches(name, words, 1)
    after = complaint(NMP.replace(text, instead.replace(wrong, name), 1))
    assert not PROPOSED.search(after)
    assert "there is no" not in after


def test_a_file_is_parsed_once_until_it_changes(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(NMP)
    assert load_device(path) is load_device(path)
    path.write_text(path.read_text() + "\n# changed\n")
    assert load_device(path) == load_device("nmp")
    path.write_text("broken")
    for _ in range(2):
        with pytest.raises(FileError, match="must be TOML"):
            load_device(path)


def test_every_problem_at_once() -> None:
    changed = NMP.replace("align = 32", "aling = 32").replace("k = 32, n", "k = 0, n")
    with pytest.raises(FileError, match=r"array\.lanes\.k.*aling"):
        parse_device(changed, "mine.toml")


def test_files(tmp_path: Path) -> None:
    with pytest.raises(FileError, match="must be a device file that can be read"):
        load_device(tmp_path / "absent.toml")
    (tmp_path / "bytes.toml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(FileError, match="UTF-8"):
        load_device(tmp_path / "bytes.toml")
    with pytest.raises(OptionError, match="did you mean nmp"):
        load_device("nnp")
    (tmp_path / "mine.toml").write_text(NMP.replace('"nmp"', '"mine"'), "utf-8")
    assert load_device(tmp_path / "mine.toml").name == "mine"


def test_packed_weights_need_a_mode_with_bytes() -> None:
    modes = {"array.modes": [{"a": "i16", "w": "i16", "acc": "i48"}], "queue.exec.unpacks": [4]}
    with pytest.raises(OptionError, match=r"queue exec: unpacks needs one of array\.modes with w = i8"):
        load_device("nmp").with_(modes)
