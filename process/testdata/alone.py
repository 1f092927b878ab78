"""The loop of linucb.py without troupe: a world in numpy, its noise drawn before. Prints rounds a second."""
import sys
import time

import numpy

from linucb import LinUCB
from troupe.policy import Draw, Problem

rounds, d, k = (int(a) for a in sys.argv[1:])
world = numpy.random.default_rng(1)
arms = world.standard_normal((k, d)) / (2 * d ** 0.5)
theta = world.standard_normal(d) / d ** 0.5
noise = world.standard_normal(rounds)
policy = LinUCB(Problem(d, k, rounds, 1.0, None), {"alpha": 1.0}, Draw(0, 1))
began = time.process_time()
for t in range(rounds):
    i = policy.select(arms, Draw(t, t))
    policy.update(i, arms[i], arms[i] @ theta + noise[t], Draw(t, t))
print(rounds / (time.process_time() - began))
