"""Which changes to the source do the tests miss? ``make mutants``, or ``python -m tests.mutants --help``.

Draws single-line changes, makes each in a copy of the tree, and runs the tests of the changed room that run the changed
line, the quickest first, until one fails. A change that nothing notices survives: kill it with a test, or, where the
change makes no difference, say why in ``equivalent.json``.

The draw depends on the seed and the source only. Results are kept in the folder ``--out`` after every mutant, so that a
run that was stopped goes on where it was, and survivors are tried again with ``--again`` after new tests were written.
"""
