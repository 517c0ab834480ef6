"""Tests of the module on the real service, a real Redis and a real PostgreSQL.

    FENCEPOST_COMMAND=…/fencepost FENCEPOST_TEST_REDIS_URL=redis://… FENCEPOST_TEST_POSTGRES_URL=postgres://…/own python3 -m unittest

The database is for this run alone. `make test` sets the variables (cmd/fencepost/serve_python_test.go).
"""
from __future__ import annotations

import contextlib
import http.server
import json
import os
import re
import secrets
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import threading
import time
import types
import unittest
import urllib.parse
import urllib.request
from hashlib import sha256
from pathlib import Path

import psycopg

import fencepost

LONG = 60  # s, which only a hang exceeds
HERE = Path(__file__).parent


def eventually(condition):
    end = time.monotonic() + LONG
    while not condition():
        if time.monotonic() > end:
            raise AssertionError("it did not happen")
        time.sleep(0.005)


class Relay:
    """Forwards connections to a server. It can lose replies, hold them, or break all connections."""

    def __init__(self, case, host, port):
        self.target, self.refuse, self.lose, self.is_cut, self.sent, self.replies = (host, port), 0, 0, False, b"", b""
        self._open, self._lock, self.gate = set(), threading.Lock(), threading.Event()
        self.gate.set()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        case.addCleanup(self._listener.close)
        case.addCleanup(self.cut)
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client):
        with client, contextlib.suppress(OSError):
            with self._lock:
                if self.is_cut or self.refuse > 0:
                    self.refuse -= 1
                    return
                self._open.add(client)
            with socket.create_connection(self.target) as server:
                back = threading.Thread(target=self._back, args=(server, client), daemon=True)
                back.start()
                while data := client.recv(1 << 16):
                    self.sent += data
                    server.sendall(data)
                server.shutdown(socket.SHUT_RDWR)
                back.join()

    def _back(self, server, client):
        with contextlib.suppress(OSError):
            while data := server.recv(1 << 16):
                self.replies += data
                if self.lose:
                    self.lose -= 1
                    break
                self.gate.wait()
                client.sendall(data)
        with contextlib.suppress(OSError):
            client.shutdown(socket.SHUT_RDWR)

    def cut(self):
        with self._lock:
            self.is_cut = True
            for client in self._open:
                with contextlib.suppress(OSError):
                    client.shutdown(socket.SHUT_RDWR)
            self._open.clear()

    def heal(self):
        self.is_cut = False

    def bodies(self, method):
        """The bodies of the requests so far, by the method."""
        return [json.loads(body) for body in re.findall(rb"%s /v1.*?\r\n\r\n(\{.*?\})" % method.encode(), self.sent, re.DOTALL)]


class Service:
    """fencepost serve, as a process."""

    def __init__(self, case, *flags):
        self.log = tempfile.NamedTemporaryFile(mode="r")
        case.addCleanup(self.log.close)
        command = [os.environ["FENCEPOST_COMMAND"], "serve", "--listen", "127.0.0.1:0", "--log-format", "json", "--drain", "0s"]
        with open(self.log.name, "w") as log:
            self.process = subprocess.Popen([*command, *(flags or ["--memory"])], stderr=log)
        case.addCleanup(self.kill)
        eventually(lambda: self.process.poll() is not None or self._address())
        host, port = self._address()[0].rsplit(":", 1)
        self.at, self.url = (host, int(port)), f"http://{host}:{port}"

    def _address(self):
        return re.findall(r'"msg":"listen".*?"address":"([^"]+)"', Path(self.log.name).read_text())

    def kill(self):
        self.process.kill()
        self.process.wait()

    def state(self, name):
        with urllib.request.urlopen(f"{self.url}/v1/locks/{name}") as reply:
            return json.load(reply)

    def relay(self, case):
        return Relay(case, *self.at)


