"""Statements about measures, layers and networks, each with an experiment that measures it."""

from quadnorm.lab.theory.statement import (
    STATEMENTS,
    Check,
    Evidence,
    PowerFit,
    Series,
    Statement,
    fit_order,
    fit_power,
    statement,
    statement_names,
    statements,
)

__all__ = [
    "STATEMENTS",
    "Check",
    "Evidence",
    "PowerFit",
    "Series",
    "Statement",
    "fit_order",
    "fit_power",
    "statement",
    "statement_names",
    "statements",
]
