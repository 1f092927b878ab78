"""A policy in Python that troupe plays beside its own.

A spec names the program, and troupe gives it the same instances and the same noise as every other policy:

    [[policy]]
    kind    = "process"
    command = ["python3", "mine.py"]

The program is a subclass of Policy and a call of main:

    from troupe.policy import Policy

    class Mine(Policy):
        def begin(self):
            self.sums = [0.0] * self.problem.arms
            self.counts = [0] * self.problem.arms

        def select(self, arms, draw):
            if draw.random.random() < self.options.get("epsilon", 0.1):
                return draw.random.randrange(len(arms))
            means = [s / n if n else 1.0 for s, n in zip(self.sums, self.counts)]
            return means.index(max(means))

        def update(self, index, x, reward, draw):
            self.sums[index] += reward
            self.counts[index] += 1

    if __name__ == "__main__":
        Mine.main()

This module needs the standard library only and is one file, so that it can stand beside a program. With numpy
installed, arms are an array of shape (K, d); without it, a list of lists. The messages are described in
docs/reference/process.md of troupe.
"""

from __future__ import annotations

import base64
import io
import json
import platform
import random
import struct
import sys
import time
from array import array
from typing import Any, BinaryIO, Dict, Iterator, List, NamedTuple, Optional, Sequence, Tuple

try:
    import numpy
except ImportError:  # pragma: no cover - numpy is optional
    numpy = None  # type: ignore[assignment]

PROTOCOL = 1
_MARK = 0xF5
_JSON, _SELECT, _LAW, _UPDATE, _ACTION, _PROBS = 0, 1, 2, 3, 4, 5
_OFFER, _REWARD, _REGRET, _SET, _PAID, _COST = 6, 7, 8, 9, 10, 11
_BALL = 0xFFFFFFFF  # in place of a number of arms
_MOST = 64 << 20
_CHUNK = 64 << 10  # bytes that are read at once
_PATIENCE = 0.05  # seconds for which answers may wait for those to the messages that are there already
_HEAD = struct.Struct("<BBI")
_SELECTS, _UPDATES, _ACTIONS = struct.Struct("<IIQII"), struct.Struct("<IIQidI"), struct.Struct("<IiI")
_PLAYS = struct.Struct("<IIQiI")


class Problem(NamedTuple):
    """What a policy may know before round 1."""

    dim: int
    arms: int  #: 0 for a set that is not finite
    horizon: int  #: 0 when unknown
    sigma: float  #: subgaussian constant of the noise
    range: Optional[Tuple[float, float]]  #: of rewards, where it is declared


class Draw:
    """The random numbers of one call: equal calls get equal ones. Take all randomness from here."""

    __slots__ = ("round", "seed", "_random", "_numpy")

    def __init__(self, number: int, seed: int) -> None:
        self.round = number
        self.seed = seed
        self._random: Optional[random.Random] = None
        self._numpy: Any = None

    @property
    def random(self) -> random.Random:
        """The standard library's generator, seeded for this call."""
        if self._random is None:
            self._random = random.Random(self.seed)
        return self._random

    @property
    def numpy(self) -> Any:
        """numpy's default generator, seeded for this call."""
        if self._numpy is None:
            self._numpy = numpy.random.default_rng(self.seed)
        return self._numpy


class Policy:
    """One cell: one replication on one environment. Subclass it and call main.

    select reads and update writes: two calls of select without an update between them, with equal arguments, return
    the same action. A policy that also defines law, or snapshot and restore, says so by defining them.
    """

    #: reported to troupe; a change of name or versions makes troupe play the cells again
    name: str = ""
    #: False keeps the lines of JSON, to be read by eye
    packed: bool = True

    def __init__(self, problem: Problem, options: Dict[str, Any], draw: Draw) -> None:
        self.problem = problem
        self.options = options
        self.draw = draw
        self.begin()

    def begin(self) -> None:
        """Called once, before round 1. self.problem, self.options and self.draw are set."""

    def select(self, arms: Any, draw: Draw) -> Any:
        """Return the index of an arm; on the unit ball, where arms is None, a vector of norm at most 1."""
        raise NotImplementedError

    def update(self, index: int, x: Any, reward: float, draw: Draw) -> None:
        """Learn the reward of arm index with features x; index is -1 for a vector that is no arm."""
        raise NotImplementedError

    # def law(self, arms, draw) -> Sequence[float]: the probability of each arm, over draws of one round
    # def snapshot(self) -> bytes: the whole state
    # def restore(self, state: bytes) -> None

    @classmethod
    def versions(cls) -> Dict[str, str]:
        """What the numbers depend on, by name."""
        found = {"python": platform.python_version()}
        if numpy is not None:
            found["numpy"] = numpy.__version__
        return found

    @classmethod
    def main(cls) -> None:
        """Play cells until standard input ends. Text that is printed goes to standard error."""
        _main(_Policies, cls)


