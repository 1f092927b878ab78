"""Adapters for TestRivalsRecord: learners of other packages as policies. PYTHONPATH names the packages."""
import sys

from troupe.policy import Policy


class Coba(Policy):
    """coba's LinUCBLearner on the features of the arms alone."""

    def begin(self):
        from coba.learners import LinUCBLearner
        self.learner = LinUCBLearner(alpha=self.options["alpha"], features=["a"])

    def select(self, arms, draw):
        self.actions = [tuple(map(float, row)) for row in arms]
        action, _ = self.learner.predict(None, self.actions)[:2]
        return self.actions.index(action)

    def update(self, index, x, reward, draw):
        self.learner.learn(None, tuple(map(float, x)), reward, 1.0)


class Mabwiser(Policy):
    """mabwiser's LinUCB: a model for each arm. Arm i is the context at the place of block i."""

    def begin(self):
        from mabwiser.mab import MAB, LearningPolicy
        k = self.problem.arms
        self.size = self.problem.dim // k
        self.mab = MAB(list(range(k)), LearningPolicy.LinUCB(alpha=self.options["alpha"], l2_lambda=1))
        self.fresh = True

    def select(self, arms, draw):
        if self.fresh:
            return 0  # all scores are equal; mabwiser predicts after its first fit only
        return self.mab.predict([list(arms[0][:self.size])])

    def update(self, index, x, reward, draw):
        context = [list(x[index * self.size:(index + 1) * self.size])]
        (self.mab.fit if self.fresh else self.mab.partial_fit)([index], [reward], context)
        self.fresh = False


{"coba": Coba, "mabwiser": Mabwiser}[sys.argv[1]].main()
