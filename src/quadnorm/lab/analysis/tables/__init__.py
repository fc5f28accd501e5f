"""Tables made from records, with the paper's values."""

from quadnorm.lab.analysis.tables.derived import derived_table, table_names
from quadnorm.lab.analysis.tables.study_table import study_table, table_of
from quadnorm.lab.analysis.tables.table import Cell, Panel, Table

__all__ = ["Cell", "Panel", "Table", "derived_table", "study_table", "table_names", "table_of"]