class Environment:
    """One cell of an environment: one replication, as one policy plays it. Subclass it and call main.

        [[environment]]
        kind    = "process"
        command = ["python3", "world.py"]

    begin sets self.dim, and may set self.sigma, the subgaussian constant of the noise, and self.largest_regret, what a
    round costs at most. Take all randomness from the draws: two cells with equal draws are the same world, and every
    policy meets the same noise.
    """

    #: reported to troupe; a change of name or versions makes troupe play the cells again
    name: str = ""
    #: number of features of an arm
    dim: int = 0
    #: subgaussian constant of the noise; 0 where there is none or it is not known
    sigma: float = 0.0
    #: what a round costs at most, the same in every cell; 0 where no bound is known
    largest_regret: float = 0.0
    #: False keeps the lines of JSON, to be read by eye
    packed: bool = True

    def __init__(self, options: Dict[str, Any], draw: Draw) -> None:
        self.options = options
        self.draw = draw
        self.begin()

    def begin(self) -> None:
        """Called once, before round 1. self.options and self.draw are set."""

    def offer(self, draw: Draw) -> Any:
        """Return the arms of the round, rows of norm at most 1; None for the unit ball."""
        raise NotImplementedError

    def reward(self, index: int, x: Any, draw: Draw) -> float:
        """Return the reward of arm index with features x; index is -1 for a vector of the ball."""
        raise NotImplementedError

    def regret(self, index: int, x: Any) -> float:
        """Return what the mean of the action lacks to the best of the round, at least 0. It changes nothing."""
        raise NotImplementedError

    @classmethod
    def versions(cls) -> Dict[str, str]:
        """What the numbers depend on, by name."""
        return Policy.versions()

    @classmethod
    def main(cls) -> None:
        """Play cells until standard input ends. Text that is printed goes to standard error."""
        _main(_Worlds, cls)


def conform_environment(cls: type, options: Optional[Dict[str, Any]] = None, *, rounds: int = 60) -> None:
    """Hold an environment to the rules of docs/reference/process.md; AssertionError says which one is broken and when.

    Two cells with equal draws offer equal arms, also when different arms are played, and pay equal rewards for equal
    arms; arms are of the dimension and in the unit ball; some arm has regret 0, and none has less; its messages say
    the same as lines of JSON and as frames.
    """
    first, second = cls(dict(options or {}), Draw(0, 1)), cls(dict(options or {}), Draw(0, 1))
    world = random.Random(rounds)
    assert first.dim >= 1, f"begin left dim at {first.dim}, expected the number of features of an arm"
    for t in range(1, rounds + 1):
        arms, other = _rows(first.offer(Draw(t, 1000 + t))), _rows(second.offer(Draw(t, 1000 + t)))
        assert arms == other, f"round {t}: two cells with equal draws offer different arms: take all randomness from draw"
        if arms is None:
            x = [world.gauss(0, 1) for _ in range(first.dim)]
            norm = sum(v * v for v in x) ** 0.5
            arms = [[v / norm for v in x]]
            indices = [-1]
        else:
            indices = list(range(len(arms)))
            assert min(first.regret(i, arms[i]) for i in indices) <= 1e-9, f"round {t}: no arm has regret 0"
        for i in indices:
            assert len(arms[i]) == first.dim, f"round {t}: arm {i} has {len(arms[i])} numbers, expected {first.dim}"
            assert sum(v * v for v in arms[i]) <= 1 + 1e-9, f"round {t}: arm {i} is longer than 1"
            cost, again = first.regret(i, arms[i]), first.regret(i, arms[i])
            assert cost == again, f"round {t}: regret twice returned {cost} and {again}"
            assert cost >= -1e-9, f"round {t}: arm {i} has regret {cost}, expected at least 0"
            top = first.largest_regret
            assert not top or cost <= top * (1 + 1e-9), f"round {t}: arm {i} has regret {cost}, above largest_regret {top}"
        i = world.choice(indices)
        paid = float(first.reward(i, arms[i], Draw(t, 5000 + t)))
        same = float(second.reward(i, arms[i], Draw(t, 5000 + t)))
        assert paid == same, f"round {t}: two cells with equal draws pay {paid} and {same}: take all randomness from draw"
        assert paid - paid == 0, f"round {t}: the reward is {paid}, expected a finite number"
    lines, frames = _tour(cls, options, False, min(rounds, 10)), _tour(cls, options, True, min(rounds, 10))
    assert lines == frames, f"as lines of JSON it says {lines}, as frames {frames}: take all randomness from draw"


