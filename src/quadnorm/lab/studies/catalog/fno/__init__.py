"""Studies of the FNO."""

from quadnorm.lab.studies.catalog.fno import ablations, gap, regimes

STUDIES = (*gap.STUDIES, *ablations.STUDIES, *regimes.STUDIES)
