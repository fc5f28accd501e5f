"""``quadnorm`` and ``python -m quadnorm``."""

import os
import signal
import sys
from types import FrameType

from quadnorm._memory import keep_memory


def wait_briefly() -> None:
    """Let OpenMP's threads spin for a moment where they wait for each other, and then sleep.

    PyTorch's matrix products and our CPU kernel share the GNU runtime, whose threads spin by default. On a machine that
    is busy otherwise a thread then burns the time slice that the one it waits for needs, and a training step takes ten
    times as long or more. Threads that sleep at once make a step half as long again on an idle machine. Read once, when
    PyTorch is first imported; whoever has set a policy keeps it.
    """
    if not {"OMP_WAIT_POLICY", "GOMP_SPINCOUNT", "KMP_BLOCKTIME"} & os.environ.keys():
        os.environ["GOMP_SPINCOUNT"] = "2000"


def main() -> int:
    """Run the command line and nothing after it; the exit code is 2 for anything the user can put right."""
    # Python's own answer to Ctrl-C is a traceback, also while modules are loaded and after the last line was printed.
    heard = signal.getsignal(signal.SIGINT) is signal.default_int_handler  # not where a shell's & has it ignored
    if heard:
        signal.signal(signal.SIGINT, _end)
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
    try:
        if heard:
            signal.signal(signal.SIGINT, signal.default_int_handler)
        return run(sys.argv[1:])
    except KeyboardInterrupt:  # right before the command or right after it
        return 130
    finally:
        if heard:
            signal.signal(signal.SIGINT, signal.SIG_IGN)


def _end(number: int, frame: FrameType | None) -> None:
    """End while nothing has begun that would have to be put in order."""
    os.write(2, b"quadnorm: interrupted\n")
    os._exit(130)


if __name__ == "__main__":
    sys.exit(main())
