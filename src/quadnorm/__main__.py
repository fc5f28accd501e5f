"""``quadnorm`` and ``python -m quadnorm``."""

import sys


def main() -> int:
    """Run the command line; the exit code is 2 for anything the user can put right."""
    from quadnorm._extras import missing_module

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
