"""What is raised where a model's calls cannot be followed."""


class CannotFollowError(RuntimeError):
    """The model does not run, or not in the same way, on grids other than its training grid."""


class OutOfStepError(CannotFollowError):
    """The model makes other calls than when it was looked at."""
