"""One colour and one marker for each method, the same in every figure. The colours are Okabe and Ito's, which
colour-blind people can distinguish; markers distinguish the methods in grey print too."""

_KNOWN = {
    "LayerNorm": ("#0072B2", "o"),
    "QuadNorm": ("#D55E00", "s"),
    "BlendQuadNorm": ("#009E73", "D"),
    "InstanceNorm": ("#E69F00", "^"),
    "None": ("#7F7F7F", "v"),
    "GroupNorm": ("#56B4E9", "P"),
    "RMSNorm": ("#CC79A7", "X"),
}
_OTHERS = (
    ("#6A3D9A", "<"),
    ("#8C6D31", ">"),
    ("#117733", "h"),
    ("#AA4499", "p"),
    ("#4D4D4D", "d"),
    ("#44AA99", "*"),
    ("#882255", "8"),
    ("#B8A000", "H"),
)


def styles(labels: list[str]) -> dict[str, tuple[str, str]]:
    """(colour, matplotlib marker) of each method, in the order given.

    >>> styles(["QuadNorm", "something new"])
    {'QuadNorm': ('#D55E00', 's'), 'something new': ('#6A3D9A', '<')}
    """
    fresh = [label for label in dict.fromkeys(labels) if label not in _KNOWN]
    spare = {label: _OTHERS[k % len(_OTHERS)] for k, label in enumerate(fresh)}
    return {label: _KNOWN.get(label) or spare[label] for label in dict.fromkeys(labels)}
