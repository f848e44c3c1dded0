"""Tests of stint_client against a gateway that is simulated."""

import http.client
import http.server
import itertools
import json
import socket
import socketserver
import threading
import unittest
from unittest import mock

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


LIMIT = 10  # seconds: of waiting for what happens at once


class Wire(socketserver.StreamRequestHandler):
    """A request to a gateway that answers in chunks, as the real one does, and dies where its test's script ends."""

    def handle(self):
        self.connection.settimeout(LIMIT)
        self.head = b"".join(iter(self.rfile.readline, b"\r\n"))
        self.server.script(self)

    def body(self):
        """The whole body of known length."""
        for line in self.head.splitlines():
            name, _, value = line.partition(b":")
            if name.lower() == b"content-length":
                return self.rfile.read(int(value))
        return b""

    def items(self):
        """The items of a body in chunks, as they come."""
        while True:
            size = int(self.rfile.readline(), 16)
            data = self.rfile.read(size)
            self.rfile.readline()
            if size == 0:
                return
            yield json.loads(data)

    def answer(self, status, text):
        self.wfile.write(b"HTTP/1.1 %d X\r\nContent-Length: %d\r\n\r\n%s" % (status, len(text), text))

    def begin(self):
        self.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/x-ndjson\r\nTransfer-Encoding: chunked\r\n\r\n")

    def chunk(self, data):
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))

    def line(self, **value):
        self.chunk(json.dumps(value).encode() + b"\n")

    def end(self):
        self.wfile.write(b"0\r\n\r\n")


class WireServer(socketserver.ThreadingTCPServer):
    daemon_threads = True

    def handle_error(self, request, client_address):
        pass  # clients leave early


