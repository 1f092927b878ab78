"""Experiments and evaluations: this module starts the troupe program and reads what it answers.

The program is the one that TROUPE_BIN names, the one of the wheel beside this Python, or troupe on PATH.
"""

from __future__ import annotations

import csv
import html
import json
import math
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Tuple, Union

Json = Dict[str, Any]


class ProgramError(Exception):
    """The program ended with another code than 0. code is its exit code: 2 is misuse, 3 no answer, 130 interrupted."""

    def __init__(self, code: int, text: str) -> None:
        self.code = code
        super().__init__(text.strip() or f"exit code {code}")


def _binary() -> str:
    named = os.environ.get("TROUPE_BIN")
    # A wheel with the program puts it beside python, also where that environment is not on PATH.
    found = named or shutil.which("troupe", path=sysconfig.get_path("scripts")) or shutil.which("troupe")
    if not found:
        raise FileNotFoundError("troupe is not beside this Python and not on PATH, and TROUPE_BIN does not name it")
    return found


@dataclass(frozen=True)
class Standing:
    """One policy in one environment, as the table of the page has it."""

    environment: str
    policy: str
    replications: int
    mean: float  #: regret at the horizon
    se: float
    verdict: str


@dataclass(frozen=True)
class Run:
    """The results of an experiment."""

    directory: Path
    standings: Tuple[Standing, ...]
    notes: Tuple[str, ...] = ()

    def rows(self) -> List[Json]:
        """The lines of results.csv, with numbers."""
        with open(self.directory / "results.csv", newline="", encoding="utf-8") as file:
            return [{"environment": r["environment"], "policy": r["policy"], "replication": int(r["replication"]),
                     "round": int(r["round"]), "regret": float(r["regret"]), "reward": float(r["reward"])}
                    for r in csv.DictReader(file)]

    def frame(self) -> Any:
        """results.csv as a data frame of pandas, or of polars where only that is there."""
        path = self.directory / "results.csv"
        try:
            import pandas
            return pandas.read_csv(path)
        except ImportError:
            pass
        try:
            import polars
        except ImportError:
            raise ImportError("frame needs pandas or polars; rows() needs neither") from None
        return polars.read_csv(path)

    def figure(self, name: str = "regret") -> str:
        """A figure of the page as SVG."""
        return (self.directory / "figures" / f"{name}.svg").read_text(encoding="utf-8")

    def _repr_html_(self) -> str:
        head = "".join(f"<th>{h}</th>" for h in ("environment", "policy", "regret", "± se", "verdict"))
        rows = "".join(
            f"<tr><td>{html.escape(s.environment)}</td><td>{html.escape(s.policy)}</td><td>{s.mean:.4g}</td>"
            f"<td>{s.se:.2g}</td><td>{html.escape(s.verdict)}</td></tr>" for s in self.standings)
        try:
            picture = self.figure()
        except OSError:
            picture = ""
        return f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>{picture}"


def run(spec: Union[str, os.PathLike, Mapping[str, Any]], out: Union[str, os.PathLike, None] = None, *,
        replications: Optional[int] = None, horizon: Optional[int] = None, seed: Optional[int] = None,
        workers: Optional[int] = None, force: bool = False, report: bool = True,
        progress: Optional[Callable[[Json], None]] = None) -> Run:
    """Run an experiment: a spec file, the name of one that troupe has, or a dict with the keys of a spec.

    The results are in out; without it, of a name or a file in runs/NAME, of a dict in a new temporary directory. A
    directory that has finished cells of the same spec goes on from them. progress gets each event of troupe run --json;
    without it a line on standard error is kept up to date.
    """
    command = [_binary(), "run"]
    if isinstance(spec, Mapping):
        home = Path(tempfile.mkdtemp(prefix="troupe-"))
        file = home / "spec.toml"
        file.write_text(to_toml(spec), encoding="utf-8")
        command.append(str(file))
        if out is None:
            out = home / "results"
    else:
        command.append(os.fspath(spec))
    for name, value in (("out", out), ("replications", replications), ("horizon", horizon), ("seed", seed),
                        ("workers", workers)):
        if value is not None:
            command += [f"--{name}", str(os.fspath(value) if name == "out" else value)]
    command += ["--json"] + ["--force"] * force + ["--no-report"] * (not report)
    shown = progress or _Line()
    standings: List[Standing] = []
    notes: List[str] = []
    results = ""
    fault: Optional[Json] = None
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                          encoding="utf-8") as process:
        assert process.stdout is not None and process.stderr is not None
        try:
            for line in process.stdout:
                event = json.loads(line)
                shown(event)
                if event["event"] == "policy":
                    standings.append(Standing(event["environment"], event["name"], event["replications"], event["mean"],
                                              event["se"], event["verdict"]))
                elif event["event"] == "note":
                    notes.append(event["text"])
                elif event["event"] == "end":
                    results = event["results"]
                elif event["event"] == "error":
                    fault = event
        except KeyboardInterrupt:  # the program has the signal too, and keeps what is finished
            process.wait()
            raise
        failure = process.stderr.read()
    if process.returncode != 0:
        if fault is not None and isinstance(spec, Mapping):  # the file is this function's own
            failure = f"spec: {fault['path']}: {fault['text']}" if fault["path"] else f"spec: {fault['text']}"
        raise ProgramError(process.returncode, failure)
    return Run(Path(results).parent, tuple(standings), tuple(notes))


