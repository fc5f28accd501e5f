"""Statistics, tables, figures and claims; reads records, never models."""