def _tour(cls: type, options: Optional[Dict[str, Any]], packed: bool, rounds: int) -> List[Any]:
    """What an environment answers to messages: of each round its arms, reward and regret."""
    loop, said = _Worlds(cls, io.BytesIO(), io.BytesIO()), []
    loop.message({"type": "init", "cell": 1, "seed": 1, "options": dict(options or {})})
    loop.packed = packed
    for t in range(1, rounds + 1):
        loop.sink = io.BytesIO()
        offer, pay = {"cell": 1, "round": t, "seed": 1000 + t}, {"cell": 1, "round": t, "seed": 5000 + t}
        if packed:
            loop.frame_offer(_OFFER, struct.pack("<IIQ", *offer.values()))
        else:
            loop.message({"type": "offer", **offer})
        arms = loop.arms[1]
        x = [1.0] + [0.0] * (loop.cells[1].dim - 1) if arms is None else None
        if packed:
            loop.frame_action(_REWARD, _PLAYS.pack(*pay.values(), -1 if x else 0, len(x or ())) + _doubles(x or ()))
        else:
            loop.message({"type": "reward", **pay, **({"x": x} if x else {"index": 0})})
        raw = loop.sink.getvalue()
        said.append((arms, *(struct.unpack("<dd", raw[-16:]) if packed else
                             [json.loads(raw.splitlines()[-1])[key] for key in ("reward", "regret")])))
    return said


def _rows(arms: Any) -> Optional[List[List[float]]]:
    """Arms as lists of numbers."""
    return None if arms is None else [[float(v) for v in row] for row in arms]


def conform(cls: type, options: Optional[Dict[str, Any]] = None, *, dim: int = 4, arms: int = 6, rounds: int = 60) -> None:
    """Hold a policy to the rules of docs/reference/process.md; AssertionError says which one is broken and when.

    Two cells with equal seeds act equally; select changes nothing and answers an index; a law has a probability for
    each arm, sums to 1, and is what 2,000 draws of the last round give, within five standard errors; a restored
    snapshot goes on as the policy does.
    """
    world = random.Random(dim)
    problem = Problem(dim, arms, rounds, 1.0, None)

    def start(state: Optional[bytes] = None) -> Any:
        policy = cls(problem, dict(options or {}), Draw(0, 1))
        if state is not None:
            policy.restore(state)
        return policy

    first, second = start(), start()
    for t in range(1, rounds + 1):
        shown: Any = [[world.gauss(0, 1) for _ in range(dim)] for _ in range(arms)]
        if numpy is not None:
            shown = numpy.array(shown)
        i = first.select(shown, Draw(t, 1000 + t))
        assert 0 <= int(i) < arms and int(i) == i, f"round {t}: select returned {i!r}, expected an index below {arms}"
        again = first.select(shown, Draw(t, 1000 + t))
        assert again == i, f"round {t}: select twice with one draw returned {i} and {again}: it changed the policy, or has other randomness"
        other = second.select(shown, Draw(t, 1000 + t))
        assert other == i, f"round {t}: two cells with equal seeds chose {i} and {other}: take all randomness from draw"
        if _has(cls, "law"):
            law = [float(p) for p in first.law(shown, Draw(t, 1000 + t))]
            assert len(law) == arms, f"round {t}: law has {len(law)} probabilities, expected {arms}"
            assert min(law) >= 0 and abs(sum(law) - 1) < 1e-9, f"round {t}: law {law}, expected probabilities with sum 1"
            assert first.select(shown, Draw(t, 1000 + t)) == i, f"round {t}: after law, select with the same draw returned another arm than {i}: law changed the policy, or it has other randomness"
        reward = float(shown[i][0]) + world.gauss(0, 1)
        if t == rounds and _has(cls, "law"):
            _counts(first, shown, law, t)
        first.update(int(i), shown[i], reward, Draw(t, 5000 + t))
        second.update(int(i), shown[i], reward, Draw(t, 5000 + t))
        if _has(cls, "snapshot") and _has(cls, "restore") and t == rounds // 2:
            second = start(first.snapshot())


