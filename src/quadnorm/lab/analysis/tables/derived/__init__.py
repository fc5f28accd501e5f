"""The paper's tables that are computed from several studies, rebuilt from records and shown with the paper's values."""

from quadnorm.lab.analysis.tables.derived.registry import derived_table, table_names

__all__ = ["derived_table", "table_names"]
