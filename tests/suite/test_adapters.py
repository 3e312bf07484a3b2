"""Each adapter reads a checkout that is laid out as its suite's repository is."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from portakern.errors import UsageError  # noqa: E402
from portakern.suite.adapter import LoadedTask, Suite  # noqa: E402
from portakern.suite.flashinfer import FlashInfer  # noqa: E402
from portakern.suite.multikernelbench import MultiKernelBench  # noqa: E402
from portakern.suite.opinfo import OpInfos  # noqa: E402
from portakern.suite.robust_kbench import RobustKBench  # noqa: E402
from portakern.torch_import import from_torch  # noqa: E402
from portakern.torch_import.agreement import agreement  # noqa: E402

ONE_SIZE = """
import torch
class Model(torch.nn.Module):
    def __init__(self, features):
        super().__init__()
        self.scale = torch.nn.Parameter(torch.rand(features))
    def forward(self, x):
        return x * self.scale
features = 4096
def get_inputs():
    return [torch.rand(128, features)]
def get_init_inputs():
    return [features]
"""

CALLS_VENDOR = """
class Model:
    def forward(self, x):
        import torch_npu
        return torch_npu.npu_lstm(x)
"""

GROUPS = """
import json, os, torch
class Model(torch.nn.Module):
    def forward(self, x, dim, index):
        return torch.index_select(x, dim, index)
def get_input_groups():
    with open(os.path.splitext(__file__)[0] + ".json") as f:
        cases = [json.loads(line) for line in f if line.strip()]
    made = []
    for case in cases:
        x, dim, index = case["inputs"]
        low, high = index["range"]
        made.append([torch.rand(x["shape"]), dim["value"], torch.randint(low, high + 1, index["shape"])])
    return made
"""

FORWARD = """
import torch
def forward_fn(x, weight, eps):
    return x * torch.rsqrt((x * x).mean(-1, keepdim=True) + eps) * weight
class Model(torch.nn.Module):
    def __init__(self, features: int = 512, eps: float = 1e-5):
        super().__init__()
        self.weight, self.eps = torch.nn.Parameter(torch.rand(features)), eps
    def forward(self, x, fn=forward_fn):
        return fn(x, self.weight, self.eps)
def get_inputs(batch_size: int = 16, features: int = 512):
    return [torch.randn(batch_size, features, requires_grad=True)]
