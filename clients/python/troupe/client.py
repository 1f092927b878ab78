"""A client of the decision server.

Calls are repeated when the server is busy, restarting or out of reach. Repeating is safe: a decision carries an
idempotency key, so a second attempt gets the decision of the first, and a reward is known by its event and key. Several
base URLs with commas between them are the nodes of a cluster: the client stays with the first one that answers.
"""

from __future__ import annotations

import asyncio
import http.client
import json
import random
import re
import secrets
import ssl
import threading
import time
import weakref
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, Dict, Iterable, List, Mapping, Optional, Sequence, Tuple, Union
from urllib.parse import quote, urlsplit

Json = Dict[str, Any]
Candidate = Union[str, Json]

_AGAIN = (429, 502, 503, 504, 507)
_MOST_ANSWER = 64 << 20
_MOST_HOPS = 4  # of one call to a model that moved
_MOST_WRITERS = 4096


class Problem(Exception):
    """An error that the server answered (application/problem+json)."""

    def __init__(self, status: int, body: Json) -> None:
        self.status = status
        self.code: str = body.get("code", "http")  #: the kind of problem in one word that never changes
        self.field: str = body.get("field", "")  #: the field of the request that is wrong, such as actions[3].id
        self.detail: str = body.get("detail", "")
        self.title: str = body.get("title", "")
        self.retry_after: float = body.get("retry_after", 0)
        #: the call may have been recorded: repeat it with the same key
        self.unknown: bool = body.get("unknown_outcome", False)
        self.moved_to: str = body.get("moved_to", "")  #: of the code moved: the server that has the model
        super().__init__(": ".join(filter(None, [f"{status} {self.code}", self.field, self.detail])))


class Unreachable(Exception):
    """No answer. unknown says that the request may have arrived."""

    def __init__(self, cause: BaseException, unknown: bool) -> None:
        self.unknown = unknown
        super().__init__(f"{'no answer' if unknown else 'not sent'}: {cause!r}")


@dataclass(frozen=True)
class Number:
    """A number to play, such as a price: the first request with it fixes its range, later ones may narrow it.

    With a step only lo, lo + step, ... are played. cyclic: hi is lo again, as of an hour. log: the range is divided evenly
    in logarithms.
    """

    name: str
    lo: float
    hi: float
    step: Optional[float] = None
    cyclic: bool = False
    log: bool = False

    def json(self) -> Json:
        out: Json = {"name": self.name, "min": _number(self.lo), "max": _number(self.hi)}
        if self.step is not None:
            out["step"] = _number(self.step)
        if self.cyclic:
            out["cyclic"] = True
        if self.log:
            out["log"] = True
        return out


@dataclass(frozen=True)
class Entry:
    """One entry of a list: the exact probability is that of this action at this position."""

    position: int
    id: str
    index: int
    propensity: Fraction
    slot: str = ""


@dataclass(frozen=True)
class Decision:
    """A decision, on the disk of the server."""

    event_id: str  #: send the reward to this id
    action: str  #: empty where numbers alone are played
    index: int
    propensity: Fraction  #: the exact probability of the action; of numbers without steps, that of their cell
    mode: str
    seq: int
    repeated: bool = False
    warnings: Tuple[str, ...] = ()
    group: str = ""  #: model or control, of a model with a control group
    numbers: Dict[str, float] = field(default_factory=dict)  #: the numbers that are played, by name
    #: the density at the numbers, where one of them has no steps
    density: Optional[float] = None
    #: the entries of a list, from the top; action is then empty, and propensity that of the first entry
    list: Tuple[Entry, ...] = ()
    raw: Json = field(default_factory=dict, compare=False, repr=False)  #: all that the server answered

    @classmethod
    def of(cls, raw: Json) -> "Decision":
        entries = tuple(Entry(e["position"], e["id"], e["index"], Fraction(e["propensity"]["num"], e["propensity"]["den"]), e.get("slot", ""))
                        for e in raw.get("list") or ())
        p, action = raw.get("propensity") or raw.get("density") or raw["list"][0]["propensity"], raw.get("action") or {"id": "", "index": 0}
        share, density = Fraction(p["num"], p["den"]), None
        if "density" in raw:
            density = float(share)
            for low, high in p["cell"].values():
                density /= high - low
        return cls(raw["event_id"], action["id"], action["index"], share, raw["mode"], raw["seq"],
                   raw.get("repeated", False), tuple(raw.get("warnings") or ()), raw.get("group", ""),
                   dict(raw.get("numbers") or {}), density, entries, raw)


