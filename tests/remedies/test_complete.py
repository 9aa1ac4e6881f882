"""Every text of a remedy in the package is carried out by a table or a test, or stands here with the reason why not."""

from collections.abc import Callable

from qmlir.policies.ledger import REMEDIES
from tests.analysis import test_auto_precision, test_crosscheck, test_data_free, test_entries, test_explore, test_prefix
from tests.analysis import test_quality as test_measuring
from tests.backends.hardware import test_device_files
from tests.backends.npu import test_in_c
from tests.backends.onnx import test_states
from tests.cli import (
    test_certify,
    test_configuration,
    test_forms,
    test_labels,
    test_own_forms,
    test_pictures,
    test_printed_options,
    test_quality,
    test_report,
    test_simulating,
    test_streams,
    test_words,
)
from tests.cli import test_cut as test_cut_commands
from tests.cli import test_prefix as test_prefix_commands
from tests.cli import test_remedies as commands
from tests.frontends import test_cut, test_foreign, test_native_operators, test_own_operators, test_torch_modules
from tests.frontends.gguf import test_importer
from tests.frontends.onnx import test_decoder, test_sequences
from tests.profiles import test_notes
from tests.remedies import (
    test_bundles,
    test_certificates,
    test_decisions,
    test_exports,
    test_files,
    test_host,
    test_lowerings,
    test_plugins,
    test_quantizing,
    test_reading,
    test_searches,
)
from tests.remedies.texts import remedies
from tests.running import test_executors
from tests.transforms.quantize import test_pack_states, test_rotate

TABLES = (
    *(test_files.CASES, test_quantizing.CASES, test_lowerings.CASES, test_exports.CASES, test_plugins.CASES),
    *(test_reading.CASES, test_bundles.CASES, test_certificates.CASES, test_searches.CASES),
    {REMEDIES[code]: case for code, case in test_decisions.CASES.items()},
)

