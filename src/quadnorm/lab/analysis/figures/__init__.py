"""Figures of records, of fields and of the theory."""
