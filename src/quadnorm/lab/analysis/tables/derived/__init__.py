"""The paper's tables that are computed from studies, rebuilt from records with the paper's cells beside."""

from quadnorm.lab.analysis.tables.derived.registry import derived_table, table_names

__all__ = ["derived_table", "table_names"]
