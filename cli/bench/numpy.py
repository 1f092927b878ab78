"""Algorithm 1 in numpy, for `troupe bench --against numpy`.

Reads one JSON object a line from stdin: d, K (0: the unit ball), m, rounds, budget (seconds),
seed. Plays linear ensemble sampling as one would write it with numpy, in both ways of keeping the
members, and answers with the better one: microseconds of processor time a round.

  models  keeps the members themselves (m x d), each moved by the Sherman-Morrison gain
  sums    keeps the sums S only (m x d) and solves the member that was drawn

With "sets" the arms are new in every round: one of so many prepared "blocks" ("given"), or drawn in the
round ("drawn"). With "law" each round also counts, for every arm, the models that choose it.

With sets "disjoint" each of K arms has its own parameter of d/K numbers: the context of a round stands in
the block of the arm, and both ways keep a matrix for each block.

With "design" and "replications" it plays so many replications to the end in that way. With "gemm"
true it does not play: it answers with the time of the scores of all arms for all members by one
matrix product, (K x d) times (d x m) in float32.
"""

import json
import os
import sys
import time

for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[name] = "1"
import numpy as np


def play(design, d, K, m, rounds, budget, seed, lam=5.0, r=1.0):
    rng = np.random.default_rng(seed)
    theta_star = rng.standard_normal(d)
    theta_star /= np.linalg.norm(theta_star)
    if K:
        arms = rng.standard_normal((K, d))
        arms /= np.linalg.norm(arms, axis=1, keepdims=True)
        means = arms @ theta_star
        best = means.max()
    first = rng.standard_normal((m, d))
    first *= np.sqrt(lam * d) / np.linalg.norm(first, axis=1, keepdims=True)
    members = first / lam if design == "models" else first
    inverse = np.eye(d) / lam
    hat = np.zeros(d)
    regret = 0.0
    start = time.process_time()
    for t in range(rounds):
        j = rng.integers(m)
        sign = 1.0 if rng.random() < 0.5 else -1.0
        member = members[j] if design == "models" else inverse @ members[j]
        theta = hat + r * sign * member
        if K:
            a = int(np.argmax(arms @ theta))
            x = arms[a]
            mean = means[a]
            regret += best - mean
        else:
            x = theta / np.linalg.norm(theta)
            mean = x @ theta_star
            regret += 1.0 - mean
        y = mean + rng.standard_normal()
        u = rng.uniform(-1.0, 1.0, m)
        gain = inverse @ x
        size = 1.0 + x @ gain
        gain /= size
        hat += gain * (y - x @ hat)
        if design == "models":
            members += np.outer(u - members @ x, gain)
        else:
            members += np.outer(u, x)
        inverse -= np.outer(gain, gain) * size
        if t % 16 == 15 and time.process_time() - start > budget:
            return (time.process_time() - start) / (t + 1), regret / (t + 1)
    return (time.process_time() - start) / rounds, regret / rounds


def fresh(design, d, K, m, rounds, budget, seed, sets, law, blocks, lam=5.0, r=1.0):
    rng = np.random.default_rng(seed)

    def draw():
        arms = rng.standard_normal((K, d))
        arms /= np.linalg.norm(arms, axis=1, keepdims=True)
        return arms

    theta_star = rng.standard_normal(d)
    theta_star /= np.linalg.norm(theta_star)
    pool = [draw() for _ in range(blocks)] if sets == "given" else []
    first = rng.standard_normal((m, d))
    first *= np.sqrt(lam * d) / np.linalg.norm(first, axis=1, keepdims=True)
    members = first / lam if design == "models" else first
    inverse = np.eye(d) / lam
    hat = np.zeros(d)
    start = time.process_time()
    for t in range(rounds):
        arms = pool[t % blocks] if pool else draw()
        if law:
            spread = r * (members if design == "models" else members @ inverse)
            models = np.concatenate((hat + spread, hat - spread))
            counts = np.bincount(np.argmax(models @ arms.T, axis=1), minlength=K)
            assert counts.sum() == 2 * m
        j = rng.integers(m)
        sign = 1.0 if rng.random() < 0.5 else -1.0
        member = members[j] if design == "models" else inverse @ members[j]
        x = arms[int(np.argmax(arms @ (hat + r * sign * member)))]
        y = x @ theta_star + rng.standard_normal()
        u = rng.uniform(-1.0, 1.0, m)
        gain = inverse @ x
        size = 1.0 + x @ gain
        gain /= size
        hat += gain * (y - x @ hat)
        if design == "models":
            members += np.outer(u - members @ x, gain)
        else:
            members += np.outer(u, x)
        inverse -= np.outer(gain, gain) * size
        if t % 4 == 3 and time.process_time() - start > budget:
            return (time.process_time() - start) / (t + 1)
    return (time.process_time() - start) / rounds


