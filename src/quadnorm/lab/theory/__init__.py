"""Statements about measures, layers and networks, each with an experiment that measures it."""

from quadnorm.lab.theory.fits import PowerFit, fit_order, fit_power
from quadnorm.lab.theory.registry import STATEMENTS, statement, statement_names, statements
from quadnorm.lab.theory.statement import Check, Evidence, Series, Statement

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
