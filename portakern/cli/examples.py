"""Examples of every command, which its ``--help`` ends with."""

from __future__ import annotations

EXAMPLES: dict[str, tuple[str, ...]] = {
    "ops": ("ops", "ops softmax", "ops my_op.py:rms_norm"),
    "targets": ("targets", "targets '*:gfx942'", "targets hip:mi300x --json"),
    "doctor": ("doctor", "doctor --json"),
    "emit": ("emit softmax -t hip:gfx942 --shape M=4096,N=8192 --dtype bf16", "emit softmax -t 'cuda:*' --ir tile",
             "emit rms_norm -t hip:gfx942 --standalone -o rms_norm.hip"),
    "build": ("build softmax -t 'hip:*,cuda:sm_90a'", "build my_op.py:rms_norm -t all --dtype bf16 --json rows.json"),
    "check": ("check softmax -t numba:cpu,hip:gfx942", "check softmax --grad -t cpp:cpu --dtype f32 --shape M=64,N=256"),
    "bench": ("bench softmax -t cpp:cpu --against torch.eager,torch.compile",
              "bench row_sum -t numba:cpu --shape 'M=256:8192:*2,N=512' --resume --html sweep.html"),
    "compare": ("compare rms_norm -t numba:cpu,hip:gfx942,pallas:v6e --html rms_norm.html",
                "compare rms_norm --from here.json there.sqlite"),
    "plan": ("plan model.py:make -t hip:gfx942,pallas:v6e",),
    "tune": ("tune matmul -t cpp:cpu --shape M=512,N=512,K=512 --budget 60s", "tune softmax -t cuda:sm_90a --resume"),
    "inspect": ("inspect kernel.hip:saxpy -t hip:gfx942,hip:gfx1201",
                "inspect kernel.py:add -t triton:gfx942 --args 'x=f32[4096],n=4096'"),
    "evaluate": ("evaluate softmax -t cpp:cpu --source kernel.cpp --against torch.eager",),
    "dataset": ("dataset export kernels.jsonl", "dataset verify kernels.jsonl --level quick"),
    "fuzz": ("fuzz --targets numba:cpu,hip:gfx942 --seconds 60",),
    "suite": ("suite list", "suite run kernelbench --targets cpp:cpu"),
    "serve": ("serve --port 8000",),
    "mcp": ("mcp",),
    "fleet": ("fleet up --host 10.0.0.7", "fleet join 10.0.0.7:6400 --token-file token", "fleet status", "fleet down"),
    "cache": ("cache size", "cache prune --size 2GB --age 8w --dry-run"),
    "results": ("results --operator softmax --last 20", "results --export rows.json", "results --gate main --margin 3%",
                "results --prune --age 90d --count 1000"),
    "completion": ("completion bash > ~/.local/share/bash-completion/completions/portakern", "completion fish"),
}  # fmt: skip


def epilog(command: str) -> str:
    lines = "\n".join(f"  portakern {line}" for line in EXAMPLES.get(command, ()))
    return f"examples:\n{lines}" if lines else ""
