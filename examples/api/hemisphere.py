"""Asks an API about each earthquake: in which half of the world was it?

A serve program. If the API answers 429 Too Many Requests, the item has not failed: it comes again. If many requests are
refused, nothing more is begun for as long as the API says, and the whole job slows down.

    python3 examples/api/hemisphere.py http://127.0.0.1:8429
"""

import json
import sys
import urllib.error
import urllib.request
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent.parent / "python"))

import stint  # noqa: E402


def hemisphere(quake):
    lon, lat = quake["geometry"]["coordinates"][:2]
    try:
        with stint.expires(30):  # the API hangs: this process is replaced, and the item comes again
            with urllib.request.urlopen(f"{API}/hemisphere?lat={lat}&lon={lon}", timeout=20) as answer:
                return {"id": quake["id"], **json.load(answer)}
    except urllib.error.HTTPError as error:
        if error.code == 429:
            raise stint.SlowDown(float(error.headers.get("Retry-After", 1))) from error
        raise  # this item has failed


if __name__ == "__main__":
    API = sys.argv[1]
    stint.serve(hemisphere)