def disjoint(design, d, K, m, rounds, budget, seed, lam=5.0, r=1.0):
    p = d // K
    rng = np.random.default_rng(seed)
    contexts = rng.standard_normal((rounds, p))
    contexts /= np.linalg.norm(contexts, axis=1, keepdims=True)
    labels = rng.integers(K, size=rounds)
    first = rng.standard_normal((m, K, p))
    first *= np.sqrt(lam * d) / np.linalg.norm(first, axis=(1, 2), keepdims=True)
    members = first / lam if design == "models" else first
    inverse = np.tile(np.eye(p) / lam, (K, 1, 1))
    hat = np.zeros((K, p))
    start = time.process_time()
    for t in range(rounds):
        x = contexts[t]
        j = rng.integers(m)
        sign = 1.0 if rng.random() < 0.5 else -1.0
        if design == "models":
            scores = (hat + r * sign * members[j]) @ x
        else:
            scores = hat @ x + r * sign * np.einsum("kp,kp->k", members[j], inverse @ x)
        a = int(np.argmax(scores))
        y = 1.0 if a == labels[t] else 0.0
        u = rng.uniform(-1.0, 1.0, m)
        gain = inverse[a] @ x
        size = 1.0 + x @ gain
        gain /= size
        hat[a] += gain * (y - x @ hat[a])
        if design == "models":
            members[:, a] += np.outer(u - members[:, a] @ x, gain)
        else:
            members[:, a] += np.outer(u, x)
        inverse[a] -= np.outer(gain, gain) * size
        if t % 16 == 15 and time.process_time() - start > budget:
            return (time.process_time() - start) / (t + 1)
    return (time.process_time() - start) / rounds


def gemm(d, K, m, budget, seed):
    """Seconds of one product of arms and members, many times into the same memory."""
    rng = np.random.default_rng(seed)
    arms = rng.standard_normal((K, d)).astype(np.float32)
    members = rng.standard_normal((d, m)).astype(np.float32)
    scores = np.empty((K, m), np.float32)
    np.matmul(arms, members, out=scores)
    start = time.process_time()
    n = 0
    while n % 16 or time.process_time() - start < budget:
        np.matmul(arms, members, out=scores)
        n += 1
    return (time.process_time() - start) / n


def blas():
    """Names the library behind matrix products: OpenBLAS is a fair opponent, the reference BLAS is not.

    Debian has both behind the same name, libblas.so.3, so the directory counts too.
    """
    try:
        with open("/proc/self/maps") as f:
            files = {line.split()[-1] for line in f if "blas" in line.lower() or "mkl" in line.lower()}
    except OSError:
        return "unknown", True
    fast = [p for p in files if any(w in p.lower() for w in ("openblas", "mkl", "blis", "atlas"))]
    # LAPACK may come with an optimised BLAS that numpy does not call: libblas itself decides.
    slow = [p for p in files if os.path.basename(p).startswith("libblas.") and p not in fast]
    return ", ".join(sorted({os.path.basename(p) for p in slow or fast or files})) or "unknown", not slow and bool(fast or not files)


name, fast = blas()
print(json.dumps({"numpy": np.__version__, "blas": name, "fast": fast}), flush=True)
for line in sys.stdin:
    c = json.loads(line)
    if c["gemm"]:
        design, seconds = "gemm", gemm(c["d"], c["K"], c["m"], c["budget"], c["seed"])
    elif "replications" in c:
        design, seconds = c["design"], 0.0
        for k in range(c["replications"]):
            seconds += play(design, c["d"], c["K"], c["m"], c["rounds"], float("inf"), c["seed"] + k)[0] / c["replications"]
    else:
        times = {}
        for design in ("models", "sums"):
            if c["sets"] == "disjoint":
                times[design] = disjoint(design, c["d"], c["K"], c["m"], c["rounds"], c["budget"], c["seed"])
                continue
            if c["sets"]:
                times[design] = fresh(design, c["d"], c["K"], c["m"], c["rounds"], c["budget"], c["seed"], c["sets"], c["law"], c["blocks"])
                continue
            times[design] = play(design, c["d"], c["K"], c["m"], c["rounds"], c["budget"], c["seed"])[0]
        design = min(times, key=times.get)
        seconds = times[design]
    print(json.dumps({"design": design, "us": 1e6 * seconds}), flush=True)
