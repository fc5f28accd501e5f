"""A study that takes a second: Poisson, a tiny FNO, two norms."""

from quadnorm.lab.studies import Budget, Desk, Method, Study, Variant, Way
from quadnorm.lab.studies.study import AS_TRAINED

ANCHORED = Way("anchor-all", "all anchored", "anchored", "all")


def tiny_study(name: str = "tiny", evaluations=(AS_TRAINED, ANCHORED), epochs: int = 3, **changes) -> Study:
    variant = Variant(
        name="fno",
        problem="poisson",
        operator="fno",
        methods=(Method("LayerNorm", "layer"), Method("QuadNorm", "quad:instance")),
        train=(9,),
        test=(9, 17),
        budget=Budget(train=8, val=2, test=3, epochs=epochs, lr=1e-3, patience=None, batch=4),
        desk=Desk(epochs=2),
        problem_params={"modes": 4},
        operator_params={"width": 4, "modes": 2, "layers": 1},
    )
    settings = {"seeds": (0, 1), "evaluations": evaluations, **changes}
    return Study(name=name, title="A tiny study", theme="test", variants=(variant,), **settings)
