"""Tests against the real program: TROUPE_BIN=… python3 -m unittest discover tests"""

import ast
import asyncio
import contextlib
import doctest
import hashlib
import io
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import venv
from fractions import Fraction
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
sys.path.insert(0, str(HERE.parent / "examples"))

sys.path.insert(0, str(HERE))

import build_package  # noqa: E402
import contract  # noqa: E402
import troupe  # noqa: E402
import troupe.client  # noqa: E402
import troupe.program  # noqa: E402


def setUpModule():
    """Every answer of every test is one that the server's own OpenAPI document describes."""
    if contract.jsonschema is None:
        return
    plain = troupe.client._Address.connection

    def connection(at, timeout):
        if at.context is not None:  # TLS
            return plain(at, timeout)
        return contract.Connection(at.host, at.port, timeout=timeout)

    troupe.client._Address.connection = connection


def tearDownModule():
    if contract.jsonschema is not None and contract.checked[0] < 50:
        raise AssertionError(f"{contract.checked[0]} answers were checked")


class Server:
    """A server on a free port, with its data in a directory."""

    def __init__(self, data):
        self.data, self.port, self.process = data, "0", None
        self.start()

    def start(self):
        ready = self.data / "ready"
        ready.unlink(missing_ok=True)
        self.process = subprocess.Popen(
            [os.environ["TROUPE_BIN"], "serve", "--data", str(self.data / "log"), "--listen", f"127.0.0.1:{self.port}",
             "--ready-file", str(ready)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        while not (ready.exists() and ready.read_text().strip()):
            if self.process.poll() is not None:
                raise RuntimeError("the server ended")
            time.sleep(0.02)
        self.url = ready.read_text().split()[0]
        if not self.url.startswith("http"):
            self.url = "http://" + self.url
        self.port = self.url.rsplit(":", 1)[1].rstrip("/")

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()


class TestClient(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.room = tempfile.TemporaryDirectory()
        cls.server = Server(Path(cls.room.name))

    @classmethod
    def tearDownClass(cls):
        cls.server.kill()
        cls.room.cleanup()

    def test_litellm(self):
        """The routing strategy against a stub of LiteLLM's interface: two deployments, one of which always fails."""
        from litellm_troupe import EVENT, TroupeRouting

        class Router:
            model_list = [{"model_name": "chat", "model_info": {"id": name}} for name in ("good", "bad")]
            model_list.append({"model_name": "other", "model_info": {"id": "other"}})

            def set_custom_routing_strategy(self, strategy):
                self.strategy = strategy

            def completion(self, model, messages, metadata):
                kwargs = {"metadata": metadata}
                chosen = self.strategy.get_available_deployment(model=model, messages=messages, request_kwargs=kwargs)
                if chosen["model_info"]["id"] == "bad":
                    self.callback.log_failure_event({"litellm_params": {"metadata": metadata}}, None, 0, 1)
                    return None
                return chosen["model_info"]["id"]

        with troupe.Client(self.server.url) as client:
            client.create_model("routes")
            router = Router()
            routing = TroupeRouting(router, client, "routes")
            router.set_custom_routing_strategy(routing)
            router.callback = routing.failures()
            answers = []
            for i in range(150):
                facts = {"topic": "billing" if i % 2 else "code"}
                answers.append(router.completion("chat", [{"role": "user", "content": "Why?"}], facts))
                self.assertIn(EVENT, facts)
                if answers[-1]:
                    self.assertEqual(routing.reward(facts, 1.0).status, "accepted")
            self.assertGreater(answers[100:].count("good"), 40)
            with self.assertRaises(ValueError):
                router.completion("nothing", [], {})
            got = asyncio.run(routing.async_get_available_deployment(model="other", request_kwargs={}))
            self.assertEqual(got["model_info"]["id"], "other")

    def test_rewards_left(self):
        """Rewards that a server does not take are sent again with their keys, while each call takes some."""
        sent, takes = [], 3

        def call(method, path, body, repeat):
            sent.append(body["rewards"])
            return {"results": [{"result": {"status": "accepted", "seq": int(r["event_id"])}} if i < takes
                                else {"problem": {"status": 429, "code": "too_busy"}}
                                for i, r in enumerate(body["rewards"])]}

        with troupe.Client(self.server.url) as client:
            client._call = call
            answers = client.reward_batch([(str(i), 1.0) for i in range(10)])
            self.assertEqual([a.seq for a in answers], list(range(10)))
            self.assertEqual([len(s) for s in sent], [10, 7, 4, 1])
            self.assertEqual(sent[0][3], sent[1][0])
            takes = 0
            self.assertEqual([a.status for a in client.reward_batch([("1", 1.0), ("2", 0.0)])], [429, 429])
            self.assertEqual(len(sent), 5)

    def test_decide_and_reward(self):
        with troupe.Client(self.server.url) as client:
            client.create_model("news")
            decision = client.decide("news", {"user": {"city": "Oslo"}}, ["sport", "politics"])
            self.assertIn(decision.action, ("sport", "politics"))
            self.assertIsInstance(decision.propensity, Fraction)
            self.assertTrue(Fraction(1, 5) < decision.propensity < Fraction(4, 5), decision.propensity)  # nothing is known yet
            self.assertEqual(client.reward(decision.event_id, 1).status, "accepted")
            self.assertEqual(client.reward(decision.event_id, 1).status, "duplicate")
            same = [client.decide("news", {}, ["a", "b"], key="page-1").event_id for _ in range(2)]
            self.assertEqual(same[0], same[1])
            batch = client.decide_batch("news", [{"actions": ["a", "b"]}, {"actions": []}])
            self.assertIsInstance(batch[0], troupe.Decision)
            self.assertIsInstance(batch[1], troupe.Problem)
            self.assertEqual(client.reward_batch([(batch[0].event_id, 0.5)])[0].status, "accepted")
            records, following = client.log("news")
            self.assertEqual([r["event_id"] for r in records if r["kind"] == "decision"][:1], [decision.event_id])
            self.assertGreater(following, 0)
            self.assertEqual(client.model("news")["name"], "news")

    def test_rewards_with_names(self):
        with troupe.Client(self.server.url) as client:
            client.create_model("basket", rewards={"click": 1, "revenue": .5}, reward={"rule": "sum"})
            decision = client.decide("basket", {}, ["a", "b"])
            self.assertEqual(client.reward(decision.event_id, {"click": 1}).status, "accepted")
            self.assertEqual(client.reward_batch([(decision.event_id, {"revenue": 12.5})])[0].status, "accepted")
            with self.assertRaises(troupe.Problem) as refused:
                client.reward(decision.event_id, 1)
            self.assertEqual(refused.exception.field, "value")
            with self.assertRaises(ValueError):
                client.reward(decision.event_id, {"click": float("nan")})
            records, _ = client.log("basket", entries=10_000)  # other tests write to this log, too
            self.assertEqual([r["reward"] for r in records if r["kind"] == "reward"], [{"click": 1}, {"revenue": 12.5}])

    def test_numbers(self):
        with troupe.Client(self.server.url) as client:
            client.create_model("shop")
            price = troupe.Number("price", 1, 20, step=.5)
            for _ in range(20):
                decision = client.decide("shop", {"segment": "new"}, numbers=[price])
                self.assertEqual(decision.numbers["price"] % .5, 0)
                self.assertEqual((decision.action, decision.density), ("", None))
                self.assertEqual(client.reward(decision.event_id, 20 - decision.numbers["price"]).status, "accepted")
            client.create_model("ads")
            bid = troupe.Number("bid", .01, 5, log=True)
            decision = client.decide("ads", {}, [{"id": "a"}, {"id": "b", "numbers": []}, {"id": "c"}], numbers=[bid])
            if decision.action == "b":
                self.assertEqual((decision.numbers, decision.density), ({}, None))
            else:
                self.assertTrue(.01 <= decision.numbers["bid"] <= 5 and decision.density > 0, decision)
            with self.assertRaises(troupe.Problem) as caught:
                client.decide("shop", {}, numbers=[troupe.Number("price", 0, 20)])
            self.assertEqual((caught.exception.status, caught.exception.field), (422, "numbers[0].min"))
            with self.assertRaises(ValueError):
                client.decide("shop", {}, numbers=[troupe.Number("price", float("nan"), 20)])

    def test_problems(self):
        client = troupe.Client(self.server.url)
        self.addCleanup(client.close)
        with self.assertRaises(troupe.Problem) as caught:
            client.decide("missing", {}, ["a"])
        self.assertEqual((caught.exception.status, caught.exception.code), (404, "not_found"))
        client.create_model("strict")
        with self.assertRaises(troupe.Problem) as caught:
            client.decide("strict", {}, [{"id": "a"}, {"id": "a"}])
        self.assertEqual(caught.exception.field, "actions[1].id")
        with self.assertRaises(ValueError):
            client.reward("x", float("nan"))
        with self.assertRaises(ValueError):
            troupe.Client("127.0.0.1:8080")
        nowhere = troupe.Client("http://127.0.0.1:9", tries=2)
        with self.assertRaises(troupe.Unreachable) as lost:
            nowhere.model("news")
        self.assertFalse(lost.exception.unknown)

    def test_async(self):
        async def many():
            async with troupe.AsyncClient(self.server.url) as client:
                await client.create_model("async")
                decisions = await asyncio.gather(*(client.decide("async", {"i": i}, ["a", "b"]) for i in range(20)))
                results = await asyncio.gather(*(client.reward(d.event_id, 1.0) for d in decisions))
                return {r.status for r in results}
        self.assertEqual(asyncio.run(many()), {"accepted"})


class TestMove(unittest.TestCase):
    def test_moved_model(self):
        """A model goes to another server: calls follow it, rewards of before and after count once, a key has its answer."""
        with tempfile.TemporaryDirectory() as room:
            servers = []
            try:
                for name in "ab":
                    (Path(room) / name).mkdir()
                    servers.append(Server(Path(room) / name))
                with troupe.Client(servers[0].url) as client:
                    client.create_model("news", reward={"rule": "sum"})
                    old = [client.decide("news", {"i": i}, ["x", "y"], key=f"k{i}") for i in range(6)]
                    client.reward(old[0].event_id, 1, key="r0")
                    subprocess.run([os.environ["TROUPE_BIN"], "move", "news", "--from", servers[0].url, "--to", servers[1].url],
                                   check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
                    again = client.decide("news", {"i": 3}, ["x", "y"], key="k3")
                    self.assertEqual((again.event_id, again.action), (old[3].event_id, old[3].action))
                    # A decision that is repeated is of the old server: its events are not taken for those of the new one.
                    self.assertFalse(client._away.knows("/v1/events/" + old[3].event_id))
                    new = [client.decide("news", {"i": i}, ["x", "y"]) for i in range(4)]
                    self.assertEqual(client.reward(old[1].event_id, 1).status, "accepted")
                    self.assertEqual(client.reward(new[0].event_id, 1).status, "accepted")
                    answers = client.reward_batch([(d.event_id, 1) for d in old[2:] + new[1:]])
                    self.assertEqual([getattr(a, "status", a) for a in answers], ["accepted"] * 7)
                    answers = client.decide_batch("news", [{"actions": ["x", "y"]}] * 2)
                    self.assertEqual([type(a) for a in answers], [troupe.Decision] * 2)
                    self.assertEqual(client.reward(answers[1].event_id, 1).status, "accepted")
                    counts = client.model("news")["counts"]
                    self.assertEqual((counts["decisions"], counts["rewards"]), (12, 11))
                with troupe.Client(servers[1].url) as there:  # the first reward came before the move, and counts once
                    self.assertEqual(there.reward(old[0].event_id, 1, key="r0").status, "duplicate")
                with troupe.Client(servers[0].url, tries=1) as fresh:  # one that remembers nothing
                    self.assertEqual(fresh.reward(old[5].event_id, 1).status, "accepted")
            finally:
                for server in servers:
                    server.kill()


class TestKill(unittest.TestCase):
    def test_kill_in_the_middle(self):
        """kill -9 three times under a load with keys: no call fails, each decision is in the log once, with its reward."""
        with tempfile.TemporaryDirectory() as room:
            server = Server(Path(room))
            try:
                client = troupe.Client(server.url, tries=100)
                self.addCleanup(client.close)
                client.create_model("news", reward={"window": "1h"})
                paid, failures, done = {}, [], threading.Event()

                def work(name):
                    try:
                        i = 0
                        while not done.is_set() or i < 20:
                            decision = client.decide("news", {"i": i}, ["a", "b", "c"], key=f"{name}-{i}")
                            client.reward(decision.event_id, i % 2)
                            paid[decision.event_id] = i % 2
                            i += 1
                    except Exception as failure:  # noqa: BLE001 - shown below
                        failures.append(failure)

                threads = [threading.Thread(target=work, args=(f"t{i}",)) for i in range(4)]
                for thread in threads:
                    thread.start()
                for _ in range(3):
                    count = len(paid)
                    while len(paid) < count + 20 and not failures:
                        time.sleep(0.01)
                    server.kill()
                    server.start()
                done.set()
                for thread in threads:
                    thread.join()
                self.assertEqual(failures, [])
                found, rewards, at = [], {}, 0
                while True:
                    records, following = client.log("news", at, 1000)
                    found += [r["event_id"] for r in records if r["kind"] == "decision"]
                    for r in records:
                        if r["kind"] == "reward":
                            rewards.setdefault(r["event"], []).append(r["value"])
                    if following == at:
                        break
                    at = following
                self.assertEqual(sorted(found), sorted(paid), "the log has other decisions than were answered")
                self.assertEqual(len(rewards), len(paid))
            finally:
                server.kill()


class TestProgram(unittest.TestCase):
    spec = {
        "horizon": 50, "replications": 20,
        "environment": [{"kind": "linear", "d": 3, "set": {"kind": "random-sphere", "arms": 5}}],
        "policy": [{"kind": "ensemble", "m": [4, 8]}, {"kind": "uniform"}],
    }

    def test_run(self):
        events = []
        run = troupe.run(self.spec, progress=events.append)
        self.assertEqual(len(run.standings), 3)
        self.assertEqual({s.replications for s in run.standings}, {20})
        rows = run.rows()
        self.assertEqual(rows[-1]["round"], 50)
        mean = sum(r["regret"] for r in rows if r["round"] == 50 and r["policy"] == "uniform") / 20
        self.assertAlmostEqual(mean, next(s.mean for s in run.standings if s.policy == "uniform"), places=9)
        self.assertEqual(events[-1]["event"], "end")
        self.assertIn("<svg", run._repr_html_())
        try:
            import pandas  # noqa: F401
        except ImportError:
            pass
        else:
            self.assertEqual(len(run.frame()), len(rows))

    def test_errors(self):
        with self.assertRaises(troupe.ProgramError) as caught:
            troupe.run(dict(self.spec, horizon=-1), progress=lambda e: None)
        self.assertEqual(caught.exception.code, 2)
        self.assertEqual("spec: horizon: horizon is -1, expected a whole number from 1 to 1000000000000",
                         str(caught.exception))
        with self.assertRaises(troupe.ProgramError) as caught:
            troupe.run(dict(self.spec, policy=[{"kind": "ensemble", "lamda": 1.0}]), progress=lambda e: None)
        self.assertEqual('spec: policy[0].lamda: unknown key "lamda"; did you mean "lambda"?', str(caught.exception))
        with self.assertRaises(ValueError):
            troupe.run(dict(self.spec, horizon=float("inf")))

    def test_conform(self):
        class Fair(troupe.Policy):
            """Plays any arm, and is broken as its options say."""

            def begin(self):
                self.asked = 0

            def select(self, arms, draw):
                self.asked += 1
                fault = self.options.get("fault")
                if fault == "changes":
                    return self.asked % len(arms)
                if fault == "random":
                    return random.randrange(len(arms))
                if fault == "outside":
                    return len(arms)
                return draw.random.randrange(len(arms))

            def law(self, arms, draw):
                fault = self.options.get("fault")
                law = [1 / len(arms)] * len(arms)
                if fault == "sum":
                    law[0] += 0.1
                if fault == "other":
                    law[0], law[1] = law[0] + 0.1, law[1] - 0.1
                return law

            def update(self, index, x, reward, draw):
                pass

        troupe.conform(Fair)
        for fault, want in (("changes", "changed"), ("random", "randomness"), ("outside", "index"), ("sum", "sum 1"), ("other", "draws")):
            with self.subTest(fault), self.assertRaisesRegex(AssertionError, want):
                troupe.conform(Fair, {"fault": fault})

    def test_environment(self):
        """An environment of a class, and five faults that the suite names."""

        class Coins(troupe.Environment):
            dim, largest_regret, sigma = 2, 1.0, 0.5

            def begin(self):
                self.means = [self.draw.random.random(), self.draw.random.random()]

            def offer(self, draw):
                if self.options.get("fault") == "offer" and random.random() < 0.5:
                    return [[0.0, 1.0], [1.0, 0.0]]
                return [[1.0, 0.0], [0.0, 2.0 if self.options.get("fault") == "long" else 1.0]]

            def reward(self, index, x, draw):
                luck = random if self.options.get("fault") == "reward" else draw.random
                return float(luck.random() < self.means[index])

            def regret(self, index, x):
                fault = self.options.get("fault")
                lost = max(self.means) - self.means[index]
                return {"best": lost + 1, "less": lost - 0.5}.get(fault, lost)

        troupe.conform_environment(Coins)
        for fault, want in (("offer", "offer different"), ("long", "longer than 1"), ("reward", "pay"), ("best", "no arm has regret 0"), ("less", "regret -")):
            with self.subTest(fault), self.assertRaisesRegex(AssertionError, want):
                troupe.conform_environment(Coins, {"fault": fault})
        with tempfile.TemporaryDirectory() as room:
            program = Path(room) / "coins.py"
            program.write_text(
                "from troupe import Environment\n"
                "class Coins(Environment):\n"
                "    dim, sigma = 2, 0.5\n"
                "    def offer(self, draw):\n        return [[1.0, 0.0], [0.0, 1.0]]\n"
                "    def reward(self, index, x, draw):\n        return float(draw.random.random() < (0.2, 0.7)[index])\n"
                "    def regret(self, index, x):\n        return (0.5, 0.0)[index]\n"
                "Coins.main()\n")
            spec = dict(self.spec, horizon=50, replications=2, environment=[
                {"kind": "process", "command": [sys.executable, str(program)], "env": [f"PYTHONPATH={HERE.parent}"]}],
                policy=[{"kind": "fixed"}, {"kind": "linucb"}])
            run = troupe.run(spec, progress=lambda e: None, report=False)
            fixed = [float(r["regret"]) for r in run.rows() if r["policy"] == "fixed" and int(r["round"]) == 50]
            self.assertEqual(fixed, [25.0, 25.0])

    def test_policy(self):
        """A class beside built-in policies, from a dict."""
        with tempfile.TemporaryDirectory() as room:
            program = Path(room) / "first.py"
            program.write_text(
                "from troupe import Policy\n"
                "class First(Policy):\n"
                "    def select(self, arms, draw):\n        return 0\n"
                "    def update(self, index, x, reward, draw):\n        pass\n"
                "First.main()\n")
            spec = dict(self.spec, policy=[
                {"kind": "process", "name": "first", "command": [sys.executable, str(program)],
                 "env": [f"PYTHONPATH={HERE.parent}"]}, {"kind": "fixed"}])
            run = troupe.run(spec, progress=lambda e: None, report=False)
            totals = {p: [r["regret"] for r in run.rows() if r["policy"] == p] for p in ("first", "fixed")}
            self.assertEqual(totals["first"], totals["fixed"])

    def test_policy_value(self):
        with tempfile.TemporaryDirectory() as room:
            log = Path(room) / "events.jsonl"
            with open(log, "w") as file:
                for i in range(2000):  # arm 1 always pays, arm 0 never; the log plays both alike, the target arm 1
                    file.write(json.dumps({"id": f"e{i}", "action": i % 2, "reward": float(i % 2), "propensity": 0.5,
                                           "law": [0.5, 0.5], "target": [0.0, 1.0]}) + "\n")
            value = troupe.policy_value(log, "column", estimators="all")
            several = Path(room) / "several.jsonl"
            with open(several, "w") as file:
                for i in range(2000):  # a person for two decisions; both rewards are of the action
                    file.write(json.dumps({"action": i // 2 % 2, "propensity": 0.5, "law": [0.5, 0.5], "target": [0.0, 1.0], "unit": f"p{i // 2}",
                                           "reward": {"click": i // 2 % 2, "latency": 0.5}}) + "\n")
            both = troupe.policy_value(several, "column", outcome=["click", "latency"], guard="latency=+20%", at_end=True)
        self.assertEqual(both.targets[0].verdict, "more click; latency has not risen by more than 20%")
        self.assertEqual(both.raw["outcomes"][0]["result"]["log"]["units"], 1000)
        self.assertEqual(value.events, 2000)
        target = value.targets[0]
        self.assertLess(target.interval[0], 0.5)
        self.assertGreater(target.interval[1], 0.5)
        self.assertTrue(0.4 < target.value < 0.55, target.value)
        self.assertIn("better", target.verdict)


class TestNotebook(unittest.TestCase):
    """The cells of examples/first.ipynb run in order and give the outputs that it has. They are executed by exec, not by
    jupyter, which Debian's Python does not have. TROUPE_UPDATE=1 writes the outputs."""

    def test_first(self):
        file = HERE.parent / "examples" / "first.ipynb"
        book = json.loads(file.read_text(encoding="utf-8"))
        room: dict = {}
        n = 0
        for cell in book["cells"]:
            if cell["cell_type"] != "code":
                continue
            n += 1
            outputs = self.play("".join(cell["source"]), room)
            with self.subTest(cell["id"]):
                if os.environ.get("TROUPE_UPDATE"):
                    for o in outputs:
                        if o["output_type"] == "execute_result":
                            o["execution_count"] = n
                    cell["outputs"], cell["execution_count"] = outputs, n
                self.assertTrue(cell["outputs"])
                self.assertEqual([self.content(o) for o in outputs], [self.content(o) for o in cell["outputs"]])
        self.assertIn("<svg", room["run"].figure())
        if os.environ.get("TROUPE_UPDATE"):
            file.write_text(json.dumps(book, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")

    def play(self, source, room):
        """Execute a cell: what it prints, then its last expression."""
        tree = ast.parse(source)
        value = None
        said = io.StringIO()
        with contextlib.redirect_stdout(said):
            last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
            exec(compile(tree, "cell", "exec"), room)
            if last is not None:
                value = eval(compile(ast.Expression(last.value), "cell", "eval"), room)
        outputs = []
        if said.getvalue():
            outputs.append({"name": "stdout", "output_type": "stream", "text": said.getvalue().splitlines(True)})
        if value is not None:
            data = {"text/plain": [type(value).__name__]}
            if hasattr(value, "_repr_html_"):
                data["text/html"] = value._repr_html_().splitlines(True)
            outputs.append({"data": data, "execution_count": None, "metadata": {}, "output_type": "execute_result"})
        return outputs

    def content(self, output):
        return "".join(output["text"]) if "text" in output else {k: "".join(v) for k, v in output["data"].items()}


class TestPackage(unittest.TestCase):
    def test_build(self):
        """Twice the same bytes; the wheel holds the package and a RECORD that fits."""
        with tempfile.TemporaryDirectory() as room:
            sums = []
            for i in range(2):
                folder = Path(room) / str(i)
                folder.mkdir()
                names = [build_package.build_wheel(str(folder)), build_package.build_sdist(str(folder))]
                sums.append([hashlib.sha256((folder / n).read_bytes()).hexdigest() for n in names])
            self.assertEqual(sums[0], sums[1])
            target = Path(room) / "env"
            venv.create(target, with_pip=False)
            python = target / "bin" / "python"
            site = subprocess.run([python, "-c", "import site; print(site.getsitepackages()[0])"], check=True,
                                  capture_output=True, text=True).stdout.strip()
            import zipfile
            zipfile.ZipFile(Path(room) / "0" / names[0]).extractall(site)
            version = subprocess.run([python, "-c", "import troupe; print(troupe.__version__)"], check=True, cwd=room,
                                     capture_output=True, text=True).stdout.strip()
            self.assertIn(version, names[0])

    def test_docs(self):
        self.assertEqual(doctest.testmod(troupe.program).failed, 0)


if __name__ == "__main__":
    unittest.main()
