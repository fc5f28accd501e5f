"""The words of reports, pages and commands: printed at the end of every report, and the site's glossary."""

from quadnorm._ways import ANCHORED, WAYS, Wording

_REMARKS = {
    ANCHORED: " What is anchored is a measure, to a grid: this has nothing to do with the anchor tokens of AB-UPT, a "
    "subset of points that all others attend to; of ours, extending a cloud of points is nearest to those."
}


def _described(word: str, way: Wording) -> str:
    """What a way does, its function and its word on the command line."""
    text = f"{way.does[0].upper()}{way.does[1:]}. "
    if way.function:
        text += f"No retraining. qn.{way.function}, "
    return f"{text}--how {word}.{_REMARKS.get(way.title, '')}"


GLOSSARY: dict[str, str] = {
    "grid, 64²": "Samples per axis. A model is trained at one grid (or a few) and tested at these and at others.",
    "training grid, native": "The grid that the model was trained on.",
    "sample, node": "One of the points at which a field is known. Training samples, in data sets, are whole fields.",
    "placement": "Where the samples of an axis lie: endpoint, cell, periodic, left or interior.",
    "measure": "What a sum over space is taken against: one weight per sample, which add up to 1. Counting gives every "
    "sample the same weight; quadrature gives it its share of the domain.",
    **{way.title: _described(word, way) for word, way in WAYS.items()},
    "LayerNorm, InstanceNorm, …": "Norms whose means weigh all samples equally, whatever their share of the domain.",
    "QuadNorm": "The paper's norm: means are integrals, every sample weighted by its share of the domain.",
    "BlendQuadNorm": "The paper's compromise: α = 0.3 of counting and 0.7 of the integral.",
    "relative L² error": "‖prediction − truth‖ / ‖truth‖ of a test instance, averaged over the test set, in per cent.",
    "degradation": "The error at another grid minus that at the training grid, in points; in brackets the factor "
    "between them.",
    "drift": "How far a model's output on another grid is from its output at the training grid, at shared points. "
    "No error: for that one needs targets.",
    "leak": "The part of the drift that an operation causes because its sum depends on the grid.",
    "seed": "One training run's random numbers. Methods of a study share seeds, so that their runs form pairs.",
    "± (95 % confidence interval)": "Student's interval of the mean over seeds; in some tables, as in the paper, the "
    "standard deviation instead (the caption says which).",
    "p": "Paired t-test against LayerNorm over the seeds that both have, corrected for multiple tests (Holm). Below "
    "0.05: such a difference rarely occurs by chance.",
    "bold": "The smallest error of a column, and those that a paired t-test does not distinguish from it.",
    "improvement": "1 − error/error of LayerNorm, with a bootstrap interval over seeds.",
    "Cohen's d": "Difference of the means in units of the spread over seeds: below 0.2 negligible, below 0.5 small, "
    "below 0.8 medium, else large.",
    "preset": "smoke: seconds, learns nothing. desk: minutes on two cores, coarser grids and smaller models. paper: "
    "the paper's budget.",
    "reproduced, partly, contradicted": "Reproduced: the claimed direction, an interval that excludes zero, and at "
    "least half the claimed size. Contradicted: no such effect, and an interval that excludes half the size. Partly: "
    "anything between.",
}
