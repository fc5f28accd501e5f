"""What is raised where a model's calls cannot be followed, and errors of models in one line."""


class CannotFollowError(RuntimeError):
    """The model does not run, or not in the same way, on grids other than its training grid."""


class OutOfStepError(CannotFollowError):
    """The model makes other calls than when it was looked at."""


def first_line(error: Exception) -> str:
    r"""The kind of an error and the first line of its message.

    >>> first_line(ValueError("too long\nby far"))
    'ValueError: too long'
    """
    return f"{type(error).__name__}: {error}".splitlines()[0]
