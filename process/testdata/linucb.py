"""LinUCB and Thompson sampling in numpy, written from their formulas: what TestNumpy holds troupe's own against."""
import sys

import numpy

from troupe.policy import Policy


class Linear(Policy):
    def begin(self):
        d = self.problem.dim
        self.inverse = numpy.eye(d) / self.options.get("lambda", 1.0)
        self.b = numpy.zeros(d)
        self.theta = numpy.zeros(d)

    def update(self, index, x, reward, draw):
        u = self.inverse @ x
        self.inverse -= numpy.outer(u, u) / (1 + x @ u)
        self.b += reward * x
        self.theta = self.inverse @ self.b


class LinUCB(Linear):
    def select(self, arms, draw):
        width = numpy.sqrt(numpy.einsum("ij,ij->i", arms @ self.inverse, arms))
        return int(numpy.argmax(arms @ self.theta + self.options.get("alpha", 1.0) * width))


class Thompson(Linear):
    def select(self, arms, draw):
        z = numpy.linalg.cholesky(self.inverse) @ draw.numpy.standard_normal(len(self.b))
        return int(numpy.argmax(arms @ (self.theta + self.problem.sigma * z)))


if __name__ == "__main__":
    {"linucb": LinUCB, "ts": Thompson}[sys.argv[1]].main()
