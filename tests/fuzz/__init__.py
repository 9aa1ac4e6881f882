"""A fuzzer: random networks under random options, held to onnxruntime, LiteRT, the reference and plain arithmetic.

python -m tests.fuzz --n 1000 --seed 1        # `make fuzz N=1000 SEED=1`

graphs.py       a random network as plain data: nodes, constants, inputs with samples
operators.py    how a node of each ONNX operator is drawn; families of them: attention.py, contractions.py, control.py,
                fused.py, integers.py, movement.py
drawing.py      draws networks; a node that onnxruntime refuses is no node
oracle.py       what onnxruntime computes, node by node
spelled.py      operators that onnxruntime lacks, or rounds in floats, as nodes of simpler ones
tflite.py       TFLite files as cases: drawn with LiteRT by tflite_drawing.py, over the operators of
                tflite_operators.py and tflite_selection.py
options.py      schemas, precisions, calibrations, biases, rules, numerics, data
expectation.py  what quantization may cost: the same network with every tensor rounded in plain numpy
checks.py       what has to hold of a case, and what does not: findings
devices.py      networks of tests/graphs.py on devices: the simulator's bits and costs; runs by itself, too,
                and as cases of a run in device_cases.py
shrink.py       a smaller case with the same finding, and a file that shows it
report.py       counts by check, operator and refusal
"""
