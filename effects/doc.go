// Package effects is the learner of models without a schema: one Gaussian model of random effects.
package effects
