"""The report: one HTML page made from records, and the same results as Markdown."""

from quadnorm.lab.report.page import build_report, library_of

__all__ = ["build_report", "library_of"]
