"""Locks of `fencepost serve`, with fencing tokens. docs/serve.md and docs/http.md are the contracts.

    with fencepost.lock("account/42") as tok:                  # asks FENCEPOST_URL, with FENCEPOST_BEARER
        requests.put(url, json=report, headers=tok.headers())  # the service at url compares tokens
        with psycopg.connect() as conn:                        # or the database does, in one transaction:
            conn.execute(*tok.admit)                           # raises if a newer holder was admitted
            conn.execute("UPDATE ...")

A write without the token is not fenced: after a pause it overwrites that of a newer holder.
"""
from __future__ import annotations
import contextlib
import http.client
import json
import os
import platform
import random
import re
import secrets
import ssl
import threading
import time
from typing import Any, Callable
from urllib.parse import quote, unquote, urlsplit

class Error(Exception):
    """What the service, or its absence, makes of a call."""
class Held(Error):
    """Another holder had the lock until the wait ended. The text has its label."""
class Lost(Error):
    """The lease has ended, or the service does not have it. Another holder may have the lock."""
class Unreachable(Error):
    """Until the wait ended, no reply came, or the service or its server was not ready."""
class Refused(Error):
    """The service refuses the request, such as for lack of a right. The text has the status."""

_PROBLEM = "https://pkg.go.dev/github.com/fencepost/fencepost/token/httptoken#Problem"
_KINDS = {_PROBLEM + "Held": Held, _PROBLEM + "Lost": Lost, _PROBLEM + "Failed": Refused}

def _now() -> float:  # CLOCK_BOOTTIME counts while the machine is suspended; only Linux has it
    return time.clock_gettime(time.CLOCK_BOOTTIME) if hasattr(time, "CLOCK_BOOTTIME") else time.monotonic()

def _holder(token: str) -> str:  # the parameter h, a String or a Display String (RFC 9651)
    value = dict(re.findall(r'; *([a-z*][a-z0-9_.*-]*)=("(?:[^"\\]|\\.)*"|%"[^"]*"|[^";]*)', token))["h"]
    return unquote(value[2:-1]) if value[0] == "%" else re.sub(r"\\(.)", r"\1", value[1:-1])

def lock(name: str, **options: Any) -> Lease:
    """Acquires a lock as Client.lock does, from the service that the environment names."""
    return Client(os.environ["FENCEPOST_URL"], os.environ.get("FENCEPOST_BEARER")).lock(name, **options)

class Client:
    """Asks the service at url, such as https://locks.example.com. It is safe for threads. For a
    private authority, set SSL_CERT_FILE, or give a context. It follows no redirect."""

    def __init__(self, url: str, bearer: str | None = None, context: ssl.SSLContext | None = None) -> None:
        to = urlsplit(url)
        if to.scheme not in ("http", "https") or not to.hostname or to.path.strip("/") or "@" in to.netloc:
            raise ValueError("not an http:// or https:// URL with a host, and without a path or a user")
        tls = {"context": context or ssl.create_default_context()} if to.scheme == "https" else {}
        kind: Any = http.client.HTTPSConnection if tls else http.client.HTTPConnection
        self._connect = lambda timeout: kind(to.hostname, to.port, timeout=timeout, **tls)
        self._headers = {"Content-Type": "application/json"}
        self._headers |= {"Authorization": "Bearer " + bearer} if bearer else {}

    def lock(self, name: str, *, ttl: float = 30, wait: float | None = None, holder: str = "",
             on_lost: Callable[[Lease], object] | None = None) -> Lease:
        """Acquires a lock, and renews it until its release, as at the end of a with block. wait is in
        seconds: 0 does not wait, None waits without end. A reply may take 10 s longer. holder is a label
        for operators. on_lost is called in a thread when the lease is lost. Raises Held and Unreachable
        when the wait has ended, and Refused at once."""
        lease = Lease(self, name, ttl, holder or f"{platform.node()[:99]}/{os.getpid()}", on_lost)
        end, queue, failures = _now() + (float("inf") if wait is None else wait), 0.0, 0
        while True:
            try:
                return lease._acquire(queue)
            except Held as err:
                failure: Error = err
                failures += queue > 0  # the first request does not wait, so that a repeat of it is safe
            except (Lost, Unreachable) as err:
                failure, failures = err, failures + 1
                if queue or isinstance(err, Lost):  # the rest of this wait may free what a repeat is granted
                    lease._leave()
            except BaseException:
                lease._leave()
                raise
            left = end - _now()
            if left <= 0 and (queue or failures > 1 or isinstance(failure, Held)):
                lease._leave()
                raise failure
            time.sleep(max(0, min(left, failures and 0.05 * 2 ** min(failures, 5) * random.random())))
            queue = max(min(end - _now(), 50), 0.001) if queue or isinstance(failure, Held) else 0

    def _send(self, method: str, path: str, body: dict[str, Any], timeout: float) -> dict[str, Any]:
        connection = self._connect(timeout)
        try:
            connection.request(method, path, json.dumps(body), self._headers)
            reply = connection.getresponse()
            status, text = reply.status, reply.read(1 << 20)
            value = json.loads(text) if text.startswith(b"{") else {}
        except ssl.SSLCertVerificationError as err:
            raise Refused(str(err)) from err
        except (OSError, http.client.HTTPException, ValueError) as err:
            raise Unreachable(f"{method} {path}: {err!r}") from err
        finally:
            connection.close()
        if status == 204 and method == "DELETE" or status == 200 and value.get("expires_in_ms", 0) > 0:
            return value
        down = status in (200, 204, 408, 429, 500) or status > 501  # a 200 that is not of the service, too
        kind = _KINDS.get(value.get("type"), Unreachable if down else Refused)
        raise kind(f"{method} {path}: {status} {value.get('title')}: {value.get('holder') or value.get('detail')}")

