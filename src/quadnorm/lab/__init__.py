"""The laboratory of the paper: studies, their analysis, report, theory and benchmarks. It stands on the library."""