def _counts(policy: Any, shown: Any, law: Sequence[float], t: int) -> None:
    """Compare a law with draws of one round."""
    n = 2000
    counts = [0] * len(law)
    for seed in range(n):
        counts[policy.select(shown, Draw(t, seed))] += 1
    for i, (k, p) in enumerate(zip(counts, law)):
        error = 5 * (p * (1 - p) / n) ** 0.5
        assert abs(k / n - p) <= error, f"round {t}: arm {i} was chosen in {k} of {n} draws, and law says {p:g}"


def _has(cls: type, name: str) -> bool:
    return callable(getattr(cls, name, None))


def _main(loop: type, cls: type) -> None:
    """Run a loop on standard input and output."""
    out = sys.stdout.buffer
    sys.stdout = sys.stderr  # a print of the class is no message
    try:
        loop(cls, sys.stdin.buffer, out).run()
    except (BrokenPipeError, KeyboardInterrupt):
        pass


class _Loop:
    """Reads messages and answers them, those of several cells that arrive together with one write."""

    role = ""

    def __init__(self, cls: type, source: BinaryIO, sink: BinaryIO) -> None:
        self.cls = cls
        self.source: Any = source
        self.sink = sink
        self.packed = False
        self.cells: Dict[int, Any] = {}
        self.arms: Dict[int, Any] = {}  # of each cell, as they were shown last
        self.kinds: Dict[int, Any] = {}  # of frames: what answers one

    def greeting(self) -> Dict[str, Any]:
        """What the greeting has beside what every program says."""
        raise NotImplementedError

    def message(self, m: Dict[str, Any]) -> None:
        """Answer a message."""
        raise NotImplementedError

    def run(self) -> None:
        line = self.source.readline()
        if not line:
            return
        hello = json.loads(line)
        if hello.get("type") != "hello" or hello.get("protocol") != PROTOCOL:
            raise SystemExit(f"expected hello with protocol {PROTOCOL}, got {hello}")
        packed = bool(hello.get("packed")) and self.cls.packed
        self.say({"type": "hello", "protocol": PROTOCOL, "name": self.cls.name or self.cls.__name__,
                  "versions": self.cls.versions(), "packed": packed, **self.greeting()})
        self.packed = packed
        self.sink.flush()
        late = time.monotonic() + _PATIENCE
        for kind, body in self.frames_in() if packed else self.lines_in():
            if kind == _JSON:
                self.message(json.loads(body))
            elif kind in self.kinds:
                self.kinds[kind](kind, body)
            else:
                raise SystemExit(f"a frame of kind {kind} is not known")
            if time.monotonic() > late:
                self.sink.flush()
                late = time.monotonic() + _PATIENCE

    def lines_in(self) -> Iterator[Tuple[int, bytes]]:
        """Yield the lines. Answers leave before it waits for more."""
        buffer, at = b"", 0
        while True:
            end = buffer.find(b"\n", at) + 1
            if end:
                yield _JSON, buffer[at:end]
                at = end
                continue
            self.sink.flush()
            more = self.source.read1(_CHUNK)
            if not more:
                return
            if b"\n" not in more:
                more += self.source.readline()
            buffer, at = buffer[at:] + more, 0

    def frames_in(self) -> Iterator[Tuple[int, bytes]]:
        """Yield kind and body of the frames. Answers leave before it waits for more."""
        buffer, at = b"", 0
        while True:
            lacks = 6 + at - len(buffer)
            if lacks <= 0:
                mark, kind, size = _HEAD.unpack_from(buffer, at)
                if mark != _MARK or size > _MOST:
                    raise SystemExit("a frame begins with other bytes than expected")
                lacks += size
                if lacks <= 0:
                    end = at + 6 + size
                    yield kind, buffer[at + 6:end]
                    at = end
                    continue
            self.sink.flush()
            more = self.source.read(lacks) if lacks > _CHUNK else self.source.read1(_CHUNK)
            if not more:
                return
            buffer, at = buffer[at:] + more, 0

    def say(self, message: Dict[str, Any]) -> None:
        text = json.dumps(message, allow_nan=False).encode()
        self.sink.write(_HEAD.pack(_MARK, _JSON, len(text)) + text if self.packed else text + b"\n")

    def frame(self, kind: int, body: bytes) -> None:
        self.sink.write(_HEAD.pack(_MARK, kind, len(body)) + body)

    def forget(self, cell: int) -> None:
        self.cells.pop(cell, None)
        self.arms.pop(cell, None)


