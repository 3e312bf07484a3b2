"""Tasks at small sizes of the same structure."""

from __future__ import annotations

from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from portakern.suite.operations import loops_as_one  # noqa: E402
from portakern.suite.shrink import candidates, operations, reduced, said, smaller  # noqa: E402
from portakern.suite.taskfile import TaskFile  # noqa: E402

TASK = """
import torch
import torch.nn as nn

class Model(nn.Module):
    def __init__(self, features, num_groups):
        super().__init__()
        self.fc = nn.Linear(features, 2 * features)
        self.norm = nn.GroupNorm(num_groups, 2 * features)
        for _ in range(9):
            pass

    def forward(self, x):
        return self.norm(self.fc(x)){more}

batch_size = 128
features = 1024
num_groups = 16

def get_inputs():
    return [torch.rand(batch_size, features)]

def get_init_inputs():
    return [features, num_groups]
"""


def task(tmp_path: Path, more: str = "") -> TaskFile:
    file = tmp_path / "1_task.py"
    file.write_text(TASK.replace("{more}", more))
    return TaskFile.read(file)


def test_numbers_shrink_together_and_groups_keep_elements(tmp_path: Path) -> None:
    file = task(tmp_path)
    assert [name for name, _ in file.sites] == ["batch_size", "features"]  # nothing in the class, no number of groups
    numbers = reduced(file)
    assert said(file, numbers) == "batch_size 128 -> 8, features 1024 -> 32"
    assert operations(file, numbers) == operations(file, {})
    scope = file.run(numbers)
    assert scope["get_inputs"]()[0].shape == (8, 32)


def test_a_size_that_structure_depends_on_stays(tmp_path: Path) -> None:
    file = task(tmp_path, "[:, 2047]")
    assert said(file, reduced(file)) == "batch_size 128 -> 8"


def test_a_task_that_does_not_run_has_no_smaller_size(tmp_path: Path) -> None:
    assert reduced(task(tmp_path, ".nothing()")) == {}


def test_sizes_keep_whether_they_are_multiples_of_eight() -> None:
    assert list(smaller(1024))[:3] == [32, 64, 128] and all(n % 2 for n in smaller(1023))
    assert list(smaller(9)) == [5] and max(smaller(4096)) < 4096


def test_a_number_of_layers_stays_and_their_sizes_do_not(tmp_path: Path) -> None:
    file = tmp_path / "2_task.py"
    file.write_text("num_layers = 12\nn_layer = 12\nhidden_layer_sizes = [1024, 512]\nlayers = [9]\n")
    assert [value for _, value in TaskFile.read(file).sites] == [1024, 512]


def test_a_depth_of_volumes_is_a_size_and_one_of_layers_is_not(tmp_path: Path) -> None:
    file = tmp_path / "4_task.py"
    file.write_text("depth = 64\nheight = 32\nkernel_depth = 9\n")
    assert [value for _, value in TaskFile.read(file).sites] == [64, 32]
    file.write_text("depth = 12\nwidth = 1024\n")
    assert [value for _, value in TaskFile.read(file).sites] == [1024]


def test_only_channels_are_dealt_out_to_groups(tmp_path: Path) -> None:
    file = tmp_path / "5_task.py"
    file.write_text("batch = 64\nchannels = 32\ndepth = 12\nheight = 24\ngroups = 4\n")
    task = TaskFile.read(file)
    assert [next(candidates(task, i)) for i in range(4)] == [8, 8, 5, 4]


RECURRENT = """
import torch

class Model(torch.nn.Module):
    def __init__(self, features):
        super().__init__()
        self.cell, self.rnn = torch.nn.Linear(2 * features, features), torch.nn.GRU(features, features, batch_first=True)

    def forward(self, x, h):
        for step in range(x.shape[1]):
            h = torch.tanh(self.cell(torch.cat((x[:, step], h), 1)))
        return self.rnn(x, h[None])

features = 256
steps = {steps}

def get_inputs():
    return [torch.rand(8, steps, features), torch.rand(8, features)]

def get_init_inputs():
    return [features]
"""


def test_a_loop_over_time_becomes_shorter(tmp_path: Path) -> None:
    file = tmp_path / "3_task.py"
    file.write_text(RECURRENT.replace("{steps}", "64"))
    assert said(TaskFile.read(file), reduced(TaskFile.read(file))) == "features 256 -> 16, steps 64 -> 16"
    file.write_text(RECURRENT.replace("{steps}", "10"))
    assert said(TaskFile.read(file), reduced(TaskFile.read(file))) == "features 256 -> 16"  # ten of something are no loop


def test_loops_are_what_comes_many_times_in_a_row() -> None:
    assert loops_as_one(["a", *"bc" * 12, "b", "d"]) == ("a", "loop", "b", "c", "b", "d")
    assert loops_as_one([*"ab" * 11]) == (*"ab" * 11,)


def test_inputs_may_follow_from_numbers_that_were_drawn(tmp_path: Path) -> None:
    """Fake arrays have no numbers: a file that asks for one still has smaller sizes."""
    file = task(tmp_path, ".clamp(max=x.max().item())")
    drawn = file.text.replace("[torch.rand(batch_size, features)]", "[torch.rand(1).item() * torch.rand(batch_size, features)]")
    file = TaskFile(file.path, drawn)
    assert "item() * torch" in drawn and said(file, reduced(file)) == "batch_size 128 -> 8, features 1024 -> 32"


def test_what_fake_arrays_cannot_follow_runs_at_small_sizes(tmp_path: Path) -> None:
    file = task(tmp_path, ".detach().numpy().cumsum(1)")
    assert said(file, reduced(file)) == "batch_size 128 -> 8, features 1024 -> 32"