ELSEWHERE: dict[str, Callable[..., None]] = {
    "install one, or simulate in Python": test_in_c.test_without_a_compiler,
    "simulate in Python, and report the difference": test_in_c.test_a_fault_in_c_alone,
    "load the network again": test_importer.test_weights_are_made_of_the_file_when_they_are_asked_for,
    "correct the device file, or name another encoder": test_device_files.test_what_the_refusal_advises,
    "choose one of asm, …": test_own_forms.test_what_the_refusal_advises,
    "write them by --emit bin": test_words.test_what_refusals_advise,
    "name it by --target": test_words.test_what_refusals_advise,
    "add --samples 1": test_simulating.test_what_vectors_advise,
    "add --vectors, or leave it out": test_simulating.test_what_vectors_advise,
    "choose another, or remove it": test_simulating.test_what_vectors_advise,
    "or bind window=…, so that a token sees fewer places than the model was trained for": (
        test_importer.test_windows_that_a_ring_does_not_keep
    ),
    "give a policy of default and rules; the options of a run are those of explore": (
        test_explore.test_rows_are_what_the_device_says_of_each_network
    ),
    "quantize the float network, or run --rotate=what=… before --insert-observers": (
        test_rotate.test_ranges_come_after_the_rotation
    ),
    'choose an entry by --entry NAME (in Python qmlir.load(path, entry="NAME")), or write it to a file of ': (
        test_entries.test_an_entry_is_a_network_of_its_own
    ),
    "there is …": test_entries.test_an_entry_is_a_network_of_its_own,
    "quantize the entries in one call of quantize": test_entries.test_states_that_differ,
    "make the entries of one model, whose sizes differ only, with the same names of tensors": (
        test_entries.test_another_model_is_refused
    ),
    "give the network by itself": test_entries.test_what_refusals_advise,
    "quantize the entry that the device is to run by itself": test_entries.test_what_refusals_advise,
    "search for precisions of one entry alone, and follow the policy that --save-policy writes": (
        test_entries.test_what_refusals_advise
    ),
    "give them as arguments; a policy of several entries has a default and rules only": (
        test_entries.test_what_refusals_advise
    ),
    "name states by --state, in Python state=": test_prefix.test_what_is_refused,
    "add --prefix-data, or leave it out": test_prefix_commands.test_what_refusals_advise,
    "name one of --entries, or leave it out": test_prefix_commands.test_what_refusals_advise,
    "give activations=dynamic": test_pack_states.test_what_is_refused,
    "quantize with rotate=residual, which has none": test_rotate.test_formats_without_transforms,
    "name the states of both by --state": test_crosscheck.test_only_one_form_with_states,
    "give the network that it was made of": test_explore.test_networks_that_are_quantized_already,
    "profile it on samples with --data, or export the network with its batch normalizations": (
        test_data_free.test_what_refusals_advise
    ),
    "give one, such as --input-range 0,1": test_data_free.test_what_refusals_advise,
    "leave them out for the defaults": test_explore.test_costs_need_no_samples,
    "put all of its values behind one key": test_explore.test_sweeps_are_keys_and_values,
    "allow more by --worker-memory, or have fewer workers by --jobs": (
        test_executors.test_the_memory_of_a_process_is_capped
    ),
    "ask for processes by --jobs": test_executors.test_memory_is_a_limit_of_processes,
    "take a function of a module, or leave out --jobs and --scheduler": (
        test_executors.test_results_are_in_order_and_counted
    ),
    REMEDIES["no-range"]: commands.test_a_range_in_the_policy_is_one,
    REMEDIES["precision"]: commands.test_another_precision_is_advised_where_it_helps,
    REMEDIES["accumulator"]: commands.test_a_lower_precision_makes_sums_fit,
    REMEDIES["factor"]: commands.test_a_range_in_the_policy_brings_scales_together,
    REMEDIES["bias"]: commands.test_a_bias_fits_once_it_is_constant_and_its_input_wide,
    REMEDIES["policy"]: commands.test_the_policys_rule_can_be_dropped,
    REMEDIES["half"]: commands.test_a_layer_in_float16_can_have_integers,
    REMEDIES["neighbours"]: commands.test_movement_is_quantized_with_either_neighbour,
    REMEDIES["host"]: test_host.test_the_key_that_the_sentence_ends_with_is_the_one_to_change,
    "score it by a function of your own: --metric, or metric in Python": test_pictures.test_one_step_with_scores,
    "give --test-data or --data": test_pictures.test_one_step_with_scores,
    "give fewer --samples, or --test-data": test_pictures.test_one_step_with_scores,
    "give --labels or --metric, too": test_pictures.test_one_step_with_scores,
    "write one with --print-config": test_printed_options.test_what_the_printed_file_is_advised_for_works,
    "give --labels, too": test_report.test_labels_as_lines_of_text,
    "count classes from 0, or give --label-offset": test_labels.test_lines,
    "profile each part of the data with the same --preprocess and --dtype": test_notes.test_notes_are_merged,
    "name one of `qmlir device list`, or a device file": test_forms.test_remedies,
    "leave it out: the suffix chooses the format": test_forms.test_remedies,
    "leave it out, or name such a file": test_forms.test_remedies,
    "make its folder first": test_forms.test_remedies,
    "give the float network and data": test_measuring.test_samples_are_kept_aside_where_there_are_enough,
    "give int8, or quantize by qmlir quantize or qmlir.quantize, which have both": (
        test_auto_precision.test_auto_is_of_a_whole_network_and_measured
    ),
    "give data, and leave measure out": test_auto_precision.test_auto_is_of_a_whole_network_and_measured,
    "give --data, and leave out --no-measure": test_auto_precision.test_auto_is_of_a_whole_network_and_measured,
    "leave it out, or give --precision auto": test_auto_precision.test_auto_is_of_a_whole_network_and_measured,
    "install it: pip install …; or let qmlir run the file: …@cpu": test_crosscheck.test_wrong_uses,
    "give both": test_measuring.test_half_of_the_arguments,
    "give one of them": test_quality.test_measuring_no_samples_is_refused,
    "certify the network again": test_certify.test_a_stale_artefact,
    "give a network and -o FILE.json, or --check FILE.json": test_certify.test_options_that_do_not_fit,
    "drop --check or --output": test_certify.test_options_that_do_not_fit,
    "quantize it, or choose other numerics if a runtime's rounding asks for floats": test_certify.test_floats,
    "put it under default": test_configuration.test_remedies_are_carried_out,
    "name other samples as --test-data": test_configuration.test_remedies_are_carried_out,
    "or give --profile": commands.test_remedies_of_commands,
    "leave it out, or name states by --state": test_streams.test_sequences_are_of_networks_with_states,
    "give these samples as --test-data": test_streams.test_labels_of_a_network_with_states,
    "bind the output that replaces the input": test_decoder.test_what_is_no_state,
    "export the model with a cache of fixed size, into which each call writes at a position (ScatterND or "
    "ScatterElements; a static cache in transformers)": test_decoder.test_a_cache_that_grows_says_what_to_do,
    "use int8": commands.test_remedies_of_commands,
    "leave it out, or cut the model's own file": test_cut_commands.test_remedies,
    "qmlir import writes the names of its tensors": test_cut_commands.test_remedies,
    "end the network in front of it, by --outputs": test_cut.test_onnx_ends_before_an_unknown_operator,
    "name another tensor": test_cut.test_what_the_errors_advise,
    "name another tensor, or export the model with the shapes of its tensors": test_cut.test_what_the_errors_advise,
    "add …, or tensors between the input and the outputs": test_cut.test_what_the_errors_advise,
    "leave them out": test_cut.test_what_the_errors_advise,
    'call qmlir.register_op("…", "…", function) before': test_own_operators.test_reference_and_machine_code_call_it,
    'give --bind …=…, or in Python bind={"…": …}': (
        test_sequences.test_a_sequence_is_as_many_arguments_as_are_asked_for
    ),
    "export the model again, or remove … from its metadata and bind the states by --state": (
        test_states.test_damaged_metadata
    ),
    "write an .npu file, which Python runs": test_native_operators.test_a_firmware_has_no_operators_of_the_program,
    "compile it to an .o file, and link it with a program that has them in C": (
        test_native_operators.test_a_c_program_defines_what_an_object_calls
    ),
    "write an .onnx file by torch.onnx.export, or load it in PyTorch and give qmlir.load the module and an example": (
        test_foreign.test_a_file_of_pytorch_is_loaded_in_pytorch
    ),
    "give an array, a tuple of arrays, or a dict of them by parameter: qmlir.load(module, example=x)": (
        test_torch_modules.test_a_module_is_loaded_for_an_example
    ),
    "load it first: qmlir.load(module, example=…)": test_torch_modules.test_a_module_is_loaded_for_an_example,
    "change the module or the example, or write an .onnx file by torch.onnx.export yourself": (
        test_torch_modules.test_what_is_refused
    ),
    "define it by qmlir.register_op with library= and symbol=, or run the network in Python": (
        test_native_operators.test_an_object_calls_no_python
    ),
    "repair the function": test_own_operators.test_reference_and_machine_code_call_it,
    "--loops-to-llvm=features=+amx-int8": test_lowerings.test_matrices_need_a_unit,
}
"""Remedies that tests of their own carry out."""

