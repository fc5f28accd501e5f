"""Training and evaluation: configs, the loop, checkpoints that resume bit for bit, errors at every resolution.

Names are loaded when they are first used: reading a config needs no torch.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from quadnorm.training.config import TrainConfig
    from quadnorm.training.config.read import read_config, write_config
    from quadnorm.training.evaluation import Errors, Evaluation, evaluate, evaluate_model
    from quadnorm.training.files.saved import load_model, save_adapted
    from quadnorm.training.interrupt import Interrupted
    from quadnorm.training.logs import read_metrics
    from quadnorm.training.loop import NonFiniteError
    from quadnorm.training.losses import relative_l2
    from quadnorm.training.model import Normalised
    from quadnorm.training.run import Result, train
    from quadnorm.training.versions import NUMERICS, environment

__all__ = [
    "NUMERICS",
    "Errors",
    "Evaluation",
    "Interrupted",
    "NonFiniteError",
    "Normalised",
    "Result",
    "TrainConfig",
    "environment",
    "evaluate",
    "evaluate_model",
    "load_model",
    "read_config",
    "read_metrics",
    "relative_l2",
    "save_adapted",
    "train",
    "write_config",
]

_FILES = {
    "config": ("TrainConfig",),
    "versions": ("NUMERICS", "environment"),
    "evaluation": ("Errors", "Evaluation", "evaluate", "evaluate_model"),
    "interrupt": ("Interrupted",),
    "logs": ("read_metrics",),
    "loop": ("NonFiniteError",),
    "losses": ("relative_l2",),
    "model": ("Normalised",),
    "config.read": ("read_config", "write_config"),
    "run": ("Result", "train"),
    "files.saved": ("load_model", "save_adapted"),
}
_HOME = {name: f"quadnorm.training.{file}" for file, names in _FILES.items() for name in names}


def __getattr__(name: str) -> object:
    if name in _HOME:
        return getattr(import_module(_HOME[name]), name)
    raise AttributeError(f"module 'quadnorm.training' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
