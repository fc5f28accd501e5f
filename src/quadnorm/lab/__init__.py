"""Everything around the paper: studies, their analysis, report, theory and benchmarks. The library does not need it."""
