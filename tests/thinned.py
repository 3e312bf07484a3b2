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
    "array_program/test_array_program.py::test_the_traced_program_on_arrays_computes_the_operator": 3,
    "check/test_long_sums.py::test_products_in_one_running_sum_are_right": 2,
    "check/test_long_sums.py::test_sums_in_plain_orders_are_right": 3,
    "cpu/cpp/test_cpp.py::test_sample": 3,
    "cpu/cpp/test_kernels.py::test_products_of_transposed_operands": 3,
    "cpu/cpp/test_products.py::test_a_processor_without": 2,
    "cpu/numba/test_numba.py::test_sample_is_right": 4,
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
    "emit/test_arithmetic.py::test_a_maximum_of_products_and_the_products_less_it_are_rounded_alike": 3,
    "emit/test_arithmetic.py::test_divisions_of_integers": 2,
    "examples/test_docs.py::test_the_python_of_a_page_runs": 2,
    "examples/test_examples.py::test_a_quantised_product_is_correct": 2,
    "judge/test_timed.py::test_nothing_is_gained_by_knowing_that_one_is_timed": 2,
    "lower/test_attention_parts.py::test_what_is_decoded_is_in_parts_where_a_device_would_idle": 2,
    "lower/test_lowering.py::test_library": 3,
    "lower/test_pages.py::test_right_in_every_language": 2,
    "lower/test_pairs.py::test_right_in_every_language": 5,
    "lower/test_pairs.py::test_where_it_pays": 2,
    "lower/test_rotations.py::test_right_in_every_language": 2,
    "lower/test_scan_parts.py::test_two_scans_in_parts": 3,
    "lower/test_windows.py::test_array_libraries_compute_them": 3,
    "rocm/test_kernels.py::test_a_kernel_computes_what_it_should_on_the_machine": 3,
    "rocm/test_pingpong.py::test_the_result_on_the_machine": 3,
    "study/report/test_browser.py::test_it_fits_and_is_accessible": 3,
    "study/test_sampled.py::test_a_part_is_that_part_of_the_whole": 3,
    "study/test_traps.py::test_a_hang_or_a_crash_is_a_row_within_its_deadline": 4,
    "study/test_traps.py::test_outputs_that_are_not_computed_each_time_are_seen": 2,
    "sycl/test_opencl.py::test_users_operators": 3,
    "sycl/test_pairs.py::test_operands_lie_as_they_did_in_memory": 2,
    "sycl/test_sycl_gpu.py::test_samples_run_on_the_cpu": 2,
    "tpu/compile/test_toolchain.py::test_v5e": 4,
    "tpu/interpret/test_simulator.py::test_programs": 5,
    "tpu/interpret/test_simulator.py::test_samples": 2,
    "triton/schedule/test_space.py::test_drawn_schedules_compile": 3,
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
