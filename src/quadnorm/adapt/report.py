"""Reports of what was done to each module of a model and why, and the words for grids in them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum
from html import escape
from importlib import import_module
from typing import Any

from quadnorm._text import html_table


class Reason(Enum):
    """Why a call depends on the grid, what extension and anchoring do about it, and what they leave; with its words."""

    COUNTED = "a reduction over samples, each counted the same"
    INTEGRATED = "a trapezoidal sum, whose ends are the samples' and not the domain's"
    PICKED = "picks from the samples: no sum, no measure to set"
    SHARED = "divides samples by their total, each counted the same"
    NORMED = "a norm that counts samples"
    BATCH = "averages over the batch and counts samples; statistics of a batch are not those of a grid"
    BATCH_TRAINING = (
        "in train mode its statistics count samples; in eval mode it uses running ones, which are no spatial sum"
    )
    FOURIER = "a Fourier transform of samples: its period moves with the resolution"
    SUMMED = "a product that sums over samples, each counted the same"
    ATTENDED = "softmax attention over samples, each counted the same"
    KERNELS = "a kernel of {size} samples: its width in space shrinks with the spacing"
    POOLS = "pools a fixed number of samples: its width in space shrinks with the spacing"
    BINS = "bins of whole samples, whose edges move with the resolution"
    RESAMPLED = "resamples by a factor or to a number of samples"
    SHIFTED = "differences or shifts by a number of samples"
    ORDERED = "accumulates or orders along the samples"
    PATCHES = "patches of {size} samples, whatever their size in space"
    INDEXED = "reads or writes samples by their index"
    PADDED = "padding by a number of samples"
    DERIVED = "a derivative by the samples of what was summed over them"
    UNKNOWN = "returns nothing that lies on the grid"

    KEEPS_MOMENTS = "its mean and variance are the training grid's"
    KEEPS_STATISTICS = "its statistics over space are the training grid's"
    KEEPS_TOTAL = "its total over samples is the training grid's"
    KEEPS_OPERANDS = "sums over the training grid's samples (keys, values)"
    KEEPS_KEYS = "attends to the training grid's keys and values"
    KEEPS_SPECTRUM = "the spectrum is the training grid's"
    EVALUATES_WAVES = "the training grid's waves, evaluated at the new nodes"
    REDUCES_NATIVE = "reduces over the training grid's nodes"
    INTERPOLATED = "its result at the training grid is interpolated"
    DILATED = "its samples lie as far apart as in training"
    SHIFTED_RUNS = "the model runs on shifted training grids"
    DIFFERS = "evaluated at the training nodes it differs from the run at the training grid, which is interpolated"
    GRID_FREE = "its result at the training grid holds everywhere"
    OWN_GRID = "to a grid of its own, whose values only later calls see"

    MEASURE = "counting → anchored"
    TOTAL = "its total counts samples as in training"
    PRODUCT = "samples are counted as in training in the sum over them"
    LOGITS = "log(count) is added to the logits of each key"
    ANALYSIS = "FFT → sums with the training grid's measure and period"
    SYNTHESIS = "waves with the training grid's period"
    PADDING = "padding by samples → by the same length in space"
    CUT = "cuts the padding off where it ends in space"
    DERIVATIVE = "derivative per training sample"
    SHIFT = "shifts the spectrum back as on the training grid: twice fftshift moves waves by one where n is odd"

    COORDINATES = "a field that is another function on every grid, such as coordinates j/n → the training grid's"

    INTEGRAL = "on cell-centred and periodic axes counting is already the integral"
    TRAPEZOID = "a trapezoidal sum from end to end: an integral already, to O(h²)"
    NO_MEASURE = "no measure to set: left as it is, quadnorm.extend takes its result at the training grid"
    OUT_OF_SIGHT = "computed from the input outside of PyTorch's calls, as by NumPy"
    NATIVE_VALUE = "taken on the training grid"
    OPAQUE = "an autograd function, or a reentrant checkpoint: PyTorch hides the sums inside it, which stay as trained"
    UNUSED_PADDING = "pads a fixed number of samples, which no sum that can be anchored sees"
    RUNNING = "running statistics in eval mode are no spatial sum; in train mode they would count samples"
    SAME_TOKENS = "attends to tokens of which there are as many on every grid: no sum over samples"
    PARAMETERS = "γ and β are values at training samples, interpolated to other grids"
    FIELD_RESAMPLED = "values on the training grid, shape {size}: the model takes them to other grids itself"
    FIELD_INTERPOLATED = "values on the training grid, shape {size}: interpolated to other grids by splines"

    def text(self, size: str = "a fixed number of") -> str:
        """Its words, with a size where they name one."""
        return self.value.format(size=size)


def with_times(why: str, times: int) -> str:
    """A reason, with how often it holds if that is more than once."""
    return f"{why} ({times} times)" if times > 1 else why


@dataclass(frozen=True)
class Entry:
    """One line of a report: a module (or a call inside one), what happened to it, and why.

    ``call`` is the function, where a line is about the calls of one.
    """

    name: str
    kind: str
    action: str
    why: str
    call: str = ""

    def as_row(self) -> dict[str, str]:
        """As plain values."""
        return {"module": self.name or "(model)", "kind": self.kind, "action": self.action, "why": self.why}


@dataclass
class AnchorReport:
    """The lines of :func:`quadnorm.anchor` or :func:`quadnorm.convert`; ``print(report)`` shows a table.

    ``changed`` holds what was anchored or converted, ``unchanged`` what needs no change, and ``left`` what still
    depends on the resolution. ``notes`` say what holds for the whole model.
    """

    title: str
    entries: list[Entry] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def add(self, name: str, kind: str, action: str, why: str, call: str = "") -> None:
        """Append a line."""
        self.entries.append(Entry(name, kind, action, why, call))

    def __iter__(self) -> Iterator[Entry]:
        return iter(self.entries)

    def __len__(self) -> int:
        return len(self.entries)

    def __getitem__(self, name: str) -> Entry:
        for e in self.entries:
            if e.name == name:
                return e
        raise KeyError(f"no line about {name!r}; there are lines about {', '.join(e.name or '(model)' for e in self)}")

    @property
    def changed(self) -> list[Entry]:
        """What is different now."""
        return [e for e in self.entries if e.action in ("anchored", "converted")]

    @property
    def unchanged(self) -> list[Entry]:
        """What needs no change."""
        return [e for e in self.entries if e.action == "unchanged"]

    @property
    def left(self) -> list[Entry]:
        """What still depends on the resolution, or was left alone for another reason."""
        return [e for e in self.entries if e.action == "left"]

    def to_frame(self) -> Any:
        """The lines as a pandas DataFrame."""
        try:
            pd = import_module("pandas")
        except ImportError:
            raise ImportError("AnchorReport.to_frame needs pandas: pip install 'quadnorm[bench]'") from None
        return pd.DataFrame([e.as_row() for e in self.entries], columns=["module", "kind", "action", "why"])

    def __str__(self) -> str:
        lines = [self.title]
        if self.entries:
            lines.append(table(["module", "kind", "action", "why"], [list(e.as_row().values()) for e in self.entries]))
        return "\n".join([*lines, *(f"note: {n}" for n in self.notes)])

    def _repr_html_(self) -> str:
        head = ["module", "kind", "action", "why"]
        rows = [list(e.as_row().values()) for e in self.entries]
        notes = "".join(f"<p>note: {escape(n)}</p>" for n in self.notes)
        return f"<p>{escape(self.title)}</p>{html_table(head, rows)}{notes}"


def size_text(sizes: Iterable[int]) -> str:
    """A grid's samples per axis.

    >>> size_text((17, 33))
    '17×33'
    """
    return "×".join(map(str, sizes))


def grid_text(sizes: Iterable[int], placements: Sequence[str]) -> str:
    """A grid's samples per axis and their placement.

    >>> grid_text((17, 17), ("endpoint", "endpoint")), grid_text((9, 8), ("cell", "periodic"))
    ('17×17, endpoint samples', '9×8, cell, periodic samples')
    """
    words = placements[:1] if len(set(placements)) == 1 else placements
    return f"{size_text(sizes)}, {', '.join(words)} samples"


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Plain columns, left-aligned; the last one may be as long as it likes.

    >>> print(table(["a", "b"], [["1", "two"], ["33", "4"]]))
    a   b
    --  ---
    1   two
    33  4
    """
    body = [list(map(str, r)) for r in rows]
    widths = [max(len(r[k]) for r in [list(head), *body]) for k in range(len(head))]
    rule = ["-" * w for w in widths[:-1]] + ["-" * min(widths[-1], 60)]
    return "\n".join(
        "  ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)).rstrip()
        for row in [list(head), rule, *body]
    )
