"""One page from records."""

from quadnorm.report.page import build_report

__all__ = ["build_report"]