class Holder:
    """Another process, which holds a lock of a name, and does as it is told: see hold below."""

    def __init__(self, case, url, name, ttl):
        self.process = subprocess.Popen([sys.executable, __file__, url, name, str(ttl)], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        text=True, bufsize=1)
        case.addCleanup(self.process.stdout.close)
        case.addCleanup(self.process.stdin.close)
        case.addCleanup(self.process.wait)
        case.addCleanup(self.process.kill)
        self.number, self.holder = json.loads(self.process.stdout.readline())

    def do(self, what):
        self.process.stdin.write(what + "\n")
        return self.process.stdout.readline().strip()


def hold(url, name, ttl):
    with contextlib.suppress(fencepost.Lost), fencepost.Client(url).lock(name, ttl=float(ttl), holder="other") as tok:
        print(json.dumps([tok.number, tok.holder]), flush=True)
        for line in sys.stdin:
            try:
                if line == "check\n":
                    tok.check()
                elif line == "write\n":
                    write(tok, "other")
                elif line == "write unfenced\n":
                    write(None, "unfenced")
                else:
                    break
                print("done", flush=True)
            except fencepost.Lost:
                print("lost", flush=True)
            except psycopg.Error as err:
                print(err.sqlstate, flush=True)
    print("released", flush=True)


def write(tok, text):
    with psycopg.connect(os.environ["FENCEPOST_TEST_POSTGRES_URL"]) as conn:
        if tok:
            conn.execute(*tok.admit)
        conn.execute("INSERT INTO written VALUES (%s)", (text,))


def written():
    with psycopg.connect(os.environ["FENCEPOST_TEST_POSTGRES_URL"]) as conn:
        return [text for text, in conn.execute("SELECT text FROM written").fetchall()]


def redis(case, relayed=False):
    url = os.environ["FENCEPOST_TEST_REDIS_URL"]
    relay = None
    if relayed:
        at = urllib.parse.urlsplit(url)
        relay = Relay(case, at.hostname, at.port or 6379)
        url = at._replace(netloc=at.netloc.rpartition("@")[0] + at.netloc.rpartition("@")[1] + f"127.0.0.1:{relay.port}").geturl()
    return relay, ["--redis", url, "--key-prefix", secrets.token_hex(8)]


class InThread(threading.Thread):
    """A call in a thread, whose result is awaited."""

    def __init__(self, call):
        super().__init__(daemon=True)
        self.call, self.result, self.error = call, None, None
        self.start()

    def run(self):
        try:
            self.result = self.call()
        except Exception as err:
            self.error = err

    def get(self):
        self.join(LONG)
        if self.error:
            raise self.error
        return self.result


