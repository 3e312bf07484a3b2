"""What CUDA has and AMD has not, by the words that a text says it with, and what there is instead.

Sources: the CUDA C++ Programming Guide and the PTX ISA for the words; AMD's ISA reference guides of CDNA 3 and 4 and RDNA 3
and 4, LLVM's AMDGPUUsage, and the device descriptions here for what there is instead.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from portakern.device import Device


@dataclass(frozen=True)
class Entry:
    """``words`` is a regular expression for a text without comments; ``what`` it is; ``instead`` is asked for a device."""

    words: str
    what: str
    instead: Callable[[Device], str]


def _matrix(d: Device) -> str:
    shapes = ", ".join(dict.fromkeys(m.name for m in d.matrix if m.operands in ("bf16", "f16")))
    unit = "MFMA" if d.has("mfma") else "WMMA"
    return f"{unit} of one wave, operands in its registers, fragments laid out otherwise: {shapes}"


def _copies(d: Device) -> str:
    if d.has("lds_dma_16"):
        return "loads that put 4 or 16 bytes a lane straight into LDS (__builtin_amdgcn_global_load_lds), waited for by vmcnt"
    if d.has("lds_dma_4"):
        return "loads that put 4 bytes a lane straight into LDS (__builtin_amdgcn_global_load_lds), waited for by vmcnt"
    return "loads issued early into registers and written to LDS when they are there"


def _barriers(d: Device) -> str:
    split = "; s_barrier_signal and s_barrier_wait part arriving from waiting" if d.isa.startswith("gfx12") else ""
    return f"__syncthreads for the whole block, and counters of a wave's own loads (s_waitcnt vmcnt){split}"


def _lds_fragments(d: Device) -> str:
    turned = "; ds_read_b64_tr_b16 reads transposed" if d.isa == "gfx950" else ""
    return f"plain 8 and 16 byte reads of LDS in the layout that the matrix instruction wants{turned}"


def _narrow(d: Device) -> str:
    mine = [n for n in ("f8e4m3", "f8e5m2", "f8e4m3fnuz", "f8e5m2fnuz") if n in d.dtypes]
    return f"8-bit floats here are {', '.join(mine)}" if mine else "no 8-bit floats; they are kept as bytes and widened by hand"


def _textures(d: Device) -> str:
    units = "has no texture units" if d.isa.startswith("gfx9") else "has image instructions, which need ROCm's runtime"
    return f"it {units}; plain loads with clamped indices, interpolation by hand"


def _always(text: str) -> Callable[[Device], str]:
    return lambda d: text


CATALOGUE = (
    Entry(r"\bnvcuda::wmma\b|\bwmma::(?:fragment|load_matrix_sync|mma_sync|store_matrix_sync|fill_fragment)\b|[<\"]mma\.h[>\"]",
          "matrices of a warp (nvcuda::wmma)", _matrix),
    Entry(r"\bwgmma\.", "products of four warps from shared memory (wgmma)", _matrix),
    Entry(r"\btcgen05\.", "products with tensor memory (tcgen05)", _matrix),
    Entry(r"(?<!wg)\bmma\.(?:sync|sp)|\bmma\.m\d", "products of a warp (mma.sync)", _matrix),
    Entry(r"\bldmatrix\.|\bstmatrix\.", "fragments from shared memory (ldmatrix, stmatrix)", _lds_fragments),
    Entry(r"\bcp\.async\.bulk|\bCUtensorMap\b|\bcp_async_bulk|\bcudaTensorMap", "the copy engine (TMA, cp.async.bulk)",
          lambda d: f"no copy engine: {_copies(d)}; buffer loads give zeros behind the end of an array"),
    Entry(r"\bcp\.async\.(?!bulk)|\bcp\.async\b(?!\.)|__pipeline_(?:memcpy_async|commit|wait_prior)|\bmemcpy_async\b"
          r"|\bcuda::pipeline\b|\bmake_pipeline\b|[<\"](?:cuda/pipeline|cuda_pipeline\.h)",
          "copies to shared memory (cp.async)", _copies),
    Entry(r"\bmbarrier\.|\bcuda::barrier\b|[<\"]cuda/barrier[>\"]|\bfence\.(?:mbarrier|proxy)",
          "barriers in shared memory (mbarrier)", _barriers),
    Entry(r"__cluster_dims__|\bthis_cluster\b|\bcluster_group\b|\bbarrier\.cluster|\bmapa\.|\bcluster_(?:ctarank|sync)\b"
          r"|\bcudaLaunchAttributeClusterDimension\b", "clusters of blocks",
          _always("one workgroup, or blocks that meet in L2; nothing reaches another block's LDS")),
    Entry(r"\btex(?:1D|2D|3D)(?:Layered|Lod|Grad|fetch)?\s*[<(]|\bcudaTextureObject_t\b|\btexture\s*<|\bsurf[123]D(?:read|write)\b"
          r"|\bcudaSurfaceObject_t\b", "textures and surfaces", _textures),
    Entry(r"\bsetmaxnreg\.", "registers moved between warps (setmaxnreg)", _always("registers are fixed for a kernel")),
    Entry(r"\bgriddepcontrol\.|\bcudaGridDependencySynchronize\b|\bcudaTriggerProgrammaticLaunchCompletion\b",
          "launches that overlap (programmatic dependent launch)", _always("kernels in a queue begin when the last one ended")),
    Entry(r"\bthis_grid\b|\bgrid_group\b|\bthis_multi_grid\b", "barriers of the whole grid (cooperative groups)",
          _always("a second kernel; hipLaunchCooperativeKernel needs ROCm")),
    Entry(r"\bcoalesced_threads\b|\bcoalesced_group\b|\blabeled_partition\b|\bbinary_partition\b",
          "groups of the threads that happen to be active", _always("__activemask and __ballot_sync")),
    Entry(r"[<\"](?:cub|thrust|cute|cutlass)/", "CUB, Thrust, CUTLASS",
          _always("hipCUB, rocPRIM, rocThrust and composable_kernel, which need ROCm")),
    Entry(r"[<\"]cuda_fp8\.h[>\"]|\b__nv_fp8_|\b__nv_fp4_|[<\"]cuda_fp4\.h[>\"]",
          "8-bit and 4-bit floats (cuda_fp8.h)", _narrow),
    Entry(r"[<\"]curand_kernel\.h[>\"]|\bcurandState", "random numbers of cuRAND", _always("hipRAND, which needs ROCm")),
    Entry(r"[<\"]cuda/(?:std/)?(?:atomic|semaphore|latch|annotated_ptr)[>\"]|\bcuda::atomic", "libcu++",
          _always("__hip_atomic_* with an order and a scope")),
)  # fmt: skip

INLINE = r"\basm\b\s*(?:volatile\b|__volatile__\b)?\s*\("
"""PTX; what is none of the above is looked up in :data:`SPECIAL`."""

SPECIAL = {
    "laneid": "__lane_id()",
    "warpid": "threadIdx.x / warpSize",
    "smid": "nothing; blocks are not told where they run",
    "globaltimer": "wall_clock64, which needs ROCm; __builtin_amdgcn_s_memrealtime",
    "lop3": "plain & | ^, which the compiler joins (v_bitop3 on gfx950, v_and_or, v_or3)",
    "prmt": "__byte_perm (v_perm_b32)",
    "ld.global": "a plain load; cache hints are __builtin_nontemporal_load",
    "st.global": "a plain store; cache hints are __builtin_nontemporal_store",
    "bar.sync": "__syncthreads; named barriers of a part of a block are not there",
    "ex2.approx": "__builtin_amdgcn_exp2f",
    "tanh.approx": "tanhf",
    "rcp.approx": "__builtin_amdgcn_rcpf",
    "cvt.": "C's conversions",
    "red.": "atomicAdd and its like",
    "fma.rn": "fmaf",
}
"""By a word of PTX what does it here."""

WARPS = (
    (r"\b0x[fF]{8}[uUlL]*\b|\b__\w+_sync\s*\(\s*-1\b|\bFULL_MASK\b|(?<=[=(,\s])~0u?\b", "a mask of 32 lanes"),
    (r"\bthreadIdx\.\w\s*(?:%\s*32\b|&\s*(?:31\b|0x1[fF]\b)|/\s*32\b|>>\s*5\b)|\b(?:tid|lane|lane_?id|thread_?id|idx)\w*\s*"
     r"(?:%\s*32\b|&\s*(?:31\b|0x1[fF]\b)|/\s*32\b|>>\s*5\b)", "32 threads a warp"),
    (r"(?i)\b\w*warp_?size\w*\b\s*(?:=\s*)?32\b|\bconst\w*\s+(?:int|unsigned|auto)\s+\w*[wW]arp\w*\s*=\s*32\b",
     "a warp size of 32"),
    (r"\btiled_partition\s*<\s*32\b", "tiles of 32 threads as warps"),
)  # fmt: skip
"""What assumes that 32 threads go together."""
