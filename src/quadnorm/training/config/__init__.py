"""Configs of training runs: their sections and defaults, how they are read, and how they are checked."""

from quadnorm.training.config.sections import LEARNING_RATES, ResolutionsConfig, SamplesConfig
from quadnorm.training.config.train import CIRCUMSTANCES, TrainConfig

__all__ = ["CIRCUMSTANCES", "LEARNING_RATES", "ResolutionsConfig", "SamplesConfig", "TrainConfig"]
