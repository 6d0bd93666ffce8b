"""`python -m gspn.web`: the what-if page from the command line."""

from __future__ import annotations

import argparse
import sys

from gspn.errors import GSPNError


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m gspn.web", description="Show the what-if page in a browser.")
    parser.add_argument("model", nargs="?", help="folder of a saved model (default: the page's own)")
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on (default: %(default)s)")
    parser.add_argument("--port", type=int, help="port to listen on (default: 8000, or a free one)")
    parser.add_argument("--no-browser", action="store_true", help="only say where the page is")
    options = parser.parse_args(arguments)
    try:
        from gspn.web import serve

        serve(options.model, host=options.host, port=options.port, open_browser=not options.no_browser)
    except GSPNError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
