"""The studies, as data."""
