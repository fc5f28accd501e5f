"""Beyond the paper: unstructured meshes, with sums that count vertices or integrate over control volumes."""

from dataclasses import replace

from quadnorm.lab.studies.catalog.parts import seeds, variant
from quadnorm.lab.studies.study import AS_TRAINED, Desk, Method, Study, Variant, Way

_SUMS = {"measure": "trapezoid"}  # on a mesh every rule means control volumes
_METHODS = (
    Method("counting", "layer", printed=None),
    Method("volumes in norms", "quad", printed=None),
    Method("volumes in sums", "layer", _SUMS, printed=None),
    Method("volumes in both", "quad", _SUMS, printed=None),
)
LEARNING_RATE = 1e-3
_BOUNDARY = (("mesh", "boundary"),)

ON_MESHES = (
    replace(AS_TRAINED, label="uniform mesh"),
    Way("random", "random points", view=(("mesh", "random"),)),
    Way("boundary", "boundary-refined", view=_BOUNDARY),
    Way("native", "uniform, run at a training mesh", "native"),
    Way("native-boundary", "refined, run at a training mesh", "native", view=_BOUNDARY),
)


def _on(problem: str, operator: str) -> Variant:
    on_mesh = variant(
        problem,
        operator,
        _METHODS,
        32,
        (32, 64, 128),
        Desk(epochs=27, train=400, coarsen=2, width=0.5),
        name=f"{operator}, {problem.removesuffix('-mesh')}",
        problem_params={"modes": 4},  # every mesh resolves the forcing: what changes between meshes is the sums
    )
    # Small samples allow small batches, so more steps for the same cost; and these are longer than the paper's.
    return replace(on_mesh, budget=replace(on_mesh.budget, batch=10, lr=LEARNING_RATE))


STUDIES = (
    Study(
        name="mesh-transfer",
        title="Counting vertices or control volumes: from uniform meshes to finer and boundary-refined ones",
        theme="ours",
        variants=tuple(
            _on(problem, operator)
            for problem in ("poisson-mesh", "elasticity-mesh")
            for operator in ("transolver", "galerkin")
        ),
        seeds=seeds(5),
        evaluations=ON_MESHES,
        metric="weighted",
        notes=(
            "n² is the number of vertices. Every sample has a mesh of its own, in training and in the test; all models "
            "are trained on uniform meshes, and all meshes see the same instances.",
            "Errors are weighted by control volumes: the L² norm of the domain, not of the vertices.",
            f"Batches of 10 and a learning rate of {LEARNING_RATE:g}, not the paper's 20 and 3e-4: small presets are "
            "short, and a model that has not learned does not show what a mesh does.",
            "Interpolated: the input is carried to a uniform mesh of the training size, and the output back, "
            "linearly on triangles. What that loses is in its error.",
        ),
    ),
)
