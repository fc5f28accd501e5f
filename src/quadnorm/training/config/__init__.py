"""Configs of training runs: what they hold, how they are read and what is wrong with them."""

from quadnorm.training.config.sections import LEARNING_RATES, ResolutionsConfig, SamplesConfig
from quadnorm.training.config.train import CIRCUMSTANCES, TrainConfig

__all__ = ["CIRCUMSTANCES", "LEARNING_RATES", "ResolutionsConfig", "SamplesConfig", "TrainConfig"]
