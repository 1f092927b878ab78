"""Adapters for TestRivalsRecord: learners of other packages as policies. PYTHONPATH names the packages."""
import sys

from troupe.policy import Policy


class Coba(Policy):
    """A learner of coba on the features of the arms alone."""

    def begin(self):
        from coba.learners import LinTSLearner, LinUCBLearner
        if sys.argv[1] == "coba":
            self.learner = LinUCBLearner(alpha=self.options["alpha"], features=["a"])
        else:
            self.learner = LinTSLearner(v=1, features=["a"], seed=self.draw.seed)
            self.learner._initialize(None, (0.0,) * self.problem.dim)
            self.learner._nrng = self.draw.numpy  # it is seeded with 1 otherwise, in every run

    def select(self, arms, draw):
        self.actions = [tuple(map(float, row)) for row in arms]
        action, _ = self.learner.predict(None, self.actions)[:2]
        return self.actions.index(action)

    def update(self, index, x, reward, draw):
        self.learner.learn(None, tuple(map(float, x)), reward, 1.0)


class Mabwiser(Policy):
    """LinUCB or LinTS of mabwiser: a model for each arm. Arm i is the context at the place of block i."""

    def begin(self):
        from mabwiser.mab import MAB, LearningPolicy
        k = self.problem.arms
        self.size = self.problem.dim // k
        kind = LearningPolicy.LinUCB if sys.argv[1] == "mabwiser" else LearningPolicy.LinTS
        self.mab = MAB(list(range(k)), kind(alpha=self.options["alpha"], l2_lambda=1), seed=self.draw.seed % 2 ** 32)
        self.fresh = True

    def select(self, arms, draw):
        if self.fresh:  # all arms are alike; mabwiser predicts after its first fit only
            return 0 if sys.argv[1] == "mabwiser" else draw.random.randrange(len(arms))
        return self.mab.predict([list(arms[0][:self.size])])

    def update(self, index, x, reward, draw):
        context = [list(x[index * self.size:(index + 1) * self.size])]
        (self.mab.fit if self.fresh else self.mab.partial_fit)([index], [reward], context)
        self.fresh = False


class SMPyBandits(Policy):
    """UCB of SMPyBandits, once it has played each arm, in order: it begins with a random one otherwise."""

    def begin(self):
        from UCB import UCB
        self.ucb = UCB(self.problem.arms)
        self.ucb.startGame()
        self.played = 0

    def select(self, arms, draw):
        return self.played if self.played < len(arms) else int(self.ucb.choice())

    def update(self, index, x, reward, draw):
        self.ucb.getReward(index, reward)
        self.played += 1


{"coba": Coba, "coba-ts": Coba, "mabwiser": Mabwiser, "mabwiser-ts": Mabwiser, "smpybandits": SMPyBandits}[sys.argv[1]].main()
