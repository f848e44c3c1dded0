"""Classifies the strikes of a web page's table as they are read, by a feed behind a gateway.

    python3 examples/naivebayes/page.py http://127.0.0.1:8080 examples/naivebayes/strikes.html
"""

import html.parser
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent.parent / "python"))

from stint_client import Feed  # noqa: E402


class Table(html.parser.HTMLParser):
    """The rows of a page's table, as they are complete: dicts by the names of the head."""

    def __init__(self):
        super().__init__()
        self.names, self.row, self.cell, self.rows = [], [], None, []

    def handle_starttag(self, tag, _attributes):
        if tag == "tr":
            self.row = []
        elif tag in ("th", "td"):
            self.cell = ""

    def handle_data(self, data):
        if self.cell is not None:
            self.cell += data

    def handle_endtag(self, tag):
        if tag in ("th", "td"):
            (self.names if tag == "th" else self.row).append(self.cell.strip())
            self.cell = None
        elif tag == "tr" and self.row:
            self.rows.append(dict(zip(self.names, self.row)))


def strikes(path):
    """Yields the rows while the page is read."""
    table = Table()
    with open(path, encoding="utf-8") as page:
        for line in page:
            table.feed(line)
            while table.rows:
                yield table.rows.pop(0)


def main():
    url, path = sys.argv[1:]
    for strike, found in Feed(url, "strikes").stream(strikes(path), with_items=True):
        print("%s  %-28s %-12s %s %.3f" % (
            strike["Flight Date"], strike["Wildlife Species"], strike["Phase of flight"], found["predicted"], found["p"]))


if __name__ == "__main__":
    main()
