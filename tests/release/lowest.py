"""Lower bounds of pyproject.toml as pins: ``python tests/release/lowest.py > low.txt; pip install -c low.txt …``."""

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]
_BOUND = re.compile(r"^([A-Za-z0-9_.-]+)>=([\w.]+)")


def lowest(text: str) -> dict[str, str]:
    """The lowest version of every package that has a bound, over the dependencies and all extras.

    >>> lowest('[project]\\ndependencies = ["torch>=2.6", "numpy"]\\n[project.optional-dependencies]\\na = ["b>=1"]')
    {'torch': '2.6', 'b': '1'}
    """
    project = tomllib.loads(text)["project"]
    listed = [*project["dependencies"], *(p for extra in project["optional-dependencies"].values() for p in extra)]
    return {match[1]: match[2] for entry in listed if (match := _BOUND.match(entry))}


if __name__ == "__main__":
    for name, version in lowest((ROOT / "pyproject.toml").read_text(encoding="utf-8")).items():
        print(f"{name}=={version}")
