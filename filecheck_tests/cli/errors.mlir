// A wrong command line is one paragraph and exit status 1, and names what may have been meant.

// RUN: not qmlir-opt --canonicalise %s 2>&1 | filecheck %s --check-prefix=PASS
// RUN: not qmlir-opt --pass-pipeline='builtin.module(cse,canonicalise)' %s 2>&1 | filecheck %s --check-prefix=PIPELINE
// RUN: not qmlir-opt --pass-pipeline='builtin.module(cse' %s 2>&1 | filecheck %s --check-prefix=BRACKETS
// RUN: not qmlir-opt --scf-parallel-loop-tiling=parallel-loop-tile-size=4 %s 2>&1 | filecheck %s --check-prefix=OPTION
// RUN: not qmlir-opt --convert-memref-to-ptr=lower-func=maybe %s 2>&1 | filecheck %s --check-prefix=VALUE
// RUN: not qmlir-opt --split-input %s 2>&1 | filecheck %s --check-prefix=FLAG
// RUN: not qmlir-opt %t.no.mlir 2>&1 | filecheck %s --check-prefix=FILE
// RUN: not qmlir-opt %s %s 2>&1 | filecheck %s --check-prefix=TWO
// RUN: not qmlir-opt %s -o %t.no/x.mlir 2>&1 | filecheck %s --check-prefix=FOLDER

// PASS: error: --canonicalise: there is no such pass or flag; did you mean --canonicalize
// PIPELINE: error: canonicalise: there is no such pass; did you mean canonicalize
// BRACKETS: error: --pass-pipeline: has brackets or quotes that do not match, got builtin.module(cse
// OPTION: error: --scf-parallel-loop-tiling: has no option "parallel-loop-tile-size"; did you mean parallel-loop-tile-sizes?
// VALUE: error: --convert-memref-to-ptr=lower-func: must be true or false, got maybe
// FLAG: error: --split-input: there is no such pass or flag; did you mean --split-input-file
// FILE: error: {{.*}}.no.mlir: no such file or directory
// TWO: error: {{.*}}errors.mlir: there can be one input file only; drop this one
// FOLDER: error: {{.*}}x.mlir: must be writable, got no such file or directory

func.func @f() { func.return }
