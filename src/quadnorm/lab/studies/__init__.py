"""The paper's studies as data: what is trained, on what grids, at which budget, and what the paper printed."""

from quadnorm.lab.studies.catalog import derived, derived_names, study, study_names
from quadnorm.lab.studies.estimate import TimeEstimate, estimate
from quadnorm.lab.studies.paper import paper_labels, paper_table, paper_tables
from quadnorm.lab.studies.presets import changed
from quadnorm.lab.studies.study import Budget, Derived, Desk, Method, Run, Study, Variant, Way

__all__ = [
    "Budget",
    "Derived",
    "Desk",
    "Method",
    "Run",
    "Study",
    "TimeEstimate",
    "Variant",
    "Way",
    "changed",
    "derived",
    "derived_names",
    "estimate",
    "paper_labels",
    "paper_table",
    "paper_tables",
    "study",
    "study_names",
]
