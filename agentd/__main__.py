"""The program `agentd`, and `python -m agentd`: as little as possible before Ctrl-C is understood."""

from __future__ import annotations

import sys

INTERRUPTED = 130


def main() -> None:
    """Run the command line; whoever changes their mind while it is still being loaded reads no traceback."""
    try:
        from agentd.cli import main as run

        run()
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)  # noqa: T201 - click may not be loaded
        sys.exit(INTERRUPTED)


if __name__ == "__main__":
    main()
