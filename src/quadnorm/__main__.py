"""``quadnorm`` and ``python -m quadnorm``."""

import sys


def main() -> int:
    """Run the command line; the exit code is 2 for anything the user can put right."""
    try:
        from quadnorm.cli.app import run
    except ModuleNotFoundError as missing:
        if missing.name not in ("typer", "rich", "click"):
            raise
        print(f"the command line needs {missing.name}: pip install 'quadnorm[bench]'", file=sys.stderr)
        return 2
    return run(sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())