class Test(unittest.TestCase):
    def test_one_process_at_a_time(self):
        service = Service(self)
        client = fencepost.Client(service.url)
        other = Holder(self, service.url, "job", 30)
        with self.assertRaisesRegex(fencepost.Held, "other$"):
            client.lock("job", wait=0)
        with self.assertRaises(fencepost.Held):
            client.lock("job", wait=0.01)
        waits = InThread(lambda: client.lock("job"))
        eventually(lambda: len(service.state("job")["queue"]) == 1)
        self.assertEqual("released", other.do("release"))
        with waits.get() as tok:
            self.assertGreater(tok.number, other.number)
            self.assertEqual({"holder": tok.holder, "number": tok.number}, {k: service.state("job")[k] for k in ("holder", "number")})
            self.assertEqual({"Fencing-Token": f'{tok.number};r="job";h="{tok.holder}"'}, tok.headers())
            with client.lock("job/2") as two:
                self.assertEqual({"Fencing-Token": tok.token + ", " + two.token}, tok.headers(two))
        self.assertEqual("", service.state("job")["holder"])
        self.assertFalse(tok.lost.is_set())
        self.assertRaises(fencepost.Lost, tok.headers)
        tok.release()

    def test_a_stopped_holder(self):
        """The service grants the lock to another while the holder is stopped."""
        service = Service(self)
        with psycopg.connect(os.environ["FENCEPOST_TEST_POSTGRES_URL"]) as conn:
            conn.execute("CREATE TABLE written (text text)")
        other = Holder(self, service.url, "account/42", 3)
        self.assertEqual("done", other.do("write"))
        other.process.send_signal(signal.SIGSTOP)
        with fencepost.Client(service.url).lock("account/42") as tok:
            write(tok, "this")
            other.process.send_signal(signal.SIGCONT)
            self.assertEqual("lost", other.do("check"))
            self.assertEqual("ZF001", other.do("write"))
            self.assertEqual("done", other.do("write unfenced"), "the twin: only the fence refuses the write")
            write(tok, "this")
        self.assertEqual("released", other.do("release"))
        self.assertEqual(["other", "this", "unfenced", "this"], written())

    def test_a_restart_keeps_the_lease(self):
        """A lock of Redis is renewed, beyond its ttl, by the service that follows."""
        _, flags = redis(self)
        service = Service(self, *flags)
        relay = service.relay(self)
        for ttl in 4, 8, 16, 32, 64:  # a busy machine may take longer than a ttl to start the service
            with contextlib.suppress(fencepost.Lost), fencepost.Client(f"http://127.0.0.1:{relay.port}").lock("job", ttl=ttl) as tok:
                begin = time.monotonic()
                service.kill()
                service = Service(self, *flags)
                relay.target = service.at
                eventually(lambda: tok.lost.is_set() or time.monotonic() > begin + ttl)
                tok.check()
                self.assertEqual(tok.number, service.state("job")["number"])
                self.assertRaises(fencepost.Held, fencepost.Client(service.url).lock, "job", wait=0)
                return
        self.fail("the lease was lost each time")

    def test_a_restart_loses_the_lease(self):
        """A service with --memory has forgotten the lock."""
        service = Service(self)
        relay, lost = service.relay(self), []
        lock = fencepost.Client(f"http://127.0.0.1:{relay.port}").lock
        for ttl in 6, 12, 24:  # a busy machine may take longer than a ttl to start the service
            with self.assertRaises(fencepost.Lost) as raised, lock("job", ttl=ttl, on_lost=lost.append) as tok:
                service.kill()
                service = Service(self)
                relay.target = service.at
                self.assertTrue(tok.lost.wait(LONG))
                self.assertRaises(fencepost.Lost, tok.check)
            eventually(lambda: lost[-1:] == [tok])
            if "410 The lease is lost" in str(raised.exception):
                break
        else:
            self.fail("no renewal told the loss")
        with self.assertRaises(ZeroDivisionError), lock("job", ttl=1) as tok:
            relay.cut()
            self.assertTrue(tok.lost.wait(LONG), "without a reply, the lease ends")
            1 / 0
        with self.assertRaises(fencepost.Lost):
            tok.release()

    def test_a_reply_that_comes_late(self):
        """A lease counts from the sending of the request: the service may have ended it meanwhile."""
        service = Service(self)
        relay = service.relay(self)
        self.addCleanup(relay.gate.set)
        relay.gate.clear()
        late = InThread(lambda: fencepost.Client(f"http://127.0.0.1:{relay.port}").lock("job", ttl=0.5))
        eventually(lambda: relay.replies)
        eventually(lambda: not service.state("job")["holder"])
        first = service.state("job")["number"]
        with fencepost.Client(service.url).lock("job") as other:
            relay.gate.set()
            eventually(lambda: len(service.state("job")["queue"]) == 1)
            other.check()
        with contextlib.suppress(fencepost.Lost), late.get() as tok:
            self.assertGreater(tok.number, other.number)
        self.assertGreater(other.number, first)

    def test_lost_replies(self):  # hazard L27
        service = Service(self)
        relay = service.relay(self)
        client = fencepost.Client(f"http://127.0.0.1:{relay.port}")
        relay.lose = 1
        with client.lock("job", wait=0) as tok:  # to an acquisition: it is repeated
            first, second = relay.bodies("PUT")
            self.assertEqual(first, second)
            self.assertEqual(tok.number, service.state("job")["number"])
            relay.lose = 1
        self.assertEqual("", service.state("job")["holder"], "to a release: it is repeated")

        with client.lock("job"):
            relay.refuse = 1
        self.assertEqual("", service.state("job")["holder"], "a release that did not arrive is repeated")

        other = fencepost.Client(service.url).lock("job")
        waits = InThread(lambda: client.lock("job"))
        eventually(lambda: len(service.state("job")["queue"]) == 1)
        relay.lose = 1
        other.release()
        with waits.get() as tok:  # to a wait: it is another acquisition
            *_, waiting, last = [body["request"] for body in relay.bodies("PUT")]
            self.assertNotEqual(waiting, last)
            renewed = [body["request"] for body in relay.bodies("POST")]
            self.assertIn(last, renewed, "a wait is followed by a renewal")
            self.assertNotIn(waiting, renewed)
            self.assertEqual([tok.number, tok.holder], [service.state("job")[k] for k in ("number", "holder")])

        relay.lose = 99
        self.assertRaises(fencepost.Unreachable, client.lock, "job", wait=0)
        relay.lose = 0
        self.assertEqual("", service.state("job")["holder"], "an acquisition that is given up is released")

    def test_503(self):
        """The service answers, and its Redis does not."""
        between, flags = redis(self, relayed=True)
        service = Service(self, *flags)
        relay = service.relay(self)
        client = fencepost.Client(f"http://127.0.0.1:{relay.port}")
        between.cut()
        with self.assertRaisesRegex(fencepost.Unreachable, "503 The issuer cannot be reached"):
            client.lock("job", wait=0)
        replies = relay.replies.count(b" 503 ")
        waits = InThread(lambda: client.lock("job", wait=10 * LONG))
        eventually(lambda: relay.replies.count(b" 503 ") > replies + 2)
        between.heal()
        with waits.get() as tok:
            self.assertEqual(tok.number, service.state("job")["number"])
        with self.assertRaises(fencepost.Lost), client.lock("job", ttl=1) as tok:
            between.cut()
            self.assertTrue(tok.lost.wait(LONG))
        self.assertRegex(tok._cause, "503|time|Unreachable")

    def test_rights_signatures_and_tls(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        cert, key, rights, keys = (os.path.join(folder.name, name) for name in ("cert.pem", "key.pem", "rights", "keys"))
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj", "/CN=test",
                        "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", key, "-out", cert], check=True, capture_output=True)
        Path(rights).write_text(f"test {sha256(b'secret').hexdigest()} acquire,read job/\n")
        Path(keys).write_text("2026-11 " + "YW4gZXhhbXBsZSBzZWNyZXQsIDMyIGJ5dGVzIGxvbmc=\n")
        service = Service(self, "--memory", "--rights", rights, "--signature-keys", keys, "--tls-cert", cert, "--tls-key", key)
        url, context = service.url.replace("http:", "https:"), ssl.create_default_context(cafile=cert)
        with fencepost.Client(url, "secret", context).lock("job/a") as tok:
            self.assertRegex(tok.token, r'^\d+;r="job/a";h="[^"]+";k="2026-11";s=:\S+:$')
            self.assertIn(f'h="{tok.holder}"', tok.token)
        for client, name, text in (
            (fencepost.Client(url, "wrong", context), "job/a", "401"),
            (fencepost.Client(url, "secret", context), "other", "403"),
            (fencepost.Client(url, "secret"), "job/a", "CERTIFICATE_VERIFY_FAILED"),
            (fencepost.Client(url, "secret", context), "job/\n", "400"),
        ):
            with self.assertRaisesRegex(fencepost.Refused, text):
                client.lock(name)

    def test_names(self):
        service = Service(self)
        os.environ["FENCEPOST_URL"] = service.url
        for name in ("a/../b", "..", "a//b", "größe", 'q"\\;h="x"', " ", "%2F", "a/renew", "?a#b"):
            with fencepost.lock(name, holder='it"s \\ ö;h="x"') as tok, self.subTest(name):
                self.assertEqual(tok.holder, service.state(urllib.parse.quote(name, safe="").replace(".", "%2E"))["holder"])
        for url in ("locks", "ftp://locks", "http://", "http://a/b", "http://user@a"):
            self.assertRaises(ValueError, fencepost.Client, url)

    def test_a_fork_does_not_hold_the_lock(self):
        service = Service(self)
        with fencepost.Client(service.url).lock("job") as tok:
            child = os.fork()
            if child == 0:
                status = 1
                try:
                    tok.check()
                except fencepost.Lost:
                    tok.release()
                    status = 0
                finally:
                    os._exit(status)
            self.assertEqual(0, os.waitpid(child, 0)[1])
            tok.check()
            self.assertEqual(tok.holder, service.state("job")["holder"])

    def test_the_page(self):
        """The blocks of docs/serve.md for curl and Python, as they are."""
        service, received = Service(self), []

        class Reports(http.server.BaseHTTPRequestHandler):
            def do_PUT(self):
                self.rfile.read(int(self.headers["Content-Length"]))
                received.append(self.headers["Fencing-Token"])
                self.send_response(204)
                self.end_headers()

            def log_message(self, *_):
                pass

        reports = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Reports)
        self.addCleanup(reports.server_close)
        self.addCleanup(reports.shutdown)
        threading.Thread(target=reports.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{reports.server_port}/job/report"
        page = (HERE.parent / "docs/serve.md").read_text().partition("## Other languages")[2].partition("\n## ")[0]
        curl, python = re.findall(r"```(?:sh|python)\n(.*?)```", page, re.DOTALL)
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / "report.json").write_text("{}")
            curl = curl.replace("https://locks.example.com", service.url).replace("https://reports.internal/job/report", url)
            done = subprocess.run(["bash", "-euc", curl], cwd=folder, capture_output=True, text=True,
                                  env={**os.environ, "FENCEPOST_BEARER": "not read without --rights"})
        self.assertEqual((0, ""), (done.returncode, done.stderr))
        self.assertIn("expires_in_ms", done.stdout)
        self.assertEqual("", service.state("job/report")["holder"])

        def put(url, json, headers):
            urllib.request.urlopen(urllib.request.Request(url, b"{}", headers, method="PUT")).close()

        dsn = os.environ["FENCEPOST_TEST_POSTGRES_URL"]
        os.environ["FENCEPOST_URL"] = service.url
        with psycopg.connect(dsn) as conn:
            conn.execute("CREATE TABLE accounts (id int, balance int)")
            conn.execute("INSERT INTO accounts VALUES (42, 100)")
        names = {"fencepost": fencepost, "psycopg": psycopg, "requests": types.SimpleNamespace(put=put), "url": url, "report": {}, "dsn": dsn}
        exec(python, names)
        with psycopg.connect(dsn) as conn:
            self.assertEqual((90,), conn.execute("SELECT balance FROM accounts").fetchone())
            (holder,) = conn.execute("SELECT holder FROM fencepost.marks WHERE resource = 'account/42' AND number = %s", (names["tok"].number,)).fetchone()
        self.assertEqual(names["tok"].holder, holder)
        self.assertRegex(received[0], 'r="job/report"')
        self.assertEqual(names["tok"].token, received[1])

    def test_vectors(self):
        vectors = json.loads((HERE.parent / "docs/vectors.json").read_text())
        for vector in vectors["parse"]:
            if len(vector["field"]) == 1 and len(vector.get("tokens", [])) == 1:
                with self.subTest(vector["name"]):
                    self.assertEqual(vector["tokens"][0]["holder"], fencepost._holder(vector["field"][0]))
        for vector in vectors["format"] + vectors["sign"]:
            if "text" in vector and len(vector.get("tokens", [1])) == 1:
                with self.subTest(vector["name"]):
                    token = vector.get("token") or vector["tokens"][0]
                    self.assertEqual(token["holder"], fencepost._holder(vector["text"]))


def setUpModule():
    url = os.environ["FENCEPOST_TEST_POSTGRES_URL"]
    subprocess.run([os.environ["FENCEPOST_COMMAND"], "migrate", "up", "--postgres", url], check=True, capture_output=True)


if __name__ == "__main__":
    hold(*sys.argv[1:])
