"""The model of a config: its operator, with normalisers for inputs and outputs around it."""

from quadnorm.training.model.build import Sizes, build_model, check_grids, operator_class, outline
from quadnorm.training.model.normalised import Normalised, moments

__all__ = ["Normalised", "Sizes", "build_model", "check_grids", "moments", "operator_class", "outline"]
