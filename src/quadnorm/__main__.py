"""``quadnorm`` and ``python -m quadnorm``."""

import ctypes
import os
import sys

_TRIM, _MAP = (-1, "MALLOC_TRIM_THRESHOLD_", 2**31 - 1), (-3, "MALLOC_MMAP_THRESHOLD_", 2**25)  # of malloc.h


def wait_briefly() -> None:
    """Let OpenMP's threads spin for a moment where they wait for each other, and then sleep.

    PyTorch's matrix products and our CPU kernel share the GNU runtime, whose threads spin by default. On a machine that
    is busy otherwise a thread then burns the time slice that the one it waits for needs, and a training step takes ten
    times as long or more. Threads that sleep at once make a step half as long again on an idle machine. Read once, when
    PyTorch is first imported; whoever has set a policy keeps it.
    """
    if not {"OMP_WAIT_POLICY", "GOMP_SPINCOUNT", "KMP_BLOCKTIME"} & os.environ.keys():
        os.environ["GOMP_SPINCOUNT"] = "2000"


def keep_memory() -> None:
    """Let the C library keep freed blocks of up to 32 MiB, 2 GiB in all, instead of giving them back to the system.

    A training step allocates and frees the same fields again and again. By default glibc gives many of them back, and
    the system has to clear every page when it hands it out again: a tenth of a step's time, or none of it, as it comes.
    Holds in this process and in those that it starts; whoever has set a policy keeps it, and other C libraries theirs.
    """
    if "GLIBC_TUNABLES" in os.environ or any(name.startswith("MALLOC_") for name in os.environ):
        return
    try:
        set_option = ctypes.CDLL("libc.so.6").mallopt
    except (OSError, AttributeError):
        return
    for option, name, size in (_TRIM, _MAP):
        set_option(option, size)
        os.environ[name] = str(size)


def main() -> int:
    """Run the command line; the exit code is 2 for anything the user can put right."""
    from quadnorm._extras import missing_module

    wait_briefly()
    keep_memory()
    try:
        from quadnorm.cli.app import run
    except ModuleNotFoundError as missing:
        advice = missing_module(missing)
        if advice is None:
            raise
        print(f"quadnorm: {advice}", file=sys.stderr)
        return 2
    return run(sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())