@dataclass(frozen=True)
class RewardResult:
    """What a reward did: accepted, duplicate, late or ignored."""

    status: str
    seq: int


class Client:
    """A client of one server, or of a cluster. It is safe for use by several threads; each has a connection of its own.

    base_url is http://HOST:PORT or https://HOST:PORT, or several with commas between them. key is an API key. tries
    bounds the attempts of a call at one server; at a cluster a call is repeated for patience seconds.

    A model that went to another server (troupe move) is followed there: the first call costs a redirect, and the client
    remembers it. Both servers must accept the key.
    """

    def __init__(self, base_url: str, key: Optional[str] = None, *, tries: int = 5, timeout: float = 30.0,
                 patience: float = 30.0, context: Optional[ssl.SSLContext] = None) -> None:
        self._at = [_Address(text.strip(), context) for text in base_url.split(",")]
        if tries < 1 or timeout <= 0 or patience <= 0:
            raise ValueError(f"tries = {tries}, timeout = {timeout}, patience = {patience}, expected numbers above 0")
        self._now = 0
        self._away = _Away(context)
        self._key, self._tries, self._timeout, self._patience = key, tries, timeout, patience
        self._local = threading.local()
        self._open: "weakref.WeakSet[http.client.HTTPConnection]" = weakref.WeakSet()  # of all threads

    def decide(self, model: str, context: Any = None, actions: Optional[Iterable[Candidate]] = None, *,
               key: Optional[str] = None, **more: Any) -> Decision:
        """Choose an action. actions are ids or objects with id, features and cost; without them the model's catalogue is
        used. numbers is a list of Number, with actions or without. choose=3 plays a list of three, slots=[...] one with named
        positions: see Decision.list. more is passed on: exclude, baseline, mode, explain, min_seq, available, packed, ids, costs. key is the
        idempotency key; one is made where there is none."""
        body = _request(context, actions, more)
        headers = {"Idempotency-Key": key or secrets.token_hex(16)}
        path = _model(model) + ":decide"
        decision = Decision.of(self._call("POST", path, body, headers, repeat=True))
        if not decision.repeated:  # one that is may be of before the move
            self._away.decided(path, decision.event_id)
        return decision

    def reward(self, event_id: str, value: Union[None, float, Mapping[str, float]] = None, *, cost: Optional[float] = None,
               key: Optional[str] = None, position: Optional[int] = None, slot: Optional[str] = None,
               action: Optional[str] = None, values: Optional[Sequence[float]] = None,
               shown: Optional[int] = None) -> RewardResult:
        """Pay for a decision. cost is what it cost, in units of money; with a value of None there is no reward in this
        call. Under the rules sum and last a second call with the same key changes nothing. Of a list, position, slot or
        action says which entry value is for, or values has one for each; shown is how many positions were on the screen.
        Of a model with rewards, value has some of them by name: {"click": 1, "revenue": 12.5}."""
        body: Json = {"key": key or secrets.token_hex(16)}
        if value is not None:
            body.update(_paid(value))
        if cost is not None:
            body["cost"] = _number(cost)
        for name, given in (("position", position), ("slot", slot), ("action", action), ("shown", shown)):
            if given is not None:
                body[name] = given
        if values is not None:
            body["values"] = [_number(v) for v in values]
        raw = self._call("POST", f"/v1/events/{quote(event_id, safe='')}:reward", body, repeat=True)
        return RewardResult(raw["status"], raw["seq"])

    def decide_batch(self, model: str, requests: Sequence[Json], *,
                     key: Optional[str] = None) -> List[Union[Decision, Problem]]:
        """Decide many requests on one state, at most 256, all durable together. A request has the fields context,
        actions and those of decide. An answer is a Decision or a Problem."""
        headers = {"Idempotency-Key": key or secrets.token_hex(16)}
        body = {"requests": [_request(r.get("context"), r.get("actions"),
                                      {k: v for k, v in r.items() if k not in ("context", "actions")})
                             for r in requests]}
        path = _model(model) + ":decideBatch"
        raw = self._call("POST", path, body, headers, repeat=True)
        answers = [Decision.of(r["decision"]) if r.get("decision") else _problem(r["problem"]) for r in raw["results"]]
        for answer in answers:
            if isinstance(answer, Decision) and not answer.repeated:
                self._away.decided(path, answer.event_id)
        return answers

    def reward_batch(self, rewards: Iterable[Tuple[str, Union[float, Mapping[str, float]]]]) -> List[Union[RewardResult, Problem]]:
        """Pay for many decisions, at most 10,000: pairs of event id and value, as for reward. A server takes as many at a time as one
        request may keep it busy with; those that it did not take (429) are sent again, as long as each call takes
        some."""
        items = [{"event_id": e, **_paid(v), "key": secrets.token_hex(16)} for e, v in rewards]
        answers: List[Union[RewardResult, Problem, None]] = [None] * len(items)
        left = list(range(len(items)))
        while True:
            raw = self._call("POST", "/v1/rewards:batch", {"rewards": [items[i] for i in left]}, repeat=True)
            again = []
            for i, r in zip(left, raw["results"]):
                answer = RewardResult(r["result"]["status"], r["result"]["seq"]) if r.get("result") else _problem(r["problem"])
                answers[i] = answer
                if isinstance(answer, Problem) and self._elsewhere(items[i]["event_id"], answer):
                    answers[i] = self._one(items[i])  # by itself: each may be at another server
                elif isinstance(answer, Problem) and answer.status == 429:
                    again.append(i)
            if not again or len(again) == len(left):
                return [a for a in answers if a is not None]
            left = again

    def _elsewhere(self, event_id: str, problem: Problem) -> bool:
        """Whether another server has the event of an item of a batch."""
        return problem.code == "moved" or problem.code == "bad_event_id" and self._away.knows("/v1/events/" + event_id)

    def _one(self, item: Json) -> Union[RewardResult, Problem]:
        """Send a reward of a batch by itself."""
        body = {name: value for name, value in item.items() if name != "event_id"}
        try:
            raw = self._call("POST", f"/v1/events/{quote(item['event_id'], safe='')}:reward", body, repeat=True)
        except Problem as problem:
            return problem
        except Unreachable as lost:
            return Problem(0, {"code": "unavailable", "detail": str(lost), "unknown_outcome": lost.unknown})
        return RewardResult(raw["status"], raw["seq"])

    def activate(self, event_id: str) -> RewardResult:
        """Make a deferred decision count."""
        raw = self._call("POST", f"/v1/events/{quote(event_id, safe='')}:activate", None, repeat=True)
        return RewardResult(raw["status"], raw["seq"])

    def create_model(self, id: str, **config: Any) -> Json:
        """Make a model; a name is enough. The answer is its whole configuration."""
        return self._call("POST", "/v1/models", dict(config, id=id), repeat=False)

    def model(self, name: str) -> Json:
        """What the server says of a model."""
        return self._call("GET", _model(name), None, repeat=True)

    def log(self, model: str, start: int = 0, entries: int = 100) -> Tuple[List[Json], int]:
        """Read records of the log of a model from entry start on, of at most so many entries. The second value is where
        to go on; when it is start, there is nothing new yet."""
        raw = self._call("GET", f"{_model(model)}/log?from={start}&page_size={entries}", None, repeat=True, lines=True)
        return raw["lines"], int(raw["next"])

    def close(self) -> None:
        """Close the connections of all threads. A call after it opens a new one."""
        for connection in list(self._open):
            connection.close()

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def _call(self, method: str, path: str, body: Any, headers: Optional[Dict[str, str]] = None, *, repeat: bool,
              lines: bool = False) -> Json:
        payload = None if body is None else json.dumps(body, allow_nan=False).encode()
        began, attempt = time.monotonic(), 0
        while True:
            attempt += 1
            failed: Optional[Exception] = None
            pause = 0.0
            for _ in self._at:
                try:
                    return self._follow(self._at[self._now], method, path, payload, headers or {}, lines,
                                        fresh=not repeat)
                except Problem as problem:
                    if problem.status not in _AGAIN:
                        raise
                    error: Exception = problem
                    pause = problem.retry_after
                except Unreachable as lost:
                    error = lost
                unknown = getattr(error, "unknown", False)
                if failed is None or unknown:
                    failed = error  # what may have been recorded stays so
                if unknown and not repeat:
                    raise failed
                self._now = (self._now + 1) % len(self._at)
            assert failed is not None
            several = len(self._at) > 1
            late = time.monotonic() - began >= self._patience
            if isinstance(failed, Problem) and failed.code == "leaving" and self._tries > 1 and not late:
                attempt = min(attempt, 2)  # a move takes about a second
            elif late if several else attempt >= self._tries:
                raise failed
            longest = 0.5 if several else 5.0
            time.sleep(max(pause, random.uniform(0, min(longest, 0.05 * 2 ** min(attempt - 1, 20)))))

    def _follow(self, base: "_Address", method: str, path: str, payload: Optional[bytes], headers: Dict[str, str],
                lines: bool, fresh: bool) -> Json:
        """Call the server that has what a path is about: base, or where its model went."""
        at, hops = self._away.of(base, path), 0
        while True:
            try:
                return self._once(at, method, path, payload, headers, lines, fresh)
            except Problem as problem:
                to = problem.moved_to if problem.code == "moved" else ""
                there = self._away.note(base, path, to, at) if to and hops < _MOST_HOPS else None
                if there is not None:
                    at, hops = there, hops + 1
                elif problem.code in ("not_found", "bad_event_id") and at is not base and self._away.forget(path):
                    at = base
                else:
                    raise

    def _once(self, at: "_Address", method: str, path: str, payload: Optional[bytes], headers: Dict[str, str],
              lines: bool, fresh: bool) -> Json:
        head = dict(headers)
        if payload is not None:
            head["Content-Type"] = "application/json"
        if self._key:
            head["Authorization"] = "Bearer " + self._key
        connection = self._connection(at)
        sent = False
        try:
            if fresh:
                connection.close()  # one that the server has closed meanwhile would leave the outcome open
            if connection.sock is None:
                connection.connect()
            sent = True
            connection.request(method, at.prefix + path, payload, head)
            answer = connection.getresponse()
            raw = answer.read(_MOST_ANSWER)
        except (OSError, http.client.HTTPException) as cause:
            connection.close()
            raise Unreachable(cause, sent) from cause
        if answer.status >= 300:
            try:
                body = json.loads(raw)
                body["code"]
            except (ValueError, KeyError, TypeError):
                body = {"detail": answer.reason, "unknown_outcome": answer.status in (502, 504)}
            after = answer.getheader("Retry-After", "")
            if after.isdigit() and int(after) < 3600:
                body["retry_after"] = int(after)
            raise Problem(answer.status, body)
        if lines:
            rows = [json.loads(line) for line in raw.splitlines() if line]
            return {"lines": rows, "next": answer.getheader("Log-Next")}
        result: Json = json.loads(raw) if raw else {}
        return result

    def _connection(self, at: "_Address") -> http.client.HTTPConnection:
        connections = self._local.__dict__.setdefault("connections", {})
        if at not in connections:
            connections[at] = at.connection(self._timeout)
            self._open.add(connections[at])
        connection: http.client.HTTPConnection = connections[at]
        return connection


