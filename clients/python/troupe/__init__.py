"""troupe from Python: decide and reward at a server, run experiments, evaluate logs, write policies.

    from troupe import Client

    client = Client("http://127.0.0.1:8080")
    decision = client.decide("news", {"user": {"city": "Oslo"}}, ["sport", "politics"])
    client.reward(decision.event_id, 1.0)

The package needs Python 3.9 or later and nothing else.
"""

from .client import AsyncClient, Client, Decision, Entry, Number, Problem, RewardResult, Unreachable
from .policy import Draw, Environment, Policy, conform, conform_environment
from .policy import Problem as PolicyProblem
from .program import Evaluation, ProgramError, Run, policy_value, run

__version__ = "0.2.0.dev0"

__all__ = [
    "AsyncClient", "Client", "Decision", "Entry", "Draw", "Environment", "Evaluation", "Number", "Policy", "PolicyProblem", "Problem",
    "ProgramError", "RewardResult", "Run", "Unreachable", "conform", "conform_environment", "policy_value", "run",
]
