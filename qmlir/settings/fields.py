"""The options that commands share and policies may hold, each declared once: kind, values, default and meaning.

From an entry of `OPTIONS` follow the option's flag and help in every command (cli/flags.py), its key under `options` in
a policy's file, and its line in what `--print-config` prints. The options of the quantizer itself are the fields of
`QuantConfig` (quant_config.py). An option of a single command stands with that command.

    default: {schema: symmetric}
    rules: [{name: conv1, precision: int16}]
    options:
      data: digits.npz:calibration_images
      samples: 50
      target: ethos-u55-like
      output: digits.npu

An option has the name, the values and the meaning that it has on the command line; `bind`, `constant`, `shape`,
`state` and `set`, which may be given more than once there, are mappings. Paths are relative to the working directory,
as they are there. The module imports very little, so that `--help` is fast.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, cast

from qmlir.display import bytes_of

Kind: TypeAlias = Literal[
    "text", "path", "names", "choice", "count", "integer", "size", "flag", "switch", "numbers by name",
    "texts by name", "paths by name", "changes by name",
]  # fmt: skip


@dataclass(frozen=True)
class Option:
    """An option that commands share.

    kind     the kind of its values; a switch has a flag that turns it off, too; changes are checked by what they change
    help     its meaning; words in braces are a command's own
    metavar  what stands for the value in help texts; for values by name also the form that is needed
    values   the values of a choice; the suffixes of a path, if it has to have one of them
    default  the value where it is not given, if that is another one than none
    file     whether a policy's file may hold it
    """

    kind: Kind
    help: str
    metavar: str | None = None
    values: tuple[str, ...] = ()
    default: Any = None
    file: bool = True


RUNTIMES: Mapping[str, Mapping[str, str]] = {
    "onnxruntime": {"precision": "uint8", "weight_precision": "int7", "attention": "stored"}
}
"""The settings that a runtime prefers: onnxruntime is fastest on unsigned data, and exact on 7-bit weights."""

FORMATS = ("onnx-qdq", "onnx-qoperator", "onnx-integer", "tflite")
"""The formats of other runtimes that `export` writes."""

ACTIVATIONS = ("uint8", "kept")
"""How the format onnx-qdq stores signed bytes between operations."""

OPTIONS: Mapping[str, Option] = {
    "bind": Option(
        "numbers by name",
        "value of a symbolic dimension of an .onnx file, where an unbound first dimension is 1; rows, context, "
        "positions or window of a .gguf file",
        "NAME=N",
    ),
    "constant": Option(
        "paths by name",
        "value of an input of an .onnx file or a Caffe2 net that becomes a constant: .npy or FILE.npz:ARRAY",
        "NAME=FILE",
    ),
    "weights": Option("path", "the init net of a Caffe2 net, .pb or .pbtxt, which makes its weights", "FILE"),
    "shape": Option(
        "texts by name",
        "shape of an input of a Caffe2 net, such as data=1x3x224x224; another element type than f32 follows it: "
        "indices=8xi64",
        "NAME=SHAPE",
    ),
    "state": Option(
        "texts by name",
        "an input that lives from call to call, such as a cache, and the output that is its value in the next call; "
        "before the first call it is 0",
        "PAST=PRESENT",
    ),
    "inputs": Option(
        "names",
        "tensors of the file at which the network begins, its arguments, in this order; by default the file's inputs",
        "NAME,…",
    ),
    "outputs": Option(
        "names",
        "tensors of the file at which the network ends, its results, in this order; by default the file's outputs",
        "NAME,…",
    ),
    "entry": Option(
        "text", "the entry of an .mlir file with several that is the network, such as decode", "NAME", file=False
    ),
    "entries": Option(
        "names",
        "make one network whose entries share weights and states: the model with sizes of its own for each, such as "
        "prefill:rows=16,decode:rows=1, or an entry of another file, decode:decode.onnx; samples and scores are of the "
        "first",
        "NAME:SIZE=N,…",
        file=False,
    ),
    "prefix-data": Option(
        "path",
        "begin the states of the network behind these samples, such as a token or a text that comes first each time: "
        "the float network reads them, and each reset goes back to the states that they leave",
        "FILE",
        file=False,
    ),
    "prefix-entry": Option(
        "text", "the entry of --entries that reads --prefix-data (default: the first)", "NAME", file=False
    ),
    "numerics": Option(
        "text",
        "whose rounding quantized operations follow: default, onnxruntime (its sums of u8 by s8 saturate), "
        "onnxruntime-vnni (its sums are exact), litert-reference, litert-xnnpack or litert-builtin; by default what an "
        ".mlir file says",
        "RUNTIME",
    ),
    "signature": Option(
        "text", "the signature of a .tflite file whose subgraph is the network; by default its first subgraph", "KEY"
    ),
    "fold-budget": Option(
        "count",
        "what constants may take that are computed from smaller ones, at import and in each later simplification; "
        "beyond it their operations stay (default: 1 GiB)",
        "BYTES",
    ),
    "profile": Option("path", "a profile, of ours or of Glow's (default: the ranges in the IR, or of --data)"),
    "save-profile": Option("path", "keep the profile that is learned from --data", values=(".yaml",)),
    "save-policy": Option(
        "path", "with --precision auto, write the policy that makes the same network without it", values=(".yaml",)
    ),
    "auto-seconds": Option(
        "count",
        "with --precision auto, the seconds of processor time after which the search begins no further "
        "quantization; a line says if that ended it (default: 600)",
        "N",
    ),
    "partial-profile": Option("flag", "accept a profile that lacks some of the tensors"),
    "profile-by-name": Option("flag", "accept tensors that were computed in another way then"),
    "data": Option(
        "path",
        "{what}: .npy, .npz, FILE.npz:ARRAY, raw .bin, a picture, or a folder of one kind of these, or a folder of "
        "such folders",
    ),
    "samples": Option("count", "use at most this many samples (default: all)"),
    "sequence": Option(
        "count", "how many samples follow one another before the states of a network are reset (default: all)", "N"
    ),
    "dtype": Option(
        "text",
        "the type that raw files store, such as uint8 (default: what the profile or the quantized model keeps, or the "
        "input's type)",
    ),
    "preprocess": Option(
        "text",
        'how pixels become numbers: "resize=256 scale=0.00392157 mean=0.485,0.456,0.406 std=0.229,0.224,0.225 '
        'filter=bilinear order=rgb layout=auto"; (x * scale - mean) / std after a crop of the centre; by default what '
        "the profile or the quantized model keeps",
        "OPTIONS",
    ),
    "memory-budget": Option(
        "size",
        "what the values of all samples may take while weights are rounded and biases corrected; a line says if this "
        "allows fewer samples (default: 512MiB)",
        "SIZE",
    ),
    "labels": Option(
        "text",
        "score {what} by the class of each sample, counted from 0: a text file with a class a line or lines of file "
        "name and class, .npy, FILE.npz:ARRAY, `names` for the number that a sample's file name starts with, or "
        "`folders` for a folder of samples a class{more}",
        "FILE",
    ),
    "label-offset": Option("integer", "added to each label (default: 0)", "N", default=0),
    "metric": Option(
        "text",
        "your own score: a Python function of the outputs for all samples (an array, or a dict of arrays by name) and "
        "of the labels (None without --labels), which returns a number",
        "MODULE:FUNCTION",
    ),
    "test-data": Option("path", "score and measure errors on these samples, and quantize on all of --data"),
    "measure": Option(
        "switch",
        "say how far each output is from the float network's, warn where that is less than half of what its bits "
        "allow, and name the operations that cost the outputs most; on the samples that --samples leaves over, or one "
        "in eight of 16 and more, which quantization then does not see, otherwise on samples that it used (default: "
        "where there are samples)",
    ),
    "for": Option(
        "choice",
        "the runtime that is to run the exported network: other defaults, for onnxruntime --precision uint8 "
        "--weight-precision int7, whose kernels are fast on x86 and, unlike those for weights of 8 bits, exact without "
        "VNNI, too. Where it is installed, a line says whether the quantized network is faster there than the float "
        "network",
        values=tuple(RUNTIMES),
    ),
    "target": Option("text", "{what}: a device file, or one that comes with qmlir", "DEVICE"),
    "set": Option(
        "changes by name",
        "change a key of the device, such as array.lanes.k=16 or memory.act.bytes=65536; may be repeated",
        "KEY=VALUE",
    ),
    "fail-on-float": Option("flag", "refuse if an operation stays float"),
    "ledger": Option("path", "write the decision for each operation as JSON"),
    "format": Option(
        "choice",
        "what to write: floats between casts, onnxruntime's operators on integers, integers spelled out in ONNX's "
        "operators, or a TFLite file (default: by the file's name, tflite or onnx-qdq)",
        values=FORMATS,
    ),
    "onnx-activations": Option(
        "choice",
        "how onnx-qdq stores signed bytes between operations: as unsigned ones, which mean the same numbers and are "
        "much faster in onnxruntime on x86, or kept as they are (default: uint8)",
        values=ACTIVATIONS,
    ),
    "opset": Option("count", "version of ONNX's operators (default: what onnxruntime runs)"),
    "threads": Option(
        "count", "threads that one call may use; the results are the same bits for any number (default: 1)", "N"
    ),
    "batch": Option(
        "count",
        "let a call take any number of samples up to N, with the same bits as a call for each (default: the model's "
        "own shapes)",
        "N",
    ),
    "cpu": Option(
        "text",
        "the processor to generate code for: native (this one, the default); LLVM's name of another of this "
        "architecture, such as znver3; or, with its usual triple, {processors}, or LLVM's name of another processor of "
        "AArch64, x86-64 or RISC-V; Cortex-M0+ and m0plus are cortex-m0plus",
        "NAME",
    ),
    "features": Option("text", "processor features to switch on or off in addition: --features=+avx2,-avx512f", "LIST"),
    "triple": Option(
        "text",
        "the architecture and system to generate code for: {triples} (default: this machine's, or that which --cpu "
        "implies); --cpu is then a processor of that architecture, by default the most generic one",
        "TRIPLE",
    ),
    "memory": Option(
        "choice",
        "what the code is made for: fast packs and copies data where that saves time, small takes as little scratch "
        "memory as it can (default: small for --bundle, otherwise fast)",
        values=("fast", "small"),
    ),
    "io": Option(
        "choice",
        "what a quantized network takes and gives: integers with its own scales and zero points, which the header "
        "states, or floats (default: what the model says)",
        values=("int8", "uint8", "int16", "float"),
    ),
    "output": Option(
        "path",
        "the file to write; its suffix chooses the form: .mlir for qmlir's other commands, .onnx or .tflite for "
        "another runtime, .o for machine code with weights and a C header, .npu for the program of --target",
        values=(".mlir", ".onnx", ".tflite", ".o", ".npu"),
    ),
    "no-cache": Option(
        "flag",
        "compile, even if the same code is on disk (in $QMLIR_CACHE, by default ~/.cache/qmlir), and keep nothing",
        file=False,
    ),
    "jobs": Option("count", "in N processes of this machine; 1 is this process", "N", file=False),
    "scheduler": Option(
        "text",
        "on the workers of a Dask cluster, such as tcp://localhost:8786; they need qmlir, and files under the same "
        "paths",
        "ADDRESS",
        file=False,
    ),
    "worker-memory": Option(
        "size",
        "the most memory of each process of --jobs, such as 2GiB (default: an equal share of this machine's)",
        "SIZE",
        file=False,
    ),
}
"""Name → option, in the order in which `--print-config` prints options of a policy's file."""