class _Line:
    """Progress on one line of standard error."""

    def __call__(self, event: Json) -> None:
        if event["event"] == "progress":
            left = event.get("left_s")
            text = f"{event['done']} of {event['total']} cells"
            if left:
                text += f", {left:.0f} s left"
            sys.stderr.write("\r" + text.ljust(60))
        elif event["event"] == "end":
            sys.stderr.write("\r" + " " * 60 + "\r")
        sys.stderr.flush()


@dataclass(frozen=True)
class Target:
    """What a log says of one target."""

    name: str
    value: Optional[float]  #: the difference to what ran; None where the log is worth fewer than ten decisions
    interval: Optional[Tuple[float, float]]  #: of the difference; holds at every look
    verdict: str
    raw: Json = field(repr=False, compare=False, default_factory=dict)


@dataclass(frozen=True)
class Evaluation:
    """The answer of troupe evaluate."""

    events: int
    targets: Tuple[Target, ...]
    warnings: Tuple[str, ...]
    raw: Json = field(repr=False, compare=False, default_factory=dict)  #: the whole object of --json


def policy_value(log: Union[str, os.PathLike], targets: Union[str, Sequence[str]] = "uniform",
                 **flags: Any) -> Evaluation:
    """Estimate from a log of decisions what targets would have earned. flags are those of troupe evaluate, with _ for -:
    policy_value("events.dsjson", ["uniform", "greedy"], estimators="all"). A flag that is True has no value: at_end=True.
    outcome=["click", "latency=0:10"] asks for several rewards, unit="person" names the column of persons, logger="law.toml" the law of the logger, propensities="estimate" has it estimated."""
    command = [_binary(), "evaluate", os.fspath(log), "--json"]
    for target in [targets] if isinstance(targets, str) else targets:
        command += ["--target", target]
    for name, value in flags.items():
        flag = "--" + name.replace("_", "-")
        if value is True:
            command.append(flag)
        elif isinstance(value, (list, tuple)):
            for one in value:
                command += [flag, str(one)]
        elif value not in (None, False):
            command += [flag, str(value)]
    done = subprocess.run(command, capture_output=True, text=True, encoding="utf-8")
    if done.returncode != 0:
        raise ProgramError(done.returncode, done.stderr)
    raw = json.loads(done.stdout)
    found = []
    if "outcomes" in raw:  # several rewards: the intervals are in raw["outcomes"]
        results = [x["result"] for x in raw["outcomes"]]
        found = [Target(t["name"], None, None, t["verdict"], t) for t in raw["targets"]]
        said = dict.fromkeys(w for r in results for w in r.get("warnings") or ())
        return Evaluation(results[0]["log"]["events"], tuple(found), tuple(said), raw)
    for t in raw["targets"]:
        uplift = t.get("uplift") or {}
        ends = uplift.get("sequence")
        interval = None
        if ends is not None:
            interval = (-math.inf if ends[0] is None else ends[0], math.inf if ends[1] is None else ends[1])
        found.append(Target(t["name"], uplift.get("value"), interval, t["verdict"], t))
    return Evaluation(raw["log"]["events"], tuple(found), tuple(raw.get("warnings") or ()), raw)


def to_toml(spec: Mapping[str, Any]) -> str:
    """A spec as TOML.

    >>> print(to_toml({"horizon": 100, "policy": [{"kind": "greedy"}]}), end="")
    horizon = 100
    <BLANKLINE>
    [[policy]]
    kind = "greedy"
    """
    head, tables = [], []
    for key, value in spec.items():
        if isinstance(value, (list, tuple)) and value and all(isinstance(v, Mapping) for v in value):
            for table in value:
                tables.append(f"\n[[{_key(key)}]]\n" + "".join(f"{_key(k)} = {_value(v, k)}\n" for k, v in table.items()))
        else:
            head.append(f"{_key(key)} = {_value(value, key)}\n")
    return "".join(head + tables)


def _key(key: Any) -> str:
    if not isinstance(key, str):
        raise TypeError(f"a key of the spec is {key!r}, expected a string")
    plain = key.replace("-", "").replace("_", "")
    return key if plain.isascii() and plain.isalnum() else json.dumps(key)


def _value(value: Any, path: str) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return json.dumps(value)
    if hasattr(value, "item") and not isinstance(value, (list, tuple)):  # a number of numpy
        value = value.item()
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        if not math.isfinite(value):
            raise ValueError(f"{path} is {value}, expected a finite number")
        return repr(value)
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(_value(v, f"{path}[{i}]") for i, v in enumerate(value)) + "]"
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{_key(k)} = {_value(v, f'{path}.{k}')}" for k, v in value.items()) + " }"
    raise TypeError(f"{path} is {value!r}, expected what TOML has: strings, numbers, truth values, lists and dicts")