class _Policies(_Loop):
    """The messages to a policy."""

    def __init__(self, cls: type, source: BinaryIO, sink: BinaryIO) -> None:
        super().__init__(cls, source, sink)
        self.kinds = {_SELECT: self.frame_select, _LAW: self.frame_select, _UPDATE: self.frame_update}

    def greeting(self) -> Dict[str, Any]:
        return {"law": _has(self.cls, "law"), "snapshot": _has(self.cls, "snapshot") and _has(self.cls, "restore"),
                "turns": True}

    def message(self, m: Dict[str, Any]) -> None:
        kind, cell = m["type"], m["cell"]
        draw = Draw(m.get("round", 0), m.get("seed", 0))
        if kind == "init":
            p = m["problem"]
            limits = p.get("range")
            problem = Problem(p["dim"], p.get("arms", 0), p.get("horizon", 0), p["sigma"], limits and tuple(limits))
            self.cells[cell] = self.cls(problem, m["options"], draw)
            self.say({"type": "ready", "cell": cell})
        elif kind == "end":
            self.forget(cell)
        elif kind in ("select", "law"):
            if m.get("set") == "ball":
                self.arms[cell] = None
            elif "arms" in m:
                self.arms[cell] = numpy.array(m["arms"], dtype=float) if numpy is not None else m["arms"]
            arms = self.arms[cell]
            if kind == "law":
                self.say({"type": "law", "cell": cell, "law": [float(p) for p in self.cells[cell].law(arms, draw)]})
                return
            choice = self.cells[cell].select(arms, draw)
            if arms is None:
                self.say({"type": "action", "cell": cell, "vector": [float(v) for v in choice]})
            else:
                self.say({"type": "action", "cell": cell, "index": int(choice)})
        elif kind == "update":
            index = m.get("index", -1)
            x = m.get("x")
            x = self.arms[cell][index] if x is None else _vector(x)
            self.cells[cell].update(index, x, m["reward"], draw)
        elif kind == "snapshot":
            state = base64.b64encode(self.cells[cell].snapshot()).decode()
            self.say({"type": "state", "cell": cell, "state": state})
        elif kind == "restore":
            self.cells[cell].restore(base64.b64decode(m["state"]))
            self.say({"type": "ready", "cell": cell})
        else:
            raise SystemExit(f"a message of type {kind} is not known")

    def frame_select(self, kind: int, body: bytes) -> None:
        cell, number, seed, k, d = _SELECTS.unpack_from(body)
        if k == _BALL:
            self.arms[cell] = None
        elif k:
            self.arms[cell] = _matrix(body[24:], k, d)
        arms = self.arms.setdefault(cell, None)
        policy = self.cells[cell]
        if kind == _LAW:
            law = _doubles(policy.law(arms, Draw(number, seed)))
            self.frame(_PROBS, struct.pack("<II", cell, len(law) // 8) + law)
            return
        choice = policy.select(arms, Draw(number, seed))
        if arms is None:
            vector = _doubles(choice)
            self.frame(_ACTION, _ACTIONS.pack(cell, -1, len(vector) // 8) + vector)
        else:
            self.frame(_ACTION, _ACTIONS.pack(cell, int(choice), 0))

    def frame_update(self, kind: int, body: bytes) -> None:
        cell, number, seed, index, reward, d = _UPDATES.unpack_from(body)
        x = _matrix(body[32:], 1, d)[0] if d else self.arms[cell][index]
        self.cells[cell].update(index, x, reward, Draw(number, seed))


class _Worlds(_Loop):
    """The messages to an environment."""

    def __init__(self, cls: type, source: BinaryIO, sink: BinaryIO) -> None:
        super().__init__(cls, source, sink)
        self.kinds = {_OFFER: self.frame_offer, _REWARD: self.frame_action, _REGRET: self.frame_action}

    def greeting(self) -> Dict[str, Any]:
        return {"role": "environment"}

    def message(self, m: Dict[str, Any]) -> None:
        kind, cell = m["type"], m["cell"]
        draw = Draw(m.get("round", 0), m.get("seed", 0))
        if kind == "init":
            world = self.cells[cell] = self.cls(m["options"], draw)
            self.say({"type": "ready", "cell": cell, "dim": int(world.dim), "sigma": float(world.sigma),
                      "largest_regret": float(world.largest_regret)})
        elif kind == "end":
            self.forget(cell)
        elif kind == "offer":
            arms, new = self.offer(cell, draw)
            answer: Dict[str, Any] = {"type": "set", "cell": cell}
            if arms is None:
                answer["set"] = "ball"
            elif new:
                answer["arms"] = arms
            self.say(answer)
        elif kind in ("reward", "regret"):
            paid, cost = self.settle(kind == "reward", cell, m.get("index", -1), m.get("x"), draw)
            self.say({"type": kind, "cell": cell, "regret": cost, **({"reward": paid} if kind == "reward" else {})})
        else:
            raise SystemExit(f"a message of type {kind} is not known")

    def offer(self, cell: int, draw: Draw) -> Tuple[Optional[List[List[float]]], bool]:
        """The arms of a round, and whether they are others than those before."""
        arms = _rows(self.cells[cell].offer(draw))
        if arms is not None and len(arms) == 0:
            raise ValueError(f"round {draw.round}: offer returned no arms, expected at least one, or None for the ball")
        new = cell not in self.arms or self.arms[cell] != arms
        self.arms[cell] = arms
        return arms, new

    def settle(self, pays: bool, cell: int, index: int, x: Any, draw: Draw) -> Tuple[float, float]:
        """Reward, 0 where none is paid, and regret of an action."""
        world = self.cells[cell]
        x = _vector(self.arms[cell][index] if x is None else x)
        cost = float(world.regret(index, x))
        paid = float(world.reward(index, x, draw)) if pays else 0.0
        if cost - cost != 0 or paid - paid != 0:
            raise ValueError(f"reward {paid}, regret {cost}: expected finite numbers")
        return paid, cost

    def frame_offer(self, kind: int, body: bytes) -> None:
        cell, number, seed = struct.unpack("<IIQ", body)
        arms, new = self.offer(cell, Draw(number, seed))
        if arms is None:
            self.frame(_SET, struct.pack("<IiI", cell, -1, 0))
        elif not new:
            self.frame(_SET, struct.pack("<IiI", cell, 0, 0))
        else:
            d = len(arms[0])
            if any(len(row) != d for row in arms):
                raise ValueError(f"arms of lengths {sorted({len(row) for row in arms})}: expected rows of one length")
            self.frame(_SET, struct.pack("<IiI", cell, len(arms), d) + _doubles([v for row in arms for v in row]))

    def frame_action(self, kind: int, body: bytes) -> None:
        cell, number, seed, index, d = _PLAYS.unpack_from(body)
        x = _matrix(body[24:], 1, d)[0] if d else None
        paid, cost = self.settle(kind == _REWARD, cell, index, x, Draw(number, seed))
        if kind == _REWARD:
            self.frame(_PAID, struct.pack("<Idd", cell, paid, cost))
        else:
            self.frame(_COST, struct.pack("<Id", cell, cost))


def _vector(x: Any) -> Any:
    """A vector as the classes get it."""
    return x if numpy is None else numpy.array(x, dtype=float)


def _matrix(raw: bytes, k: int, d: int) -> Any:
    if numpy is not None:
        return numpy.frombuffer(raw, dtype="<f8").reshape(k, d)
    flat = array("d", raw)
    if sys.byteorder == "big":
        flat.byteswap()
    return [list(flat[i * d:(i + 1) * d]) for i in range(k)]


def _doubles(x: Sequence[float]) -> bytes:
    values: List[float] = [float(v) for v in x]
    return struct.pack(f"<{len(values)}d", *values)