RUN_OPTIONS = {name: option for name, option in OPTIONS.items() if option.file}
"""The options that a policy's file may hold."""

LOADING = (
    "bind", "constant", "weights", "shape", "inputs", "outputs", "entry", "state", "numerics", "signature",
    "fold-budget",
)  # fmt: skip
"""The options of every command that loads a model, in the order of its help."""

PROCESSOR = ("cpu", "features", "triple", "memory")
"""The options that name the processor that code is for."""

SAMPLES = ("data", "samples", "dtype", "preprocess")
"""The options that name a command's samples."""

WORKERS = ("jobs", "scheduler", "worker-memory")
"""The options that choose workers; results are the same bytes wherever the work runs."""


def need(kind: Kind) -> str:
    """Returns what a value of a kind must be, for errors."""
    match kind:
        case "count":
            return "must be a positive number"
        case "integer":
            return "must be an integer"
        case "size":
            return "must be bytes, or a size such as 512MiB or 2GiB"
        case "flag" | "switch":
            return "must be true or false"
        case "numbers by name":
            return "must be positive numbers by name, such as {batch: 1}"
        case "texts by name" | "paths by name" | "changes by name":
            return "must be values by name"
        case _:
            return "must be text"


def fits(kind: Kind, value: object) -> bool:
    """Whether an option of a kind can have a value."""
    match kind:
        case "count":
            return _is_integer(value) and cast(int, value) >= 1
        case "integer":
            return _is_integer(value)
        case "size":
            return bytes_of(value) is not None if isinstance(value, str) else fits("count", value)
        case "flag" | "switch":
            return isinstance(value, bool)
        case "numbers by name":
            return _is_mapping(value) and all(fits("count", each) for each in cast(dict[str, Any], value).values())
        case "texts by name" | "paths by name" | "changes by name":
            return _is_mapping(value) and all(map(_is_scalar, cast(dict[str, Any], value).values()))
        case _:
            return isinstance(value, str) and bool(value)


def _is_integer(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_mapping(value: object) -> bool:
    return isinstance(value, dict) and all(isinstance(key, str) and key for key in cast(dict[Any, Any], value))


def _is_scalar(value: object) -> bool:
    return isinstance(value, str | int | float) and value != ""


def scalar_text(value: object) -> str:
    """Returns a value of a mapping as the command line spells it: truth values in TOML's small letters."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def names_of(text: str) -> tuple[str, ...]:
    """Returns the names in a text with commas between them."""
    return tuple(name for name in text.split(",") if name)
