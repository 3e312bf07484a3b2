"""The whole-model study: where a PyTorch model's time goes on each target, and what each kernel could gain.

``pieces`` cuts a model's kernels into programs that run alone, ``naming`` calls them by the module's lines, ``roof`` bounds
them; ``building`` and ``profile`` run in workers, ``making`` gives them work; ``study`` holds what was found, ``places`` puts
targets side by side, ``text`` and ``html`` show it.
"""

from portakern.model_study.model import Model, model
from portakern.model_study.study import KernelRow, ModelStudy, TargetPlan

__all__ = ["KernelRow", "Model", "ModelStudy", "TargetPlan", "model"]
