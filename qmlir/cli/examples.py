"""Examples of the commands, which end their help texts; a test runs them one after the other on examples/digits."""

EXAMPLES: dict[str, str] = {
    "import": "  qmlir import digits.onnx -o digits.mlir",
    "profile": "  qmlir profile digits.onnx --data digits.npz:calibration_images -o digits.yaml",
    "profile merge": "  qmlir profile merge digits.yaml more.yaml -o all.yaml",
    "profile diff": "  qmlir profile diff digits.yaml more.yaml",
    "quantize": "  qmlir quantize digits.onnx --data digits.npz:calibration_images \\\n"
    "    --ledger ledger.json -o int8.mlir\n"
    "  qmlir quantize digits.onnx --data digits.npz:calibration_images \\\n"
    "    --for onnxruntime -o int8.onnx",
    "ledger": "  qmlir ledger int8.mlir --json\n  qmlir ledger int8.mlir --cpu cortex-m4",
    "ledger diff": "  qmlir ledger diff int8.mlir ledger.json",
    "analyze": "  qmlir analyze digits.onnx int8.mlir --data digits.npz:test_images \\\n    --samples 8 --worst 3\n"
    "  qmlir analyze digits.onnx int8.mlir --data digits.npz:test_images --effect",
    "tune": "  qmlir tune digits.onnx --data digits.npz:calibration_images \\\n"
    "    --floor agreement=int8-0.5 --most 8 -o tuned.yaml\n"
    "  qmlir quantize digits.onnx --data digits.npz:calibration_images \\\n"
    "    --policy tuned.yaml -o tuned.mlir",
    "explore": "  qmlir explore nmp digits.onnx --sweep array.lanes.n=8,16 \\\n"
    "    --data digits.npz:calibration_images --samples 8 \\\n    --csv rows.csv --plot front.svg",
    "compare": "  qmlir compare int8.mlir --data digits.npz:test_images --samples 8",
    "crosscheck": "  qmlir crosscheck digits.onnx int8.mlir --data digits.npz:test_images",
    "certify": "  qmlir certify int8.mlir -o certificate.json\n  qmlir certify --check certificate.json",
    "graph": "  qmlir graph int8.mlir -o int8.dot",
    "device list": "  qmlir device list",
    "device show": "  qmlir device show vta --set array.lanes.k=32",
    "device check": "  qmlir device check ethos-u55-like int8.mlir",
    "compile": "  qmlir compile int8.mlir -o int8.o\n  qmlir compile int8.mlir --target ethos-u55-like -o int8.npu",
    "bench": "  qmlir bench int8.mlir --seconds 0.1 --json before.json\n"
    "  qmlir bench int8.mlir --seconds 0.1 --against before.json",
    "report": "  qmlir report digits.onnx int8.mlir --data digits.npz:test_images \\\n"
    "    --labels digits.npz:test_labels --seconds 0.1 -o report.html",
    "export": "  qmlir export int8.mlir -o int8.onnx",
    "run": "  qmlir run int8.mlir --data digits.npz:test_images --samples 8 -o outputs.npz\n"
    "  qmlir run int8.npu --data digits.npz:test_images --samples 8 \\\n    --target ethos-u55-like",
    "completion": '  eval "$(qmlir completion bash)"        # in ~/.bashrc\n'
    '  eval "$(qmlir completion zsh)"         # in ~/.zshrc, behind compinit\n'
    "  qmlir completion fish | source         # in ~/.config/fish/config.fish",
}
"""Command → command lines, each indented by two spaces and at most 80 columns wide; `\\` continues a line."""
