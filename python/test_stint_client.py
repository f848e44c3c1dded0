"""Tests of stint_client against a gateway that is simulated."""

import http.server
import itertools
import json
import threading
import unittest

import stint_client
from stint_client import Feed


class Gateway(http.server.BaseHTTPRequestHandler):
    """Doubles numbers; 7 fails, 8 is dropped, and a text is answered with the error of that name."""

    protocol_version = "HTTP/1.1"
    seen = []

    def log_message(self, *_):
        pass

    def lines(self):
        """The lines of the body, as they come."""
        if self.headers.get("Transfer-Encoding") != "chunked":
            yield from self.rfile.read(int(self.headers.get("Content-Length", 0))).splitlines()
            return
        while True:
            head = self.rfile.readline()
            if not head:
                return  # the client has left
            size = int(head, 16)
            data = self.rfile.read(size)
            self.rfile.readline()
            if size == 0:
                return
            yield data.strip()

    def answer(self, status, value):
        body = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def fail(self, kind, status=409, **more):
        self.answer(status, {"error": {"type": kind, "message": "it is " + kind, **more}})

    def do_GET(self):
        path, _, query = self.path.partition("?")
        if path.endswith("/results"):
            self.seen.append(("results", query))
            if "cursor=gone" in query:
                return self.fail("StoredError", 410)
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b'{"result":null,"cursor":"0.0.1"}\n\n{"result":{"a":1},"cursor":"0.0.2"}\n')
            if "follow=true" in query:
                self.wfile.write(b'{"error":{"type":"StoppedError","message":"it has been stopped"}}\n')
            self.close_connection = True
            return None
        self.answer(200, {"backlog": 3, "idle": False})

    def do_POST(self):
        path, _, query = self.path.partition("?")
        name, verb = path.split("/")[-2:]
        self.seen.append((name, verb, query, self.headers.get("Authorization"), self.headers.get("Content-Type")))
        if name == "shut":
            list(self.lines())
            return self.fail("ClosedError")
        if verb == "put":
            lines = list(self.lines())
            if name == "small" and len(lines) < stint_client.MAX_ITEMS:
                return self.fail("FullError", 429, capacity=5)
            return self.answer(200, {"accepted": len(lines)})
        if verb in ("reset", "close"):
            return self.answer(200, {"session": 2, "discarded": 4})
        if self.headers["Content-Type"] == "application/json":
            item = json.loads(next(iter(self.lines())))
            if isinstance(item, str):
                return self.fail(item)
            return self.answer(200, 2 * item)
        self.send_response(200)
        self.send_header("Connection", "close")
        self.end_headers()
        for index, line in enumerate(self.lines()):
            item = json.loads(line)
            out = {"index": index, "item": 100 + index}
            if item == 7:
                out["error"] = {"kind": "error", "type": "ValueError", "message": "no sevens"}
            elif item == 8:
                out["dropped"] = True
            elif item == "end":
                out = {"error": {"type": "StoppedError", "message": "it is stopping"}}
            else:
                out["result"] = 2 * item
            self.wfile.write(json.dumps(out).encode() + b"\n")
            self.wfile.flush()
        self.close_connection = True


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request, client_address):
        pass  # clients leave early


class FeedTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = Server(("127.0.0.1", 0), Gateway)
        threading.Thread(target=cls.server.serve_forever, daemon=True).start()
        cls.url = "http://127.0.0.1:%d" % cls.server.server_port

    @classmethod
    def tearDownClass(cls):
        cls.server.shutdown()
        cls.server.server_close()

    def test_put(self):
        feed = Feed(self.url, "risk", token="secret")
        self.assertEqual(feed.put(1, {"a": None}, wait=1.5), 2)
        self.assertEqual(Gateway.seen[-1], ("risk", "put", "wait=1500ms", "Bearer secret", "application/x-ndjson"))
        self.assertEqual(feed.put(), 0)
        self.assertEqual(feed.put(*range(2500)), 2500)

    def test_put_in_part(self):
        with self.assertRaises(stint_client.FullError) as caught:
            Feed(self.url, "small").put(*range(1001))
        self.assertEqual(caught.exception.accepted, 1000)
        self.assertEqual(caught.exception.detail["capacity"], 5)

    def test_call(self):
        feed = Feed(self.url, "risk")
        self.assertEqual(feed.call(21), 42)
        for name in ("FullError", "StoppedError", "TimeoutError", "UnservedError", "ItemError", "DroppedError", "NotFeedError"):
            with self.assertRaises(getattr(stint_client, name)):
                feed.call(name)
        with self.assertRaises(TimeoutError):  # Python's own, too
            feed.call("TimeoutError")
        with self.assertRaises(stint_client.FeedError):
            feed.call("an error of the future")

    def test_stream(self):
        feed = Feed(self.url, "risk")
        self.assertEqual(list(feed.stream(i for i in range(1000) if i not in (7, 8))), [2 * i for i in range(1000) if i not in (7, 8)])
        self.assertEqual(list(feed.stream([1, 2], with_items=True)), [(1, 2), (2, 4)])
        self.assertEqual(list(feed.stream([])), [])

    def test_stream_errors(self):
        feed = Feed(self.url, "risk")
        got = []
        with self.assertRaises(stint_client.ItemError) as caught:
            for result in feed.stream([1, 7, 2]):
                got.append(result)
        self.assertEqual(got, [2])
        self.assertEqual(caught.exception.detail["item"], 101)
        one, error, drop, two = feed.stream([1, 7, 8, 2], errors="yield")
        self.assertEqual((one, two), (2, 4))
        self.assertIsInstance(error, stint_client.ItemError)
        self.assertIsInstance(drop, stint_client.DroppedError)
        with self.assertRaises(stint_client.StoppedError):
            list(feed.stream([1, "end", 2], errors="yield"))
        with self.assertRaises(stint_client.ClosedError):
            list(Feed(self.url, "shut").stream([1]))
        with self.assertRaises(stint_client.InvalidRequestError):
            feed.stream([], errors="ignore")

    def test_stream_left_early(self):
        taken = []
        items = itertools.count()
        stream = Feed(self.url, "risk").stream((taken.append(i) or 1 for i in items))
        self.assertEqual(list(itertools.islice(stream, 34)), [2] * 34)
        stream.close()
        before = len(taken)
        self.assertLess(next(items) - before, 2, "nothing is taken any more")

    def test_stream_of_bad_items(self):
        def items():
            yield 1
            raise KeyError("of the items")

        with self.assertRaises(KeyError):
            list(Feed(self.url, "risk").stream(items()))
        with self.assertRaises(stint_client.InvalidItemError):
            list(Feed(self.url, "risk").stream([float("nan")]))

    def test_others(self):
        feed = Feed(self.url + "/", "risk")
        self.assertEqual(feed.state()["backlog"], 3)
        self.assertEqual(feed.reset(), {"session": 2, "discarded": 4})
        feed.close()
        feed.close()
        with self.assertRaises(stint_client.ClosedError):
            Feed(self.url, "shut").close()

    def test_results(self):
        feed = Feed(self.url, "risk")
        self.assertEqual(list(feed.results(session=2, cursor="2.0.0", follow=False)), [(None, "0.0.1"), ({"a": 1}, "0.0.2")])
        self.assertIn(("results", "follow=false&session=2&cursor=2.0.0"), Gateway.seen)
        following = feed.results()
        self.assertEqual([next(following), next(following)], [(None, "0.0.1"), ({"a": 1}, "0.0.2")])
        with self.assertRaises(stint_client.StoppedError):
            next(following)
        with self.assertRaises(stint_client.StoredError):
            list(feed.results(cursor="gone"))
        with self.assertRaises(stint_client.UnavailableError):
            list(Feed("http://127.0.0.1:1", "risk").results())

    def test_invalid(self):
        feed = Feed(self.url, "risk")
        for item in (float("inf"), {1, 2}, object()):
            with self.assertRaises(stint_client.InvalidItemError):
                feed.call(item)
            with self.assertRaises(ValueError):
                feed.put(1, item)
        for url in ("", "127.0.0.1:8080", "ftp://x"):
            with self.assertRaises(stint_client.InvalidRequestError):
                Feed(url, "risk")
        with self.assertRaises(stint_client.UnavailableError):
            Feed("http://127.0.0.1:1", "risk").state()


if __name__ == "__main__":
    unittest.main()
