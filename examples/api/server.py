"""An API that takes so many requests a second and answers 429 Too Many Requests to all others.

    python3 examples/api/server.py [PORT [REQUESTS_A_SECOND]]

GET /hemisphere?lat=…&lon=… answers with JSON. POST /hemisphere takes an earthquake, or a list of them, from whoever has
a key ("Authorization: Bearer …", any will do), and answers with an object for each. GET /counts says how many requests were answered, and how many refused.
Port 0 takes a free one. Once it listens, its address is printed.
"""

import json
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlparse


class Limit:
    """So many a second: a bucket that holds one second's worth."""

    def __init__(self, rate):
        self.rate, self.left, self.at = rate, float(rate), time.monotonic()
        self.counts = {"answered": 0, "refused": 0}
        self.lock = threading.Lock()

    def take(self):
        with self.lock:
            now = time.monotonic()
            self.left = min(self.rate, self.left + (now - self.at) * self.rate)
            self.at = now
            allowed = self.left >= 1
            if allowed:
                self.left -= 1
            self.counts["answered" if allowed else "refused"] += 1
            return allowed


def hemisphere(lat, lon):
    return {"ns": "north" if lat >= 0 else "south", "ew": "east" if lon >= 0 else "west"}


def of(quake):
    lon, lat = quake["geometry"]["coordinates"][:2]
    return {"id": quake["id"], **hemisphere(lat, lon)}


class Handler(BaseHTTPRequestHandler):
    limit = None
    protocol_version = "HTTP/1.1"  # connections are kept

    def do_GET(self):
        url = urlparse(self.path)
        if url.path == "/counts":
            return self.answer(200, self.limit.counts)
        if not self.limit.take():
            return self.answer(429, {"error": "too many requests"}, {"Retry-After": "1"})
        query = parse_qs(url.query)
        self.answer(200, hemisphere(float(query["lat"][0]), float(query["lon"][0])))

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if not self.headers.get("Authorization", "").startswith("Bearer "):
            return self.answer(401, {"error": "no key"})
        if not self.limit.take():
            return self.answer(429, {"error": "too many requests"}, {"Retry-After": "1"})
        self.answer(200, [of(quake) for quake in body] if isinstance(body, list) else of(body))

    def answer(self, status, value, headers={}):
        body = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        for name, text in headers.items():
            self.send_header(name, text)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args):
        pass


if __name__ == "__main__":
    port = int(sys.argv[1]) if len(sys.argv) > 1 else 8429
    Handler.limit = Limit(int(sys.argv[2]) if len(sys.argv) > 2 else 200)
    server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
    print(f"http://127.0.0.1:{server.server_address[1]}", flush=True)
    server.serve_forever()
