"""The paper's claims in our words, and ours; each with the cases that decide on it."""

from quadnorm.lab.analysis.claims.ledger import breadth, mechanism, operators, ours, transfer
from quadnorm.lab.analysis.claims.verdicts import Claim

CLAIMS: tuple[Claim, ...] = (
    *transfer.CLAIMS,
    *operators.CLAIMS,
    *breadth.CLAIMS,
    *mechanism.CLAIMS,
    *ours.CLAIMS,
)
