"""The names of the ways to use a trained model on another grid.

All tables, figures, reports and pages take them from here: one name for each way.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Wording:
    """One way: its name for readers, the function of quadnorm that makes it, and what it does."""

    title: str
    function: str
    does: str


WAYS = {
    "as-trained": Wording("as trained", "", "the model itself, on the new samples"),
    "anchored": Wording("anchored", "anchor", "every spatial sum on the new grid, under the training grid's measure"),
    "extended": Wording("extended", "extend", "the sums of the training grid, the network evaluated at the new nodes"),
    "native": Wording("run at the training grid", "at_native", "the output goes to the new grid by splines or waves"),
    "transferred": Wording(
        "transferred",
        "transfer",
        "the run at the training grid with as much of the network's own detail as validation pairs support",
    ),
}
# The words of `--how` by the function that makes the way; files of adapted models name the function.
WORDS = {way.function: word for word, way in WAYS.items() if way.function}
AS_TRAINED, ANCHORED, EXTENDED, NATIVE, TRANSFERRED = (way.title for way in WAYS.values())