NOT_CARRIED_OUT = {
    "a cluster, the machine's memory or the environment would have to change": (
        "see whether the system ran out of memory; have fewer workers, or give each more memory",
        "limit Dask's workers where they start",
        "start workers with `dask worker …`",
        "pip install 'qmlir[cluster]'",
        "start one with `dask scheduler`, and workers with `dask worker ADDRESS`",
    ),
    "parts of other texts": ("-", "--", ", or ", ".tflite", "loc"),
    "another program is needed": (
        "pip install 'qmlir[images]'",
        "pip install 'qmlir[report]'",
        "install a newer onnx",
        "convert the model to .tflite by tf.lite.TFLiteConverter",
        "cut the network in front of it, and compute it in your program",
        "export the model that it holds to .onnx, as skl2onnx does for sklearn",
        "convert the model again",
        "install binutils or LLVM",
        "report this to the package's authors",
    ),
    "only modules that an earlier version wrote meet it": (
        "quantize the model again from its own file, and save the module anew",
    ),
    "another machine is needed": ("give the process more memory", "--features=-amx-int8"),
    "says that nothing helps": ("there is none",),
    "only modules written by hand meet it": (
        "call functions by name",
        "run npu-cascade",
        "give it a wider result",
        "give it a 64-bit accumulator, or a lower precision",
        "choose a contract for 64-bit accumulators, or a lower precision",
        "run qint-to-npu",
        "select the values before",
        "take it from the buffer itself",
        "quantize per tensor or per axis",
        "quantize per axis",
        "requantize to it",
        "requantize to signed storage",
        "widen its range",
        "quantize the float network with schema symmetric_with_power2_scale, or drop the promise",
        "the scales of input and output are too far apart; profile on representative data",
    ),
    "only quantized models of other tools meet it": (
        REMEDIES["blocked"],
        REMEDIES["shared"],
        REMEDIES["runtime"],
        "follow other numerics, or export as onnx-qdq",
        "export as onnx-qdq",
    ),
    "tests of scores, profiles and reports show the refusal, and tests beside these what it advises": (
        "make a report for each pair",
        "name the files that lines are for, or give all of …",
        "remove it",
    ),
    "only programs that another compiler wrote meet it": (
        "quantize what computes between the two calls, so that integers pass from one to the other",
        "quantize the network's inputs on the host",
        "choose a device with wider accumulators, or a lower precision",
    ),
    "only tensors of more than five dimensions meet it": ("reshape before and behind it",),
    "only a device of more than twelve queues or memories meets it": ("add it",),
}
"""Reason → the remedies that no test carries out."""


def named() -> set[str]:
    """The texts that stand in a table or a list."""
    carried_out = {text for table in TABLES for text in table} | set(ELSEWHERE)
    return carried_out | {text for texts in NOT_CARRIED_OUT.values() for text in texts}


def test_every_remedy_is_carried_out_or_excused() -> None:
    """A new text with a remedy needs a row in a table."""
    missing = [f"{place}: {text!r}" for text, place in remedies().items() if text not in named()]
    assert not missing, "no row has the text:\n" + "\n".join(missing)


def test_every_row_is_about_a_remedy_that_there_is() -> None:
    assert not named() - set(remedies())


def test_most_remedies_are_carried_out() -> None:
    excused = sum(map(len, NOT_CARRIED_OUT.values()))
    assert excused < 0.15 * len(remedies())
