r"""Which frequencies a spectral layer keeps, and how their coefficients follow from products of cosines and sines.

With e^{−2πi k s} = c_k − i s_k, where c_k = cos 2πks and s_k = sin 2πks, a mode of a field is a sum of few real
coefficients. In two dimensions, with cc, cs, sc and ss for the coefficients of c_k c_l, c_k s_l, s_k c_l and s_k s_l:

.. math:: X_{+k,l} = (cc - ss) - i\,(cs + sc), \qquad X_{-k,l} = (cc + ss) + i\,(sc - cs) .

The way back is the transpose: every coefficient collects the modes that it is part of, with the same signs.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

import torch
from torch import Tensor


@dataclass(frozen=True)
class Modes:
    """Kept frequencies: |k| < ``kept[a]`` on axis a, and down to −``lowest[a]`` on all axes but the last."""

    kept: tuple[int, ...]
    lowest: tuple[int, ...]

    @property
    def tops(self) -> tuple[int, ...]:
        """The highest |k| on each axis."""
        return (*(max(m - 1, q) for m, q in zip(self.kept[:-1], self.lowest, strict=True)), self.kept[-1] - 1)

    @property
    def shape(self) -> tuple[int, ...]:
        """Number of modes on each axis."""
        return (*(m + q for m, q in zip(self.kept[:-1], self.lowest, strict=True)), self.kept[-1])

    def frequencies(self) -> list[tuple[int, ...]]:
        """The frequency vectors in the order of the weights, as numbers."""
        axes = [[*range(m), *range(-1, -q - 1, -1)] for m, q in zip(self.kept[:-1], self.lowest, strict=True)]
        return list(product(*axes, range(self.kept[-1])))

    def wavenumbers(self) -> Tensor:
        """The frequency vectors, (*shape, d), in the order of the weights."""
        return torch.tensor(self.frequencies(), device="cpu").view(*self.shape, len(self.kept))


def to_modes(t: Tensor, modes: Modes) -> tuple[Tensor, Tensor]:
    """(*rows, B, C) real → real and imaginary parts of the modes, (*modes.shape, B, C) each."""
    last = len(modes.kept) - 1
    re, im = t.chunk(2, last)
    im = im.neg()
    for a, (m, q) in enumerate(zip(modes.kept[:-1], modes.lowest, strict=True)):
        (cr, sr), (ci, si) = re.chunk(2, a), im.chunk(2, a)
        re = torch.cat([(cr + si).narrow(a, 0, m), (cr - si).narrow(a, 1, q)], a)
        im = torch.cat([(ci - sr).narrow(a, 0, m), (ci + sr).narrow(a, 1, q)], a)
    return re, im


def complex_modes(t: Tensor, modes: Modes) -> Tensor:
    """:func:`to_modes` as one complex tensor. In two dimensions, the common case, without intermediate copies."""
    if len(modes.kept) != 2:
        return torch.complex(*to_modes(t, modes))
    m, q = modes.kept[0], modes.lowest[0]
    (cc, cs), (sc, ss) = (half.chunk(2, 1) for half in t.chunk(2, 0))  # waves along the first axis, along the second
    x = torch.empty(*modes.shape, *t.shape[2:], dtype=t.dtype.to_complex(), device=t.device)
    re, im = x.real, x.imag
    torch.sub(cc[:m], ss[:m], out=re[:m])
    torch.add(cs[:m], sc[:m], out=im[:m]).neg_()
    torch.add(cc[1 : q + 1], ss[1 : q + 1], out=re[m:])
    torch.sub(sc[1 : q + 1], cs[1 : q + 1], out=im[m:])
    return x


def real_coefficients(y: Tensor, modes: Modes) -> Tensor:
    """:func:`from_modes` of one complex tensor. In two dimensions, the common case, without intermediate copies."""
    re, im = y.real, y.imag
    if len(modes.kept) != 2:
        return from_modes(re, im, modes)
    m, q = modes.kept[0], modes.lowest[0]
    rows, columns = (top + 1 for top in modes.tops)
    t = torch.empty(2 * rows, 2 * columns, *y.shape[2:], dtype=re.dtype, device=y.device)
    (cc, cs), (sc, ss) = (half.chunk(2, 1) for half in t.chunk(2, 0))  # waves along the first axis, along the second
    both = min(m - 1, q)  # k = 1 … both have a partner −k; k = 0 has none, nor what only one sign keeps
    # Each takes a share of X₊ₖ and one of X₋ₖ, with the signs of the formulas above.
    for part, f, plus, minus in ((cc, re, 1, 1), (ss, re, -1, 1), (cs, im, -1, -1), (sc, im, -1, 1)):
        pairs = torch.add(f[m : m + both], f[1 : both + 1], alpha=plus * minus, out=part[1 : both + 1])
        if minus < 0:
            pairs.neg_()
        torch.mul(f[:1], plus, out=part[:1])
        if m - 1 != q:
            part[both + 1 :] = f[both + 1 : m] * plus if m - 1 > q else f[m + both :] * minus
    return t


def from_modes(re: Tensor, im: Tensor, modes: Modes) -> Tensor:
    """The transpose of :func:`to_modes`, up to rows that meet sin 0 = 0."""
    for a, (m, q) in enumerate(zip(modes.kept[:-1], modes.lowest, strict=True)):
        even_re, odd_re = _fold(re, a, m, q)
        even_im, odd_im = _fold(im, a, m, q)
        re = torch.cat([even_re, odd_im.neg()], a)
        im = torch.cat([even_im, odd_re], a)
    return torch.cat([re, im.neg()], len(modes.kept) - 1)


def _fold(f: Tensor, a: int, m: int, q: int) -> tuple[Tensor, Tensor]:
    """f₊ₖ + f₋ₖ and f₊ₖ − f₋ₖ for k = 0 … max(m−1, q), f₋₀ = 0; a mode that is not kept counts as 0."""
    zero, plus, minus = f.narrow(a, 0, 1), f.narrow(a, 1, m - 1), f.narrow(a, m, q)
    both = min(m - 1, q)
    p, n = plus.narrow(a, 0, both), minus.narrow(a, 0, both)
    more_p, more_n = plus.narrow(a, both, m - 1 - both), minus.narrow(a, both, q - both)
    return torch.cat([zero, p + n, more_p, more_n], a), torch.cat([zero, p - n, more_p, more_n.neg()], a)
