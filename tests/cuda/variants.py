"""Sample programs as the CUDA tests run them: all of tests/samples.py, and tiles of the sizes that schedules choose."""

from __future__ import annotations

from dataclasses import replace

from portakern.ir.program import Program
from tests import samples

THREADS, ENGINE = {"mma": "wgmma", "copies": "threads"}, {"mma": "wgmma", "copies": "engine"}


def scheduled(program: Program, warps: int, stages: int = 1, **options: str) -> Program:
    """``program`` with other warps, stages and options."""
    change = {"warps": warps, "stages": stages, "options": tuple(options.items())}
    kernels = tuple(replace(k, schedule=replace(k.schedule, **change)) for k in program.kernels)
    return replace(program, kernels=kernels)


def all_variants() -> dict[str, Program]:
    """Every sample, and large tiles: probabilities that stay in registers, dynamic shared memory, deep pipelines."""
    return {
        **samples.all_samples(),
        "add_bias_one_warp": scheduled(samples.add_bias(tile=(4, 64)), 1),
        "add_bias_unaligned": samples.add_bias(cols=1001, tile=(8, 1024)),
        "add_bias_f16": samples.add_bias(dtype="f16"),
        "softmax_16_warps": scheduled(samples.softmax(cols=4000, tile=(1, 4096)), 16),
        "softmax_many_rows": samples.softmax(rows=70, cols=50, tile=(32, 64)),
        "transpose_bf16": scheduled(samples.transpose(130, 200, "bf16", (64, 64)), 8),
        "column_sums_wide": scheduled(samples.column_sums(200, 150, "bf16", (32, 64)), 8),
        "matmul_deep": scheduled(samples.matmul_bias(200, 136, 264, "bf16", (128, 128, 64)), 8, 3, mma="sync"),
        "matmul_f16": scheduled(samples.matmul_bias(200, 136, 264, "f16", (128, 64, 32)), 4, 4),
        "matmul_f32_large": scheduled(samples.matmul_bias(200, 136, 264, "f32", (128, 128, 16)), 8, 2, mma="fma"),
        "matmul_f32_thirds": scheduled(samples.matmul_bias(200, 136, 264, "f32", (128, 64, 16)), 4, 3, mma="bf16x6"),
        "matmul_f32_by_unit": scheduled(samples.matmul_bias(200, 136, 264, "f32", (64, 128, 32)), 4, 2, mma="bf16x6-wgmma"),
        "matmul_one_warp": scheduled(samples.matmul_bias(20, 17, 70, "bf16", (16, 16, 64)), 1, 3),
        "matmul_one_stage": scheduled(samples.matmul_bias(70, 65, 129, "bf16"), 4, 1),
        "wgmma": scheduled(samples.matmul_bias(200, 136, 264, "bf16", (128, 128, 64)), 8, 3, **THREADS),
        "wgmma_small": scheduled(samples.matmul_bias(200, 136, 264, "f16", (64, 64, 64)), 4, 4, **THREADS),
        "wgmma_wide": scheduled(samples.matmul_bias(300, 500, 136, "bf16", (128, 256, 64)), 8, 2, **THREADS),
        "wgmma_side": scheduled(samples.matmul_bias(100, 200, 1000, "bf16", (64, 128, 128)), 8, 2, **THREADS),
        "wgmma_batched": scheduled(samples.matmul_bias(100, 72, 50, "bf16", (128, 64, 64), batch=3), 8, 1, mma="wgmma"),
        "wgmma_high": scheduled(samples.matmul_bias(300, 200, 136, "bf16", (256, 64, 64)), 4, 2, **THREADS),
        "pipeline": scheduled(samples.matmul_bias(256, 512, 264, "bf16", (128, 256, 64)), 8, 3, **ENGINE),
        "pipeline_ragged": scheduled(samples.matmul_bias(200, 136, 264, "f16", (64, 64, 64)), 4, 4, **ENGINE, cluster="1x2"),
        "pipeline_quad": scheduled(samples.matmul_bias(250, 400, 200, "bf16", (128, 128, 64)), 8, 2, **ENGINE, cluster="2x2"),
        "pipeline_192": scheduled(samples.matmul_bias(200, 328, 136, "bf16", (128, 192, 64)), 8, 3, **ENGINE, cluster="1x1"),
        "pipeline_high": scheduled(samples.matmul_bias(712, 136, 264, "bf16", (256, 128, 64)), 8, 3, **ENGINE, cluster="2x1"),
        "pipeline_batched": scheduled(samples.matmul_bias(200, 136, 72, "bf16", (128, 128, 64), batch=3), 8, 2, **ENGINE,
                                      cluster="1x1"),
        "narrow": scheduled(samples.matmul_bias(1, 504, 1203, "bf16", (16, 128, 64)), 8, 2),
        "narrow_boxes": scheduled(samples.matmul_bias(1, 504, 1203, "bf16", (16, 256, 16)), 8, 2, cluster="1x2"),
        "narrow_boxes_batched": scheduled(samples.matmul_bias(1, 504, 603, "f16", (16, 128, 16), batch=3), 16, 3),
        "few_rows": scheduled(samples.matmul_bias(5, 136, 712, "bf16", (16, 64, 32)), 8, 2, cluster="1x2"),
        "few_rows_batched": scheduled(samples.matmul_bias(16, 136, 712, "f16", (16, 128, 32), batch=2), 8, 3, cluster="1x1"),
        "one_row_boxes": scheduled(samples.matmul_bias(1, 200, 712, "bf16", (16, 64, 16)), 16, 2, cluster="1x2"),
        "attention_registers": samples.attention(queries=150, keys=150, tile=(64, 64)),
        "attention_two_stages": scheduled(samples.attention(queries=150, keys=170, width=128, tile=(128, 64)), 8, 2),
        "attention_wide": samples.attention(queries=70, keys=70, width=256, tile=(64, 32)),
        "walk": scheduled(samples.attention(1, 2, 2, queries=150, keys=150, tile=(128, 64)), 8, 2, **ENGINE),
        "walk_wide": scheduled(samples.attention(1, 2, 1, queries=70, keys=200, width=128, dtype="f16", causal=False,
                                                 tile=(64, 128)), 4, 3, **ENGINE),
        "attention_f32_large": scheduled(samples.attention(dtype="f32", queries=70, keys=70, width=64, tile=(64, 32)), 8),
    }