class WireTest(unittest.TestCase):
    """What the client makes of a gateway that answers, dies, and is slow, as scripts say."""

    def feed(self, script, **options):
        """A feed behind a gateway that runs a script for each request."""
        server = WireServer(("127.0.0.1", 0), Wire)
        server.script = script
        server.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)
        return Feed("http://127.0.0.1:%d" % server.server_address[1], "risk", **options)

    def drain(self, results, kind):
        """Takes all results, which end with an error of that class, and returns both."""
        got = []
        with self.assertRaises(kind) as caught:
            for result in results:
                got.append(result)
        return got, caught.exception

    def watch(self, name, times=5):
        """An event that is set when a method of sockets, send or recv_into, has had to wait so many times."""
        late, method, waits = threading.Event(), getattr(socket.socket, name), itertools.count(1)

        def call(*args):
            try:
                return method(*args)
            except (BlockingIOError, socket.timeout):
                if next(waits) == times:
                    late.set()
                raise

        for patch in (mock.patch.object(socket.socket, name, call), mock.patch.object(stint_client, "LOOK_EVERY", 0.05)):
            patch.start()
            self.addCleanup(patch.stop)
        return late

    def test_results(self):
        def script(wire):
            wire.begin()
            wire.chunk(b"\n")
            wire.chunk(b'{"result":1,')
            wire.chunk(b'"cursor":"a"}\n{"result":2,"cursor":"b"}\n{"res')
            wire.chunk(b'ult":3,"cursor":"c"}\n')
            wire.end()

        self.assertEqual(list(self.feed(script).results()), [(1, "a"), (2, "b"), (3, "c")])

    def test_results_that_break_off(self):
        """A gateway that dies is not the end of the results, wherever it dies."""
        for rest in (b"", b"1", b"5\r\n", b'f\r\n{"result"', b'8\r\n{"result\r\n'):
            def script(wire, rest=rest):
                wire.begin()
                wire.line(result=1, cursor="a")
                wire.wfile.write(rest)

            with self.subTest(rest=rest):
                got, _ = self.drain(self.feed(script).results(), stint_client.UnavailableError)
                self.assertEqual(got, [(1, "a")])

        def short(wire):
            wire.wfile.write(b'HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{"result":1,"cursor":"a"}\n')

        got, _ = self.drain(self.feed(short).results(), stint_client.UnavailableError)
        self.assertEqual(got, [(1, "a")])

    def test_results_that_are_not_valid(self):
        def script(wire):
            wire.begin()
            wire.chunk(b"<html>\n")
            wire.end()

        self.drain(self.feed(script).results(), stint_client.UnavailableError)

    def test_stream_that_breaks_off(self):
        def script(wire):
            items = wire.items()
            wire.begin()
            wire.line(index=0, item=0, result=2 * next(items))
            list(items)

        got, _ = self.drain(self.feed(script).stream([1, 2, 3]), stint_client.UncertainError)
        self.assertEqual(got, [2])

    def test_stream_without_an_answer(self):
        self.drain(self.feed(lambda wire: list(wire.items())).stream([1]), stint_client.UncertainError)
        self.drain(self.feed(lambda wire: list(wire.items())).stream([]), stint_client.UnavailableError)

    def test_stream_with_all_outcomes(self):
        """The answer has no end, but no item is in doubt."""
        def script(wire):
            wire.begin()
            for index, item in enumerate(wire.items()):
                wire.line(index=index, item=index, result=2 * item)

        got, _ = self.drain(self.feed(script).stream([1, 2]), stint_client.UnavailableError)
        self.assertEqual(got, [2, 4])

    def test_stream_with_too_few_outcomes(self):
        def script(wire):
            items = list(wire.items())
            wire.begin()
            for index, item in enumerate(items[:2]):
                wire.line(index=index, item=index, result=2 * item)
            wire.end()

        got, _ = self.drain(self.feed(script).stream([1, 2, 3]), stint_client.UncertainError)
        self.assertEqual(got, [2, 4])

    def test_stream_that_the_gateway_ends(self):
        """A gateway that ends is unavailable. Of items in hand it does not know more."""
        for in_hand, kind in ((1, stint_client.UncertainError), (0, stint_client.UnavailableError)):
            def script(wire, in_hand=in_hand):
                items = list(wire.items())
                wire.begin()
                for index, item in enumerate(items[:len(items) - in_hand]):
                    wire.line(index=index, item=index, result=2 * item)
                wire.line(error={"type": "UnavailableError", "message": "the gateway is ending"})
                wire.end()

            with self.subTest(in_hand=in_hand):
                got, _ = self.drain(self.feed(script).stream([1, 2, 3]), kind)
                self.assertEqual(got, [2, 4, 6][:3 - in_hand])

        def unknown(wire):
            list(wire.items())
            wire.answer(502, b'{"error":{"type":"UnavailableError","message":"the server does not answer"}}')

        self.drain(self.feed(unknown).stream([1]), stint_client.UnavailableError)

    def test_stream_that_is_late(self):
        def script(wire):
            list(wire.items())
            wire.begin()
            wire.line(error={"type": "TimeoutError", "message": "no outcome within 1s"})
            wire.end()

        self.drain(self.feed(script).stream([1]), stint_client.TimeoutError)

    def test_stream_of_a_mute_gateway(self):
        ended = threading.Event()
        self.addCleanup(ended.set)

        def script(wire):
            list(wire.items())
            ended.wait(LIMIT)

        with mock.patch.object(stint_client, "SERVER_PATIENCE", 0):
            self.drain(self.feed(script, connect=0.05).stream([1], timeout=0.05), stint_client.UncertainError)

    def test_stream_that_is_taken_slowly(self):
        """A gateway that does not read for longer than `connect` and `timeout` ends nothing."""
        late = self.watch("send")

        def script(wire):
            if not late.wait(LIMIT):
                return
            wire.begin()
            for index, item in enumerate(wire.items()):
                wire.line(index=index, item=index, result=len(item))
            wire.end()

        feed = self.feed(script, connect=0.05)
        self.assertEqual(list(feed.stream(("x" * 500_000 for _ in range(30)), timeout=0.05)), [500_000] * 30)

    def test_stream_that_is_given_slowly(self):
        """Items that do not come for longer than `connect` and `timeout` end nothing."""
        late = self.watch("recv_into")

        def items():
            yield 1
            late.wait(LIMIT)
            yield 2

        def script(wire):
            wire.begin()
            for index, item in enumerate(wire.items()):
                wire.line(index=index, item=index, result=2 * item)
            wire.end()

        self.assertEqual(list(self.feed(script, connect=0.05).stream(items(), timeout=0.05)), [2, 4])

    def test_stream_that_cannot_be_sent(self):
        """The error of sending is the reader's. So is the answer of a gateway that does not read on."""
        def script(wire):
            next(wire.items())

        _, err = self.drain(self.feed(script).stream(itertools.repeat("x" * 100_000)), stint_client.UncertainError)
        self.assertIsInstance(err.__cause__, (OSError, http.client.HTTPException))

    def test_stream_that_is_refused(self):
        """The answer counts, whether items are under way or have not come yet."""
        answered = threading.Event()
        self.addCleanup(answered.set)

        def script(wire):
            wire.answer(401, b'{"error":{"type":"UnauthorizedError","message":"wrong token"}}')
            for _ in wire.items():
                pass

        def items():
            answered.wait(LIMIT)
            yield 1

        self.drain(self.feed(script).stream(itertools.repeat("x" * 1000)), stint_client.UnauthorizedError)
        self.drain(self.feed(script).stream(items()), stint_client.UnauthorizedError)
        self.assertFalse(answered.is_set())

    def test_stream_left_while_it_is_sent(self):
        late, ended, senders = self.watch("send"), threading.Event(), []
        self.addCleanup(ended.set)

        def items():
            senders.append(threading.current_thread())
            yield from itertools.repeat("x" * 500_000)

        def script(wire):
            taken = wire.items()
            next(taken)  # and no other
            wire.begin()
            wire.line(index=0, item=0, result=1)
            ended.wait(LIMIT)

        stream = self.feed(script, connect=0.05).stream(items())
        self.assertEqual(next(stream), 1)
        self.assertTrue(late.wait(LIMIT))
        stream.close()
        senders[0].join(LIMIT)
        self.assertFalse(senders[0].is_alive())

    def test_stream_uses_its_connection_thread_by_thread(self):
        """TLS needs that: a connection that sends and receives at once sends what the other side cannot decrypt."""
        using, overlaps = threading.Lock(), []

        def alone(method):
            def call(sock, *args):
                if sock.gettimeout() != 0:
                    return method(sock, *args)  # the gateway's
                if not using.acquire(blocking=False):
                    overlaps.append(method)
                    return method(sock, *args)
                try:
                    return method(sock, *args)
                finally:
                    using.release()
            return call

        def script(wire):
            wire.begin()
            for index, item in enumerate(wire.items()):
                wire.line(index=index, item=index, result=item)
            wire.end()

        for name in ("send", "recv_into"):
            patch = mock.patch.object(socket.socket, name, alone(getattr(socket.socket, name)))
            patch.start()
            self.addCleanup(patch.stop)
        self.assertEqual(sum(1 for _ in self.feed(script).stream(range(2000))), 2000)
        self.assertEqual(overlaps, [])

    def doubling(self, wire):
        """Answers only once it has all items, so that all of them are under way."""
        items = list(wire.items())
        wire.begin()
        for index, item in enumerate(items):
            wire.line(index=index, item=index, result=2 * item)
        wire.end()

    def test_bad_items(self):
        """Their errors are at their places, and what is under way is not lost."""
        loop = []
        loop.append(loop)
        for bad, kind in (
            (float("nan"), stint_client.InvalidItemError), ({1}, stint_client.InvalidItemError), (loop, stint_client.InvalidItemError),
            ("x" * stint_client.MAX_BYTES, stint_client.TooLargeError),
        ):
            with self.subTest(kind=kind):
                got, _ = self.drain(self.feed(self.doubling).stream([1, 2, bad, 3]), kind)
                self.assertEqual(got, [2, 4])
                *pairs, last = self.feed(self.doubling).stream([bad, 1, bad, bad, 2, bad], errors="yield", with_items=True)
                pairs.append(last)
                self.assertEqual([type(result) for _, result in pairs], [kind, int, kind, kind, int, kind])
                self.assertEqual([pairs[1], pairs[4]], [(1, 2), (2, 4)])
                self.assertTrue(all(item is bad for item, result in pairs if isinstance(result, kind)))

    def test_bad_items_alone(self):
        """They are as lazy as others."""
        taken = []

        def items():
            for i in itertools.count():
                taken.append(i)
                yield float("nan")

        stream = self.feed(self.doubling).stream(items(), errors="yield")
        self.assertEqual([type(err) for err in itertools.islice(stream, 200)], [stint_client.InvalidItemError] * 200)
        self.assertLessEqual(len(taken), 200 + stint_client.MAX_REFUSED + 1)
        stream.close()

    def test_a_bad_item_does_not_wait_for_the_next(self):
        seen = threading.Event()

        def items():
            yield float("nan")
            seen.wait(LIMIT)
            yield 1 if seen.is_set() else 0

        stream = self.feed(self.doubling).stream(items(), errors="yield")
        self.assertIsInstance(next(stream), stint_client.InvalidItemError)
        seen.set()
        self.assertEqual(list(stream), [2])

    def test_items_that_fail(self):
        """Their error comes after the outcomes of what was given before, whatever it is."""
        for failure in (KeyError("of the items"), FileNotFoundError("of the items"), SystemExit(3)):
            for errors in ("raise", "yield"):
                def items(failure=failure):
                    yield 1
                    yield 2
                    raise failure

                got = []
                with self.subTest(failure=failure, errors=errors), self.assertRaises(type(failure)) as caught:
                    for result in self.feed(self.doubling).stream(items(), errors=errors):
                        got.append(result)
                self.assertIs(caught.exception, failure)
                self.assertEqual(got, [2, 4])

    def test_types_of_item_errors(self):
        """The type counts if the error is not the handler's."""
        errors = [
            ({"kind": "refused", "type": "TooLargeError"}, stint_client.TooLargeError),
            ({"kind": "refused", "type": "InvalidItemError"}, stint_client.InvalidItemError),
            ({"kind": "refused", "type": "of the future"}, stint_client.InvalidItemError),
            ({"kind": "discarded", "type": "DiscardedError"}, stint_client.DiscardedError),
            ({"kind": "stored", "type": "StoredError"}, stint_client.StoredError),
            ({"kind": "decode", "type": "DecodeError"}, stint_client.DecodeError),
            ({"kind": "error", "type": "TimeoutError"}, stint_client.ItemError),
            ({"kind": "exit"}, stint_client.ItemError),
        ]

        def script(wire):
            list(wire.items())
            wire.begin()
            for index, (error, _) in enumerate(errors):
                wire.line(index=index, error={**error, "message": "it failed"})
            wire.end()

        got = list(self.feed(script).stream(range(len(errors)), errors="yield"))
        self.assertEqual([type(err) for err in got], [kind for _, kind in errors])
        self.assertEqual(got[0].detail["type"], "TooLargeError")

    def test_requests_without_an_answer(self):
        feed = self.feed(lambda wire: wire.body())
        for ask in (lambda: feed.put(1), lambda: feed.call(1), feed.reset):
            with self.assertRaises(stint_client.UncertainError):
                ask()
        for ask in (feed.state, feed.close, lambda: list(feed.results())):
            with self.assertRaises(stint_client.UnavailableError):
                ask()

    def test_requests_that_were_not_carried_out(self):
        gone = Feed("http://127.0.0.1:1", "risk")
        for ask in (lambda: gone.put(1), lambda: gone.call(1), gone.reset, gone.close, gone.state, lambda: list(gone.stream([1]))):
            with self.assertRaises(stint_client.UnavailableError):
                ask()

        def script(wire):
            wire.body()
            wire.answer(503, b'{"error":{"type":"UnavailableError","message":"the gateway is ending"}}')

        feed = self.feed(script)
        for ask in (lambda: feed.put(1), lambda: feed.call(1), feed.reset, feed.close):
            with self.assertRaises(stint_client.UnavailableError):
                ask()

    def test_a_request_that_was_not_sent(self):
        """Without its end a request is not carried out."""
        feed = self.feed(lambda wire: None)
        with mock.patch.object(http.client.HTTPConnection, "request", side_effect=BrokenPipeError):
            with self.assertRaises(stint_client.UnavailableError):
                feed.put(1)

    def test_answers_of_a_proxy(self):
        """A proxy may have passed the request on."""
        def script(wire):
            wire.body()
            wire.answer(504, b"<html>")

        feed = self.feed(script)
        for ask in (lambda: feed.put(1), lambda: feed.call(1), feed.reset):
            with self.assertRaises(stint_client.UncertainError):
                ask()
        for ask in (feed.state, feed.close, lambda: list(feed.results())):
            with self.assertRaises(stint_client.UnavailableError):
                ask()

    def test_put_in_part(self):
        bodies = []

        def script(wire):
            bodies.append(wire.body())
            if len(bodies) == 1:
                wire.answer(200, b'{"accepted":1000}')

        with self.assertRaises(stint_client.UncertainError) as caught:
            self.feed(script).put(*range(1500))
        self.assertEqual(caught.exception.accepted, 1000)
        bodies.clear()
        with self.assertRaises(stint_client.InvalidItemError) as caught:
            self.feed(script).put(*range(1500), float("nan"))
        self.assertEqual(caught.exception.accepted, 1000)
        with self.assertRaises(stint_client.TooLargeError) as caught:
            self.feed(script).put(1, "x" * stint_client.MAX_BYTES)
        self.assertEqual(caught.exception.accepted, 0)

    def test_patience(self):
        """The client waits for longer than the gateway, which waits for a server that is away."""
        waits = []
        answered = http.client.HTTPConnection.getresponse

        def getresponse(connection):
            waits.append(connection.sock.gettimeout())
            return answered(connection)

        def script(wire):
            wire.body()
            wire.answer(200, b'{"accepted":1}')

        feed = self.feed(script, connect=3)
        with mock.patch.object(http.client.HTTPConnection, "getresponse", getresponse):
            feed.put(1)
            feed.put(1, wait=5)
            feed.call(1, timeout=7)
            feed.reset()
        self.assertEqual(waits, [63, 68, 10, 63])


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
