"""The page of words, from the glossary that every report prints."""

import re

from markup import escape


def glossary_page() -> str:
    """Every term and its meaning, names of functions and options as code."""
    from quadnorm.lab.report.glossary import GLOSSARY

    entries = [f"**{escape(term)}**\n: {_marked(text)}" for term, text in GLOSSARY.items()]
    head = ["# Glossary", "One name for each thing, in Python, on the command line and in reports."]
    return "\n\n".join([*head, *entries]) + "\n"


def _marked(text: str) -> str:
    """Names as code.

    >>> _marked("No retraining. qn.at_native, --how native.")
    'No retraining. `qn.at_native`, `--how native`.'
    """
    return escape(re.sub(r"(qn\.\w+|--how [\w-]+)", r"`\1`", text))
