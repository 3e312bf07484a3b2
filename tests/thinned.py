"""Tests of many parameters of a kind: the default run tries one in n of them, the slow tests the others.

By file and function; the times of a whole run said which (those that take long together, and one by one show the same).  What
takes long by itself is named in ``long.txt``.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from zlib import crc32

import pytest

EVERY = {
    "array_program/test_array_program.py::test_the_traced_program_on_arrays_computes_the_operator": 6,
    "check/test_hidden.py::test_legal_ways_pass_with_any_secret": 2,
    "check/test_long_sums.py::test_few_values_over_and_over_are_right": 3,
    "check/test_long_sums.py::test_products_in_one_running_sum_are_right": 4,
    "check/test_long_sums.py::test_sums_in_plain_orders_are_right": 3,
    "check/test_probes.py::test_no_legal_evaluation_of_a_long_chain_is_called_wrong": 5,
    "check/test_slabs.py::test_bounds_are_those_of_the_whole": 2,
    "cpu/cpp/test_cpp.py::test_sample": 3,
    "cpu/cpp/test_kernels.py::test_products_of_transposed_operands": 6,
    "cpu/cpp/test_kernels.py::test_reductions": 3,
    "cpu/cpp/test_products.py::test_a_processor_without": 2,
    "cpu/numba/test_numba.py::test_sample_is_right": 4,
    "cuda/test_chain.py::test_a_seeded_fault_shows": 2,
    "cuda/test_interpreter.py::test_a_seeded_fault_shows": 2,
    "cuda/test_interpreter.py::test_arrays_off_16_bytes": 2,
    "cuda/test_interpreter.py::test_few_rows_times_a_matrix_stored_either_way": 2,
    "cuda/test_interpreter.py::test_right": 3,
    "cuda/test_mixed_products.py::test_it_compiles": 4,
    "cuda/test_mixed_products.py::test_it_is_right": 2,
    "cuda/test_narrow_products.py::test_right_on_hopper": 5,
    "cuda/test_pixels.py::test_pixels": 5,
    "cuda/test_strangers.py::test_a_file_with_host_code_gives_the_resources_of_each_kernel": 2,
    "cuda/test_tensor_memory.py::test_operators": 4,
    "cuda/test_thirds.py::test_thirds_are_as_exact_as_floats": 4,
    "cuda/test_walk.py::test_right": 4,
    "emit/test_any_name.py::test_an_array_or_dim_may_have_any_name": 3,
    "emit/test_arithmetic.py::test_a_maximum_of_products_and_the_products_less_it_are_rounded_alike": 4,
    "emit/test_arithmetic.py::test_divisions_of_integers": 3,
    "emit/test_arithmetic.py::test_remainders_of_large_numbers": 3,
    "emit/test_names.py::test_an_array_may_be_called_like_what_the_kernel_declares": 2,
    "emit/test_shared_values.py::test_texts_grow_with_values_and_not_with_ways": 3,
    "emit/test_where.py::test_dtypes_that_occur_in_between_alone": 2,
    "examples/test_docs.py::test_the_python_of_a_page_runs": 2,
    "examples/test_examples.py::test_a_quantised_product_is_correct": 2,
    "fuzz/test_productions.py::test_what_is_drawn_is_right": 2,
    "judge/test_timed.py::test_nothing_is_gained_by_knowing_that_one_is_timed": 2,
    "lower/test_associative.py::test_right": 2,
    "lower/test_attention_parts.py::test_ragged_parts_are_right": 2,
    "lower/test_attention_parts.py::test_what_is_decoded_is_in_parts_where_a_device_would_idle": 2,
    "lower/test_cuts.py::test_arrays_meet_themselves_through_moves": 2,
    "lower/test_gathers.py::test_what_is_picked": 2,
    "lower/test_lowering.py::test_library": 6,
    "lower/test_lowering.py::test_users_operator": 3,
    "lower/test_masked_weights.py::test_every_element_is_right": 3,
    "lower/test_pages.py::test_right": 2,
    "lower/test_pages.py::test_right_in_every_language": 2,
    "lower/test_pairs.py::test_right_in_every_language": 5,
    "lower/test_pairs.py::test_where_it_pays": 4,
    "lower/test_parts.py::test_products_of_users": 3,
    "lower/test_rotations.py::test_right_in_every_language": 2,
    "lower/test_row_parts.py::test_users_operator": 3,
    "lower/test_scan_parts.py::test_reversed_and_exclusive_in_parts": 3,
    "lower/test_scan_parts.py::test_two_scans_in_parts": 3,
    "lower/test_schedules.py::test_schedules_of_any_nest": 2,
    "lower/test_segments.py::test_right": 3,
    "lower/test_sliding.py::test_windows_along_lines": 2,
    "lower/test_windows.py::test_array_libraries_compute_them": 3,
    "rocm/code_objects/test_code_objects.py::test_a_compiled_kernel_says_what_it_uses": 3,
    "rocm/code_objects/test_code_objects.py::test_occupancy_is_the_compilers": 3,
    "rocm/cost/test_values.py::test_waves_execute_as_many_instructions_as_on_the_machine": 3,
    "rocm/test_from_cuda.py::test_what_has_no_counterpart_is_named_with_its_line": 2,
    "rocm/test_kernels.py::test_a_kernel_compiles_without_spills_and_uses_the_matrix_cores": 3,
    "rocm/test_kernels.py::test_a_kernel_computes_what_it_should_on_the_machine": 6,
    "rocm/test_kernels.py::test_every_schedule_of_a_product_has_room_and_equal_parts": 2,
    "rocm/test_math.py::test_a_function_of_doubles_errs_by_little": 2,
    "rocm/test_math.py::test_a_function_of_floats_errs_by_a_few_ulp": 2,
    "rocm/test_narrow.py::test_operators_of_8_bit_numbers": 3,
    "rocm/test_pingpong.py::test_the_result_on_the_machine": 3,
    "study/report/test_browser.py::test_it_fits_and_is_accessible": 3,
    "study/test_peers.py::test_what_an_operator_declares_for_torch_is_the_same_computation": 2,
    "study/test_sampled.py::test_a_part_is_that_part_of_the_whole": 3,
    "study/test_traps.py::test_a_hang_or_a_crash_is_a_row_within_its_deadline": 4,
    "study/test_traps.py::test_outputs_that_are_not_computed_each_time_are_seen": 2,
    "sycl/test_opencl.py::test_samples_run": 2,
    "sycl/test_opencl.py::test_users_operators": 6,
    "sycl/test_pairs.py::test_operands_lie_as_they_did_in_memory": 6,
    "sycl/test_sycl_cpu.py::test_samples_run": 2,
    "sycl/test_sycl_gpu.py::test_samples_run_on_the_cpu": 2,
    "torch_import/test_import.py::test_recurrent_layers": 3,
    "torch_import/test_int64.py::test_modules_are_right_in_32_bits": 3,
    "torch_import/test_picked.py::test_what_hangs_on_their_number_is_refused": 4,
    "tpu/compile/test_toolchain.py::test_v5e": 6,
    "tpu/interpret/test_simulator.py::test_programs": 5,
    "tpu/interpret/test_simulator.py::test_samples": 2,
    "triton/schedule/test_space.py::test_drawn_schedules_compile": 3,
    "triton/test_triton.py::test_sample_is_right_in_the_interpreter": 2,
    "triton/text/test_blocks.py::test_next_scores_come_first": 3,
}


LONG = {name: guard for line in Path(__file__).with_name("long.txt").read_text().splitlines() if not line.startswith("#")
        for name, _, guard in [line.partition(" | ")]}  # fmt: skip
"""Each of those tests, and which other guards the same thing (nothing, where another case of it does)."""


def thin(items: Sequence[pytest.Item]) -> None:
    """Marks those as slow that take long, and those that have no turn, which their own names decide; one of each kind has."""
    kinds: defaultdict[str, list[pytest.Item]] = defaultdict(list)
    for item in items:
        if named(item) in LONG:
            item.add_marker(pytest.mark.slow)
        else:
            kinds[function(named(item))].append(item)
    for name in EVERY.keys() & kinds.keys():
        turns = [item for item in kinds[name] if crc32(item.nodeid.encode()) % EVERY[name] == 0] or kinds[name][:1]
        for item in kinds[name]:
            if item not in turns:
                item.add_marker(pytest.mark.slow)


def unguarded(items: Sequence[pytest.Item]) -> list[str]:
    """What is wrong with ``long.txt``, before any test is deselected: tests that do not exist or that nothing guards."""
    here, files = {named(item) for item in items}, {file(named(item)) for item in items}
    default = {function(named(item)) for item in items if not item.get_closest_marker("slow")}
    missing = [f"{name}: no such test" for name in LONG if file(name) in files and name not in here]
    guards = {name: guard or function(name) for name, guard in LONG.items()}
    return missing + [f"{name}: {guard} is not in the default run" for name, guard in guards.items()
                      if file(guard) in files and guard not in default]  # fmt: skip


def named(item: pytest.Item) -> str:
    return item.nodeid.removeprefix("tests/")


def function(name: str) -> str:
    return name.partition("[")[0]


def file(name: str) -> str:
    return name.partition("::")[0]