"""

SETTINGS = {"single_input_configs": [{"batch_size": 64}], "single_init_configs": [{"eps": 1e-6}],
            "single_shared_configs": [{"features": 4096}]}  # fmt: skip

DEFINITION = {
    "name": "norm_h4096", "op_type": "rmsnorm",
    "axes": {"batch_size": {"type": "var"}, "hidden_size": {"type": "const", "value": 4096}},
    "inputs": {"x": {"shape": ["batch_size", "hidden_size"], "dtype": "bfloat16"},
               "rows": {"shape": ["batch_size"], "dtype": "int32"}, "eps": {"shape": None, "dtype": "float32"}},
    "outputs": {"y": {"shape": ["batch_size", "hidden_size"], "dtype": "bfloat16"}},
    "reference": "import torch\n\n@torch.no_grad()\ndef run(x, rows, eps):\n    assert x.shape[1] == 4096\n"
                 "    return (x.float() + eps).to(x.dtype)[rows.long()]\n",
}  # fmt: skip


def write(file: Path, what: Any) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(what if isinstance(what, str) else json.dumps(what))


def loaded(suite: Suite, path: Path, name: str) -> list[LoadedTask]:
    assert isinstance(suite, Suite)
    task = next(t for t in suite.tasks(path) if t.name == name)
    return list(suite.load(path, task, "reduced", 0))


def test_multikernelbench_has_files_of_one_size_and_files_with_cases(tmp_path: Path) -> None:
    root = tmp_path / "reference"
    write(root / "broadcast" / "scale.py", ONE_SIZE)
    write(root / "broadcast" / "_helper.py", "")
    write(root / "npukernelbench_level1" / "2_select.py", GROUPS)
    write(root / "npukernelbench_level4" / "1_lstm.py", CALLS_VENDOR)
    shapes = [(128, 32), (512, 32), (4096, 32), (2048, 32), (0, 0)]
    lines = [{"inputs": [{"name": "x", "type": "tensor", "dtype": "float32", "shape": [n]},
                         {"name": "dim", "type": "attr", "dtype": "int", "value": 0},
                         {"name": "index", "type": "tensor", "dtype": "int64", "shape": [k], "range": [0, n - 1]}]}
             for n, k in shapes]  # fmt: skip
    write(root / "npukernelbench_level1" / "2_select.json", "\n".join(map(json.dumps, lines)))
    suite = MultiKernelBench()
    assert [t.name for t in suite.tasks(tmp_path)] == ["broadcast/scale", "npukernelbench_level1/2_select"]
    (one,) = loaded(suite, tmp_path, "broadcast/scale")
    assert one.size == "reduced" and one.args[0].shape == (8, 64)
    cases = loaded(suite, tmp_path, "npukernelbench_level1/2_select")
    assert [c.note for c in cases] == ["case 0, size 128 -> 8, size 32 -> 4", "case 1, size 512 -> 16, size 32 -> 4",
                                       "case 2, size 4096 -> 64, size 32 -> 4"]  # fmt: skip
    assert all(int(c.args[2].max()) < len(c.args[0]) for c in cases), "indices stay within the smaller array"
    where = type(cases[0].module).forward.__code__.co_filename
    assert where == str(root / "npukernelbench_level1" / "2_select.py"), "errors name a file that stays"


def test_multikernelbench_makes_the_length_smaller_that_indices_go_into(tmp_path: Path) -> None:
    root = tmp_path / "reference" / "npukernelbench_level1"
    write(root / "3_count.py", GROUPS.replace("torch.index_select(x, dim, index)", "torch.bincount(index, None, dim) * x[0]"))
    case = {"inputs": [{"name": "x", "type": "tensor", "dtype": "float32", "shape": [2]},
                       {"name": "dim", "type": "attr", "dtype": "int", "value": 50000},
                       {"name": "index", "type": "tensor", "dtype": "int64", "shape": [4], "range": [0, 50000]}]}  # fmt: skip
    write(root / "3_count.json", json.dumps(case))
    (one,) = loaded(MultiKernelBench(), tmp_path, "npukernelbench_level1/3_count")
    assert one.note == "case 0, size 50000 -> 128" and int(one.args[2].max()) < one.args[1] == 128


def test_multikernelbench_has_files_that_only_import_the_vendors_package(tmp_path: Path) -> None:
    """``torch_npu`` is not installed here; of two files that name it, only one needs it."""
    root = tmp_path / "reference" / "npukernelbench_level2"
    write(root / "1_scale.py", "import torch_npu  # a comment on torch_npu.npu_scale\n" + ONE_SIZE)
    write(root / "2_lstm.py", CALLS_VENDOR)
    assert [t.name for t in MultiKernelBench().tasks(tmp_path)] == ["npukernelbench_level2/1_scale"]
    for _ in range(2):  # a process may load several such tasks
        (one,) = loaded(MultiKernelBench(), tmp_path, "npukernelbench_level2/1_scale")
        assert one.args[0].shape == (8, 64)


def test_robust_kbench_has_forward_and_backward_passes(tmp_path: Path) -> None:
    for folder, passes in (("norm", ("forward", "backward")), ("kernelbench/level_1/task_10", ("forward",)),
                           ("kernelbench/level_1/task_9", ("forward",))):  # fmt: skip
        for which in passes:
            write(tmp_path / "tasks" / folder / f"func_{which}.py", FORWARD)
            write(tmp_path / "tasks" / folder / f"config_{which}.json", SETTINGS)
    suite = RobustKBench()
    names = [t.name for t in suite.tasks(tmp_path)]
    assert names == [*(f"kernelbench/level_1/task_{n}/forward" for n in (9, 10)), "norm/forward", "norm/backward"]
    (forward,) = loaded(suite, tmp_path, "norm/forward")
    assert forward.note == "features 4096 -> 64, batch_size 64 -> 8" and forward.module.eps == 1e-6
    (backward,) = loaded(suite, tmp_path, "norm/backward")
    op = from_torch(backward.module, backward.args)
    assert agreement(op) and list(op.program().outputs) == ["out0", "out1"]
    made = backward.module(*backward.args)
    x = backward.args[0].clone().requires_grad_()
    forward.module(x).backward(backward.args[1])
    torch.testing.assert_close(list(made), [x.grad, forward.module.weight.grad])


def test_flashinfer_has_definitions_and_workloads(tmp_path: Path) -> None:
    write(tmp_path / "definitions" / "rmsnorm" / "norm_h4096.json", DEFINITION)
    write(tmp_path / "workloads" / "rmsnorm" / "norm_h4096.jsonl",
          {"definition": "norm_h4096", "workload": {"uuid": "1", "axes": {"batch_size": 63},
                                                    "inputs": {"eps": {"type": "scalar", "value": 0.5}}}})  # fmt: skip
    (task,) = loaded(FlashInfer(), tmp_path, "rmsnorm/norm_h4096")
    x, rows, eps = task.args
    assert task.note == "batch_size 63 -> 7, hidden_size 4096 -> 64"
    assert (tuple(x.shape), x.dtype, eps) == ((7, 64), torch.bfloat16, 0.5) and int(rows.max()) < 7
    assert agreement(from_torch(task.module, task.args))


@pytest.mark.parametrize("suite", [MultiKernelBench(), RobustKBench(), FlashInfer()], ids=lambda s: s.name)
def test_a_folder_that_is_no_checkout_is_refused(suite: Suite, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="holds no tasks"):
        suite.tasks(tmp_path)


def test_operations_are_taken_in_two_dtypes_from_pytorchs_own_samples() -> None:
    pytest.importorskip("expecttest")
    suite = OpInfos()
    tasks = suite.tasks(None)
    assert {t.level for t in tasks} == {"core", "bf16"} and not any(t.name == "bf16/bitwise_and" for t in tasks)
    for name, dtype in (("bf16/abs", torch.bfloat16), ("abs", torch.float32), ("bitwise_and", torch.int64)):
        (task,) = (t for t in tasks if t.name == name)
        samples = suite.load(None, task, "reduced", 0)
        assert samples and all(x.dtype == dtype for one in samples for x in one.args)
