"""The policy of the tests: the best mean, with a random arm in one of ten rounds; a random direction on the ball."""
import json

from troupe.policy import Policy


class Mean(Policy):
    def begin(self):
        self.sums = [0.0] * self.problem.arms
        self.counts = [0] * self.problem.arms

    def best(self):
        means = [s / n if n else 1e9 for s, n in zip(self.sums, self.counts)]
        return means.index(max(means))

    def select(self, arms, draw):
        print("on standard error")
        if arms is None:
            return [draw.random.uniform(-0.7, 0.7) for _ in range(self.problem.dim)]
        if draw.random.random() < 0.1:
            return draw.random.randrange(len(arms))
        return self.best()

    def law(self, arms, draw):
        p = [0.1 / len(arms)] * len(arms)
        p[self.best()] += 0.9
        return p

    def update(self, index, x, reward, draw):
        self.sums[index] += reward
        self.counts[index] += 1

    def snapshot(self):
        return json.dumps([self.sums, self.counts]).encode()

    def restore(self, state):
        self.sums, self.counts = json.loads(state)


if __name__ == "__main__":
    Mean.main()