class AsyncClient:
    """Client for asyncio: the same calls as coroutines. Each runs on a thread of the loop's pool."""

    def __init__(self, base_url: str, key: Optional[str] = None, **options: Any) -> None:
        self._client = Client(base_url, key, **options)

    async def decide(self, model: str, context: Any = None, actions: Optional[Iterable[Candidate]] = None,
                     **more: Any) -> Decision:
        """See Client.decide."""
        return await self._run(self._client.decide, model, context, actions, **more)

    async def reward(self, event_id: str, value: Union[None, float, Mapping[str, float]] = None, **more: Any) -> RewardResult:
        """See Client.reward."""
        return await self._run(self._client.reward, event_id, value, **more)

    async def decide_batch(self, model: str, requests: Sequence[Json], *,
                           key: Optional[str] = None) -> List[Union[Decision, Problem]]:
        """See Client.decide_batch."""
        return await self._run(self._client.decide_batch, model, requests, key=key)

    async def reward_batch(self, rewards: Iterable[Tuple[str, Union[float, Mapping[str, float]]]]) -> List[Union[RewardResult, Problem]]:
        """See Client.reward_batch."""
        return await self._run(self._client.reward_batch, list(rewards))

    async def activate(self, event_id: str) -> RewardResult:
        """See Client.activate."""
        return await self._run(self._client.activate, event_id)

    async def create_model(self, id: str, **config: Any) -> Json:
        """See Client.create_model."""
        return await self._run(self._client.create_model, id, **config)

    async def model(self, name: str) -> Json:
        """See Client.model."""
        return await self._run(self._client.model, name)

    async def log(self, model: str, start: int = 0, entries: int = 100) -> Tuple[List[Json], int]:
        """See Client.log."""
        return await self._run(self._client.log, model, start, entries)

    async def close(self) -> None:
        """Close all connections."""
        self._client.close()

    async def __aenter__(self) -> "AsyncClient":
        return self

    async def __aexit__(self, *_: Any) -> None:
        await self.close()

    @staticmethod
    async def _run(call: Any, *args: Any, **named: Any) -> Any:
        return await asyncio.get_running_loop().run_in_executor(None, lambda: call(*args, **named))


