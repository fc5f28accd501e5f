"""The picture of the rooms, from the import contracts of pyproject.toml: ``python docs/pictures/rooms.py``.

One box per layer, the highest on top; a room imports only from rooms below it. Where a contract orders what is inside a
room, its layers stand in the box, from the highest to the lowest.
"""

from __future__ import annotations

import re
import tomllib
from html import escape
from pathlib import Path
from textwrap import wrap
from typing import Any

HERE = Path(__file__).parent
PYPROJECT = HERE.parents[1] / "pyproject.toml"
PICTURE = HERE / "rooms.svg"
WIDTH, LEFT, LINE, PAD, GAP = 760, 150, 15, 9, 5
INSIDE = 108  # characters of a line in a box
STYLE = (
    "text{font:12px sans-serif;fill:#1f2328}.room{font-weight:700}.inside{font-size:11px;fill:#59636e}"
    "rect{fill:#f6f8fa;stroke:#d0d7de}@media(prefers-color-scheme:dark)"
    "{text{fill:#e6edf3}.inside{fill:#9198a1}rect{fill:#151b23;stroke:#3d444d}}"
)


def layers(contract: dict[str, Any]) -> list[list[str]]:
    """The layers of a contract from the highest to the lowest, each with the modules that stand side by side in it.

    >>> layers({"layers": ["(run) | (evaluation)", "measures"]})
    [['run', 'evaluation'], ['measures']]
    """
    return [re.findall(r"\w+", layer) for layer in contract["layers"]]


def picture(contracts: list[dict[str, Any]]) -> str:
    """The contracts as SVG; the same contracts give the same text."""
    inside = {c["containers"][0]: layers(c) for c in contracts if c["type"] == "layers"}
    boxes, y = [], 0
    for rooms in (side for side in inside["quadnorm"] if side != ["__main__"]):
        lines = []
        for room in rooms:
            parts = inside.get(f"quadnorm.{room}", [])
            lines += wrap(" › ".join(", ".join(part) for part in parts), INSIDE)
        height = LINE * max(1, len(lines)) + 2 * PAD
        boxes.append(f'<rect x="0.5" y="{y + 0.5}" width="{WIDTH - 1}" height="{height}" rx="5"/>')
        name = escape(", ".join(rooms))
        boxes.append(f'<text class="room" x="12" y="{y + PAD + 11}">{name}</text>')
        for k, line in enumerate(lines):
            boxes.append(f'<text class="inside" x="{LEFT}" y="{y + PAD + 11 + LINE * k}">{escape(line)}</text>')
        y += height + GAP
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {y}" width="{WIDTH}" height="{y}" role="img">'
    title = "<title>The rooms of quadnorm: each imports only from those below it</title>"
    return "\n".join([head, title, f"<style>{STYLE}</style>", *boxes, "</svg>", ""])


def contracts() -> list[dict[str, Any]]:
    """The import contracts of this repository."""
    listed: list[dict[str, Any]] = tomllib.loads(PYPROJECT.read_text(encoding="utf-8"))["tool"]["importlinter"][
        "contracts"
    ]
    return listed


if __name__ == "__main__":
    PICTURE.write_text(picture(contracts()), encoding="utf-8")
    print(PICTURE)
