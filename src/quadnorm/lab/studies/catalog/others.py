"""A model of others on data of others: neuraloperator's tutorial."""

from dataclasses import replace

from quadnorm.lab.studies.catalog.parts import GROUP, INSTANCE, NONE, seeds
from quadnorm.lab.studies.study import (
    ANCHORED,
    EXTENDED,
    NATIVE,
    TRANSFER,
    TRANSFERRED,
    Budget,
    Desk,
    Study,
    Variant,
    Way,
)

_WRONG = (("placement", "endpoint"),)


def _misplaced(way: Way) -> Way:
    """The same way with a wrong placement: it assumes that the samples include both ends of the domain."""
    return replace(way, name=f"{way.name}-endpoint", label=f"{way.label}, wrong placement", view=_WRONG)


STUDIES = (
    Study(
        name="neuralop-tutorial",
        title="neuraloperator's tutorial: its FNO on its small Darcy set, trained at 16², tested at 32²",
        theme="ours",
        variants=(
            Variant(
                name="fno",
                problem="darcy-neuralop",
                operator="neuralop-fno",
                methods=tuple(replace(m, printed=None) for m in (NONE, GROUP, INSTANCE)),
                train=(16,),
                test=(16, 32),
                budget=Budget(900, 100, 50, epochs=15, lr=1e-2, patience=None, warmup=0.0, batch=64),
                desk=Desk(epochs=15, train=900, val=100, test=50),
                operator_params={"width": 24, "modes": 8, "layers": 4},
            ),
        ),
        seeds=seeds(5),
        evaluations=(*TRANSFER, TRANSFERRED, *map(_misplaced, (ANCHORED, EXTENDED, NATIVE))),
        notes=(
            "Model, learning rate, weight decay, batch and epochs are the tutorial's; its H1 loss is relative L² here, "
            "its cosine ends at zero with the last epoch, and 100 of its 1000 training samples choose the weights.",
            "The data are fetched, not shipped: quadnorm data fetch darcy-neuralop. Their nodes are j/n of an axis "
            "that is not periodic (left); rows with the wrong placement endpoint show what it costs.",
            "Their GroupNorm has one group.",
        ),
        desk_seeds=5,
    ),
)
