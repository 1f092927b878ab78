"""The environment of the tests: a linear model whose arms are the same in all rounds, drawn anew, or the unit ball."""
from troupe.policy import Environment


class Linear(Environment):
    dim, sigma, largest_regret = 3, 0.5, 2.0

    def begin(self):
        self.theta = self.direction(self.draw.random)
        self.fixed = [self.direction(self.draw.random) for _ in range(4)]

    def direction(self, random):
        x = [random.gauss(0, 1) for _ in range(3)]
        norm = sum(v * v for v in x) ** 0.5
        return [v / norm for v in x]

    def offer(self, draw):
        print("on standard error")
        kind = self.options["arms"]
        self.arms = {"ball": lambda: None, "fixed": lambda: self.fixed,
                     "new": lambda: [self.direction(draw.random) for _ in range(3 + draw.round % 2)]}[kind]()
        return self.arms

    def mean(self, x):
        return sum(float(a) * b for a, b in zip(x, self.theta))

    def reward(self, index, x, draw):
        return self.mean(x) + self.sigma * draw.random.gauss(0, 1)

    def regret(self, index, x):
        best = 1.0 if self.arms is None else max(self.mean(a) for a in self.arms)
        return max(best - self.mean(x), 0.0)


if __name__ == "__main__":
    Linear.main()
