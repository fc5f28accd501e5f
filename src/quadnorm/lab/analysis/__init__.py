"""Statistics, tables, figures and claims. Everything here reads records, never models."""