class _Away:
    """Which models went to other servers, and which events these decided. Safe for several threads."""

    def __init__(self, context: Optional[ssl.SSLContext]) -> None:
        self._lock, self._context = threading.Lock(), context
        self._servers: Dict[str, _Address] = {}  # by address
        self._models: Dict[str, _Address] = {}
        self._events: Dict[str, _Address] = {}  # by the beginning of their ids, which names the writer

    @staticmethod
    def _subject(path: str) -> Tuple[str, str]:
        """The model, or the writer of the event, that a path is about."""
        for prefix in ("/v1/models/", "/v1/events/"):
            if path.startswith(prefix):
                name = re.split("[:/?]", path[len(prefix):], maxsplit=1)[0]
                return (name, "") if prefix == "/v1/models/" else ("", name[:16])
        return "", ""

    def of(self, base: "_Address", path: str) -> "_Address":
        model, writer = self._subject(path)
        with self._lock:
            return self._models.get(model) or self._events.get(writer) or base

    def knows(self, path: str) -> bool:
        model, writer = self._subject(path)
        with self._lock:
            return model in self._models or writer in self._events

    def note(self, base: "_Address", path: str, to: str, asked: "_Address") -> Optional["_Address"]:
        """Remember the server of a model, and return it. None: a key that was sent encrypted would be sent in the clear."""
        model, _ = self._subject(path)
        with self._lock:
            at = self._servers.setdefault(to, _Address(to, self._context))
            if (at.host, at.port, at.prefix, at.context is None) == (base.host, base.port, base.prefix, base.context is None):
                self._models.pop(model, None)
                return base
            if asked.context is not None and at.context is None:
                return None
            if model:
                self._models[model] = at
            return at

    def decided(self, path: str, event_id: str) -> None:
        """Remember the server of an event whose model is not at the client's address."""
        model, _ = self._subject(path)
        with self._lock:
            at = self._models.get(model)
            if at is not None:
                if len(self._events) >= _MOST_WRITERS:
                    self._events.clear()
                self._events[event_id[:16]] = at

    def forget(self, path: str) -> bool:
        model, writer = self._subject(path)
        with self._lock:
            return (self._models.pop(model, None) if model else self._events.pop(writer, None)) is not None