class Lease(contextlib.AbstractContextManager):
    """A lock that is held: resource, number, holder, and token, which is their text for Fencing-Token.
    admit has the arguments of psycopg's execute, in the transaction of the write, before its first
    read: PostgreSQL raises SQLSTATE ZF001 if the token is stale, and ZF002 if it collides.
    The event lost is set before the service can grant the lock to another holder, unless this process
    is stopped then. So call check before each effect, and send the token with it."""

    def __init__(self, client: Client, name: str, ttl: float, holder: str, on_lost: Any) -> None:
        self.resource, self._path = name, "/v1/locks/" + quote(name, safe="").replace(".", "%2E")
        self._client, self._ttl, self._margin, self._on_lost = client, ttl, max(ttl / 10, 0.01), on_lost
        self._proof = {"holder": holder, "request": secrets.token_hex(16)}
        self._ended, self.lost, self._cause, self._pid = threading.Event(), threading.Event(), "", os.getpid()

    def _ask(self, method: str, action: str, timeout: float, **more: int) -> tuple[dict[str, Any], float]:
        sent = _now()  # the lease counts from the sending: the reply may have taken long
        body = {**self._proof, "ttl_ms": int(self._ttl * 1000), **more}
        reply = self._client._send(method, self._path + action, body, timeout)
        return reply, sent + reply["expires_in_ms"] / 1000 - self._margin

    def _acquire(self, wait: float) -> Lease:
        reply, self._until = self._ask("PUT", "", wait + 10, wait_ms=int(wait * 1000))
        self.token, self.number, self.holder = reply["token"], reply["number"], _holder(reply["token"])
        self.admit = "SELECT fencepost.admit(%s, %s, %s)", (self.resource, self.number, self.holder)
        if wait:  # the lease began when the wait ended, which is not known here
            _, self._until = self._ask("POST", "/renew", 10)
        if self._until <= _now():
            raise Lost(f"{self.resource}: the lease had ended when the grant arrived")
        for run in self._watch, self._renew:
            threading.Thread(target=run, name=f"fencepost {self.resource}", daemon=True).start()
        return self

    def _leave(self) -> None:
        with contextlib.suppress(Error):  # a grant of which no reply came ends with its ttl
            self._client._send("DELETE", self._path, self._proof, 2)
        self._proof = {**self._proof, "request": secrets.token_hex(16)}

    def _is_over(self, cause: object = None) -> bool:
        if not self._ended.is_set() and (cause or self._until <= _now()):
            self._cause = str(cause or self._cause or "no renewal in time")
            self.lost.set()
            self._ended.set()
        return self._ended.is_set()

    def _watch(self) -> None:
        while not self._is_over():
            self._ended.wait(max(self._until - _now(), 0))
        if self.lost.is_set() and self._on_lost:
            self._on_lost(self)

    def _renew(self) -> None:
        pause = (self._until + self._margin - _now()) / 3
        while not self._ended.wait(max(pause, 0.001)):
            left = self._until - _now()
            try:
                _, until = self._ask("POST", "/renew", max(min(left / 2, self._ttl / 3), 0.001))
                if not self._is_over():  # a loss that was told stays one
                    self._until, self._cause, pause = until, "", (until + self._margin - _now()) / 3
            except Lost as err:
                self._is_over(err)
            except Exception as err:  # another attempt may succeed before the lease ends
                self._cause, pause = repr(err), min(self._ttl / 20, left / 4)

    def check(self) -> None:
        """Raises Lost if the lease was lost or released, or if a fork has copied it."""
        if self._is_over() or self._pid != os.getpid():
            raise Lost(f"{self.resource}: {self._cause or 'released, or of another process'}")

    def headers(self, *others: Lease) -> dict[str, str]:
        """The header of a request about the resource, and about those of others. Raises as check does."""
        for lease in (self, *others):
            lease.check()
        return {"Fencing-Token": ", ".join(lease.token for lease in (self, *others))}

    def release(self) -> None:
        """Ends the lease. Raises Lost if it was lost before: the work may not have been alone. If no
        reply comes, the lock is free when its ttl has passed."""
        if self._pid != os.getpid() or self._is_over() and not self.lost.is_set():
            return
        self._ended.set()
        if self.lost.is_set():
            raise Lost(f"{self.resource}: {self._cause}")
        try:
            self._client._send("DELETE", self._path, self._proof, min(self._ttl, 10))
        except (Unreachable, Refused):
            self._leave()  # whose reply is not Lost if the first request has freed the lock

    def __exit__(self, kind: object, *_: object) -> None:
        with contextlib.suppress(*([Lost] if kind else [])):  # the exception of the block comes first
            self.release()