class _Address:
    """Where a server is reached."""

    def __init__(self, text: str, context: Optional[ssl.SSLContext]) -> None:
        url = urlsplit(text)
        if url.scheme not in ("http", "https") or not url.hostname or url.query or url.fragment:
            raise ValueError(f"base_url is {text!r}, expected http://HOST:PORT or https://HOST:PORT, or several with "
                             "commas between them")
        self.host, self.port, self.prefix = url.hostname, url.port, url.path.rstrip("/")
        self.context = (context or ssl.create_default_context()) if url.scheme == "https" else None

    def connection(self, timeout: float) -> http.client.HTTPConnection:
        if self.context is not None:
            return http.client.HTTPSConnection(self.host, self.port, timeout=timeout, context=self.context)
        return http.client.HTTPConnection(self.host, self.port, timeout=timeout)


def _model(name: str) -> str:
    return "/v1/models/" + quote(name, safe="")


def _request(context: Any, actions: Optional[Iterable[Candidate]], more: Json) -> Json:
    body = {k: v for k, v in more.items() if v is not None}
    if body.get("numbers") is not None:
        body["numbers"] = [n.json() if isinstance(n, Number) else n for n in body["numbers"]]
    if context is not None:
        body["context"] = context
    if actions is not None:
        body["actions"] = [{"id": a} if isinstance(a, str) else a for a in actions]
    return body


def _problem(raw: Json) -> Problem:
    return Problem(raw["status"], raw)


def _paid(value: Union[float, Mapping[str, float]]) -> Json:
    """The fields of a reward: one number, or values by name."""
    if isinstance(value, Mapping):
        return {"reward": {name: _number(v) for name, v in value.items()}}
    return {"value": _number(value)}


def _number(value: float) -> float:
    number = float(value)
    if number != number or number in (float("inf"), float("-inf")):
        raise ValueError(f"value is {value}, expected a finite number")
    return number
