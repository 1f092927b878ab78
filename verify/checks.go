package verify

import (
	"math"
	"slices"

	"troupe/policy"
)

// Checks is the list, in the order of the paper. It feeds the tests, `troupe verify` and the report.
var Checks = withConstants(slices.Concat(paperChecks, newerChecks, atomChecks, fewChecks, horizonChecks, lawChecks, absoluteChecks, inflationChecks))

// withConstants puts the checks of a label's constants behind its others.
func withConstants(checks []Check) (out []Check) {
	for i, c := range checks {
		if out = append(out, c); i+1 == len(checks) || checks[i+1].Label != c.Label {
			out = append(out, constantChecks[c.Label]...)
		}
	}
	return out
}

var (
	unit       = uniformTarget(1)
	wide       = uniformTarget(math.Sqrt2)
	signs      = signTarget(1)
	wideSigns  = signTarget(math.Sqrt2)
	constantR  = policy.Scale{Kind: "betatilde", Value: 7}
	paperScale policy.Scale
)

var paperChecks = []Check{
	// Section 2: setting, algorithm, main theorem.
	{
		Label: "ass:sg", Reading: Printed, Kind: Inequality, Expect: Holds,
		Statement: "E exp(sZ) ≤ exp(s²/2) for all s: the noise laws with σ = 1",
		Plant:     "noise ten per cent larger",
		run:       noiseIsSubgaussian,
	},
	{
		Label: "ass:sg", Part: "the program's laws", Reading: Printed, Kind: Probability, Expect: Holds,
		Statement: "E exp(±Z/σ) ≤ √e for each law of noise that a spec can name, at the ends and in the middle of " +
			"the means it pays, σ the constant that the program states",
		Note:  "Draws of env.Laws, cut at e³, by Hoeffding's inequality for all cases at once.",
		Plant: "a σ that is 0.7 times the stated one",
		run:   programNoise,
	},
	{
		Label: "ass:sg", Part: "order of draws", Reading: Printed, Kind: Identity, Expect: Holds,
		Statement: "X_t does not depend on the targets U_t, U_{t+1}, …",
		Plant:     "the targets of an earlier round differ too",
		run:       targetsComeLate,
	},
	{
		Label: "alg:es", Reading: Printed, Kind: Identity, Expect: Holds,
		Statement: "the program's ensemble is Algorithm 1, S_0^j uniform on λ√d·𝕊^{d−1}",
		Note: "An identity between the program and the listing. The printed scale of S_0^j is what " +
			"lem:initialisation contradicts.",
		Plant: "a stale V, one update behind",
		run:   ensembleIsDefinition("printed"),
	},
	{
		Label: "alg:es", Reading: Corrected, Kind: Identity, Expect: Holds,
		Statement: "the program's ensemble is Algorithm 1, S_0^j uniform on √(λd)·𝕊^{d−1}",
		Plant:     "a stale V, one update behind",
		run:       ensembleIsDefinition("corrected"),
	},
	{
		Label: "thm:es", Reading: Printed, Kind: Probability, Expect: Vacuous,
		Statement: "λ ≥ 5, r_t = 7β_t, m ≥ 400 log(NT/δ): R(τ) ≤ 175 m^{3/2} β_{τ−1}(√(dτ log(1+τ/(λd))) + √((τ/λ) " +
			"log(τ/(λδ)))) for all τ ≤ T, with probability 1 − δ",
		Note: "C = 175 is the constant that the explicit form gives; the proof spends three times δ. The bound " +
			"is above 2T for every T below about 10²².",
		Plant: "the bound divided by 6·10⁸, twice what is noticed",
		run:   regretBound("theorem1_c", 1, 5, 1000, 6e8, theoremEnsemble("random", paperScale)),
	},
	{
		Label: "thm:es", Reading: Corrected, Kind: Probability, Expect: Vacuous,
		Statement: "R(τ) ≤ 40 m^{3/2} β_{τ−1}(2E(τ) + M(τ, δ)) for all τ ≤ T, with probability 1 − 3δ",
		Plant:     "the bound divided by 4·10⁸, twice what is noticed",
		run:       regretBound("theorem1", 3, 5, 1000, 4e8, theoremEnsemble("random", paperScale)),
	},
	{
		Label: "thm:es", Part: "the logarithm", Reading: Printed, Kind: Inequality, Expect: Refuted,
		Statement: "(τ/λ) log(τ/(λδ)) ≥ 0, so that its root exists",
		Note:      "Negative for τ < λδ. Read log⁺.",
		Plant:     "log⁺ in place of log",
		run:       printedLogarithm(false),
	},
	{
		Label: "thm:es", Part: "the logarithm", Reading: Corrected, Kind: Inequality, Expect: Holds,
		Statement: "(τ/λ) log⁺(τ/(λδ)) ≥ 0",
		Plant:     "log in place of log⁺",
		run:       printedLogarithm(true),
	},
	{
		Label: "thm:es", Part: "optimism", Reading: Printed, Kind: Inequality, Expect: Holds,
		Statement: "p_{t−1} ≥ 1/(2m) on the event of thm:sing-val-gamma",
		Note:      "Measured p is near a constant: this step alone costs a factor of about 10⁴.",
		Plant:     "r = 0.001, without β",
		run:       optimismShare,
	},
	{
		Label: "thm:es", Part: "use of signs", Reading: Printed, Kind: Inequality, Expect: Holds,
		Statement: "for every u some signed member has ⟨±Γ^j, u⟩ ≥ s_d(Γ)/√m, so that some ±7Γ^j is in H_u on the " +
			"event of thm:sing-val-gamma",
		Note: "The maximum over j of ⟨Γ^j, u⟩² is at least its average; without signs a direction can be left " +
			"with nobody.",
		Plant: "no symmetrisation",
		run:   signedMemberBeyond,
	},
	{
		Label: "thm:es", Part: "sharper constants", Reading: Corrected, Kind: Inequality, Expect: Holds,
		Statement: "m ≥ 60 log(NT/δ) and r_t = 3.04β_t suffice: r s_d/√m ≥ 1 and 2r s_1/√m ≤ 7.95",
		Note: "Rests on lem:noise-sum-bound (sharper constants) and on two variance proxies that are checked on " +
			"grids, not proved.",
		Plant: "r_t = 2.5β_t",
		run:   sharpRange,
	},
	{
		Label: "remark:1", Part: "ensemble size", Reading: Printed, Kind: Inequality, Expect: Holds,
		Statement: "δ = T^{−a}, λ = 5, T ≥ 2: m ≤ (3430 + 400a) d log T",
		Note: "The first remark of the paper, which has no label. It says C_a; this constant is explicit. 3326 " +
			"+ 400a would do.",
		Plant: "a constant ten times smaller",
		run:   sizeIsOrderDLogT,
	},
	{
		Label: "remark:1", Part: "regret", Reading: Printed, Kind: Inequality, Expect: Holds,
		Statement: "the bound of thm:es is at most C′(d log T)^{5/2} √T, C′ independent of d and T",
		Plant:     "(d log T)^{3/2} √T",
		run:       boundIsOrder("theorem1", 2.5, 1.5),
	},
	{
		Label: "remark:1", Part: "Thompson sampling", Reading: Printed, Kind: Inequality, Expect: Holds,
		Statement: "the bound of claim:ts is at most C(d log T)^{3/2} √T",
		Plant:     "d log T · √T",
		run:       boundIsOrder("ts", 1.5, 1),
	},
	{
		Label: "rem:large-m", Reading: Printed, Kind: Rate, Expect: Reported,
		Statement: "the bound grows like m^{3/2}; does the regret?",
		Plant:     "r grows like √m",
		run:       regretAgainstMembers,
	},
	{
		Label: "rem:max-over-ensemble", Reading: Printed, Kind: Inequality, Expect: Holds,
		Statement: "maximising over the ensemble: if θ* is in its ellipsoid and some member is optimistic, Q(X_t) ≥ " +
			"J(θ*) and the round costs at most ‖X_t‖(r‖Γ^J‖ + β)",
		Plant: "a random member in place of the maximum",
		run:   maximumPerStep,
	},
	{
		Label: "rem:max-over-ensemble", Part: "ball", Reading: Printed, Kind: Identity, Expect: Holds,
		Statement: "on the unit ball the maximum over the ensemble is θ/‖θ‖ for the longest of the 2m models",
		Note:      "In every round, from the members' sums: 6 members with signs and without, d = 3 and 5. Relative deviation of the action.",
		Plant:     "without the models of sign −",
		run:       maximumOnBall,
	},
	{
		Label: "rem:max-over-ensemble", Part: "order", Reading: Printed, Kind: Inequality, Expect: Holds,
		Statement: "the bound scales with d^{3/2}: it is at most C(d log T)^{3/2} √T",
		Plant:     "d log T · √T",
		run:       boundIsOrder("max", 1.5, 1),
	},
	{
		Label: "rem:max-over-ensemble", Part: "regret", Reading: Corrected, Kind: Probability, Expect: Vacuous,
		Statement: "R(τ) ≤ (10√m + 1) β_{τ−1} E(τ) for all τ ≤ T, with probability 1 − 2δ",
		Note:      "The remark says that the regret scales with d^{3/2}; this is the explicit form.",
		Plant:     "the bound divided by 8000, twice what is noticed",
		run:       regretBound("max", 2, 5, 300, 8000, theoremEnsemble("max", paperScale)),
	},
	{
		Label: "remark:bayes-es-comparison", Reading: Printed, Kind: Rate, Expect: Reported,
		Statement: "the bound of Qin et al. needs an ensemble linear in T: exponent of T in m",
		Plant:     "the m of thm:es",
		run:       qinGrowth,
	},
	{
		Label: "remark:bayes-es-comparison", Part: "arms", Reading: Printed, Kind: Rate, Expect: Reported,
		Statement: "and linear in the number of arms: exponent of K in m",
		Note:      "Above 1 at these K because of min(d, log K)².",
		Plant:     "the m of thm:es, which does not know K",
		run:       qinArms,
	},
	{
		Label: "remark:bayes-es-comparison", Part: "the ball", Reading: Printed, Kind: Inequality, Expect: Holds,
		Statement: "arms on the ball that lose at most 1 − cos 30° = 0.134 in every direction are at least 2^{d−1}",
		Note: "The remark says “a small discretisation error”; this is an error for which its 2^{d−1} is a " +
			"theorem: caps of 30° must cover the sphere, and each covers at most half of (sin 30°)^{d−1}.",
		Plant: "caps of 60°, an error of one half",
		run:   armsForBall,
	},
	{
		Label: "remark:large-ensemble", Reading: Printed, Kind: Rate, Expect: Reported,
		Statement: "Lee and Oh need an ensemble of order K log T: exponent of T in m",
		Note: "The remark's cross reference for “K can be exponential in d” points to remark:es-improve-bound; " +
			"it is in remark:bayes-es-comparison.",
		Plant: "the m of thm:es",
		run:   leeOhGrowth,
	},

	// Section 3.1: the master theorem.
	{
		Label: "thm:master", Reading: Printed, Kind: Inequality, Expect: Holds,
		Statement: "per step, on the event: J(θ_t) − ⟨X_t, θ*⟩ ≤ 2b‖X_t‖ and J(θ*) − J(θ_t) ≤ (2b/p) E'‖X_t‖, norms " +
			"in V_{t−1}^{−1}",
		Note: "p and E' are exact averages over the 2m members, so this is the sharpest statement of the paper " +
			"that can be asserted in every round.",
		Plant: "an ellipsoid made of the members alone, a quarter as wide",
		run:   masterPerStep,
	},
	{
		Label: "thm:master", Part: "martingale", Reading: Printed, Kind: Inequality, Expect: Holds,
		Statement: "|Δ_t| ≤ 2/√λ",
		Plant:     "0.05/√λ",
		run:       martingaleRange(2),
	},
	{
		Label: "thm:master", Part: "martingale", Reading: Corrected, Kind: Inequality, Expect: Holds,
		Statement: "|Δ_t| ≤ 1/√λ, and its conditional range has width 1/√λ",
		Note:      "So Hoeffding's lemma gives c = 1/(2√λ), and 4τ/λ in the bound may be replaced by τ/(4λ).",
		Plant:     "0.05/√λ",
		run:       martingaleRange(1),
	},
	{
		Label: "thm:master", Part: "last step", Reading: Printed, Kind: Inequality, Expect: Refuted,
		Statement: "Σ w_t Δ_t ≤ max w · Σ Δ_t for weights w ≥ 0 and a Δ of either sign",
		Note:      "The maximum may not be taken out of a signed sum.",
		Plant:     "equal weights",
		run:       signedSum(false),
	},
	{
		Label: "thm:master", Part: "last step", Reading: Corrected, Kind: Inequality, Expect: Holds,
		Statement: "Σ w_t E'‖X_t‖ ≤ max w · Σ E'‖X_t‖, and then E'‖X_t‖ = ‖X_t‖ + Δ_t: the same bound",
		Plant:     "terms that may be negative",
		run:       signedSum(true),
	},
	{
		Label: "lem:conf-sets", Reading: Printed, Kind: Probability, Expect: Holds,
		Statement: "P(∃t: ‖θ* − θ̂_t‖_{V_t} > β_t^δ) ≤ δ",
		Plant:     "a radius √λ, without its second term",
		run:       coverage,
	},
	{
		Label: "lem:thetaopt-lower-bound", Reading: Printed, Kind: Inequality, Expect: Holds,
		Statement: "θ* ∈ ψ(𝔹): every member in the half-space H_{u⁺} is optimistic",
		Note: "u⁺ is the direction of the OFUL action, the minimiser that the proof uses; the infimum over all " +
			"u is weaker. “The maximiser is on the sphere” should read “can be chosen on the sphere”.",
		Plant: "half-spaces that begin at 0.1",
		run:   optimismCount,
	},

	// Section 3.2 and 3.3: singular values.
	{
		Label: "thm:sing-val-gamma", Reading: Printed, Kind: Probability, Expect: Refuted,
		Statement: "λ ≥ 5, S_0^j on λ√d·𝕊: √m/7 ≤ s_d(Γ_t) ≤ s_1(Γ_t) ≤ 10√m/7 for all t < T with probability 1 − N " +
			"T e^{−m/400}",
		Note:  "Fails at t = 0: the columns of Γ_0 have norm √(λd), not √d.",
		Plant: "S_0^j on √(λd)·𝕊",
		run:   singularValues("printed", "corrected", 1./7, 10./7),
	},
	{
		Label: "thm:sing-val-gamma", Reading: Corrected, Kind: Probability, Expect: Holds,
		Statement: "λ ≥ 5, S_0^j on √(λd)·𝕊: √m/7 ≤ s_d(Γ_t) ≤ s_1(Γ_t) ≤ 10√m/7 for all t < T with probability 1 − " +
			"N T e^{−m/400}",
		Plant: "members that start at 0",
		run:   singularValues("corrected", "none", 1./7, 10./7),
	},
	{
		Label: "thm:sing-val-gamma", Part: "repaired constants", Reading: Corrected, Kind: Probability, Expect: Holds,
		Statement: "0.334√m ≤ s_d(Γ_t) ≤ s_1(Γ_t) ≤ 1.301√m, what the repaired proof gives",
		Plant:     "members that start at 0",
		run:       singularValues("corrected", "none", 0.3343, 1.3006),
	},
	{
		Label: "thm:sing-val-gamma", Part: "size of the net", Reading: Printed, Kind: Inequality, Expect: Refuted,
		Statement: "|N_ε| + 1 ≤ N for ε = √λ/(132 √(T+λ)), N = (134 √(1+T/λ))^d",
		Note:      "ε follows from the Lipschitz constant 4 of lem:rtlipschitz, N from the constant 2.",
		Plant:     "the Lipschitz constant 2, ε = √λ/(66 √(T+λ))",
		run:       netFits(4, 2),
	},
	{
		Label: "thm:sing-val-gamma", Part: "size of the net", Reading: Corrected, Kind: Inequality, Expect: Holds,
		Statement: "|N_ε| + 1 ≤ N for ε = √λ/(66 √(T+λ)), N = (134 √(1+T/λ))^d",
		Plant:     "the Lipschitz constant 4",
		run:       netFits(2, 4),
	},
	{
		Label: "remark:es-sym-2", Reading: Printed, Kind: Rate, Expect: Reported,
		Statement: "without symmetrisation some 7Γ^j must be in H_u for every u: the share for the worst u",
		Note:      "Not proved in the paper. Exact over all directions in two dimensions.",
		Plant:     "Γ^j in place of 7Γ^j",
		run:       signedShare(false),
	},
	{
		Label: "remark:es-improve-bound", Reading: Printed, Kind: Rate, Expect: Reported,
		Statement: "is a constant share of the ±7Γ^j in H_u for every u? the share for the worst u",
		Note:      "Open in the paper; answered for Gaussian targets by arXiv 2602.08026. Measured: yes.",
		Plant:     "Γ^j in place of 7Γ^j",
		run:       signedShare(true),
	},
	{
		Label: "rem:lower-vs-upper", Reading: Corrected, Kind: Probability, Expect: Holds,
		Statement: "‖Γ_t^j‖ ≤ √d + √((2 log(m/δ) + log(det V_t/λ^d))/3) for all j and t with probability 1 − δ",
		Note:      "The remark says O(√(d log T)); this is the explicit form, for S_0^j on √(λd)·𝕊.",
		Plant:     "S_0^j on λ√d·𝕊",
		run:       memberNorms,
	},
	{
		Label: "lem:initialisation", Part: "scale", Reading: Printed, Kind: Probability, Expect: Refuted,
		Statement: "S_0^j on λ√d·𝕊, m ≥ 10d: m/2 ≤ s_d²(Γ_0) ≤ s_1²(Γ_0) ≤ 3m/2 with probability 1 − e^{−m/24}",
		Note:      "The columns of Γ_0 are √λ times too long. Here m = 144d.",
		Plant:     "S_0^j on √(λd)·𝕊, the bound of the corrected lemma",
		run:       initialSpectrum(10, 1440, "printed", math.Exp(-1440./400), 0, "corrected"),
	},
	{
		Label: "lem:initialisation", Part: "m ≥ 10d", Reading: Printed, Kind: Probability, Expect: Refuted,
		Statement: "columns on √d·𝕊, m = 10d: m/2 ≤ s_d²(Γ_0) ≤ s_1²(Γ_0) ≤ 3m/2 with probability 1 − e^{−m/24}",
		Note: "Below m = 19.8d the upper edge is above 3m/2 in the limit of large d (Bai and Yin); the exponent " +
			"1/24 would need m ≥ 480d.",
		Plant: "m = 40d",
		run:   initialSpectrum(10, 100, "corrected", math.Exp(-100./24), 400, ""),
	},
	{
		Label: "lem:initialisation", Reading: Corrected, Kind: Probability, Expect: Holds,
		Statement: "columns on √d·𝕊, m ≥ 144d: m/2 ≤ s_d²(Γ_0) ≤ s_1²(Γ_0) ≤ 3m/2 with probability 1 − e^{−m/400}",
		Note:      "Net with ε = 1/10 and the sub-gamma tail with ν = 2/m, c = 2/m. Implied by the m of thm:es.",
		Plant:     "S_0^j on λ√d·𝕊",
		run:       initialSpectrum(10, 1440, "corrected", math.Exp(-1440./400), 0, "printed"),
	},
	{
		Label: "claim:inf-sup-R", Reading: Printed, Kind: Identity, Expect: Holds,
		Statement: "sup_u R_t^j(u) = ‖Γ_t^j‖², sup_u R_t(u) = s_1²(Γ_t)/m, inf_u R_t(u) = s_d²(Γ_t)/m",
		Plant:     "a stale V",
		run:       supAndInf,
	},
	{
		Label: "lem:process-max-lower-bound", Reading: Printed, Kind: Probability, Expect: Holds,
		Statement: "1/2 ≤ R_0(u) ≤ 3/2: 9/100 ≤ R_t(u) ≤ 5/3 for t ≤ T with probability 1 − T e^{−m/400}",
		Note:      "True, though not by the printed argument.",
		Plant:     "targets a fifth as large",
		run:       processStays(0.09, 5./3),
	},
	{
		Label: "lem:process-max-lower-bound", Part: "repaired constants", Reading: Corrected, Kind: Probability,
		Expect:    Holds,
		Statement: "0.163 ≤ R_t(u) ≤ 1.64",
		Plant:     "targets a fifth as large",
		run:       processStays(0.163, 1.64),
	},
	{
		Label: "lem:process-max-lower-bound", Part: "proof", Reading: Printed, Kind: Inequality, Expect: Refuted,
		Statement: "the excursion argument with K = 3 gives the lower end 9/100",
		Note:      "With the true drift 1/3 it gives 0.003, and 9/5 for the upper end even with the printed one.",
		Plant:     "K = 7/5, which claim:sum-Q-RQ proves",
		run:       processConstants(1./3, 3, 1.4),
	},
	{
		Label: "lem:process-max-lower-bound", Part: "proof", Reading: Corrected, Kind: Inequality, Expect: Holds,
		Statement: "the excursion argument with K = 1 + 2/λ ≤ 7/5 gives [0.163, 1.64]",
		Plant:     "K = 3",
		run:       processConstants(1./3, 1.4, 3),
	},
	{
		Label: "lem:rtlipschitz", Reading: Printed, Kind: Inequality, Expect: Holds,
		Statement: "R_t is L-Lipschitz on the sphere, L ≤ 4‖Γ_t‖²‖V_t^{1/2}‖/(m√λ)",
		Plant:     "1/2 in place of 4",
		run:       lipschitz(4),
	},
	{
		Label: "lem:rtlipschitz", Part: "sharper constant", Reading: Corrected, Kind: Inequality, Expect: Holds,
		Statement: "L ≤ (π/2)‖Γ_t‖²‖V_t^{1/2}‖/(m√λ) ≤ 2‖Γ_t‖²‖V_t^{1/2}‖/(m√λ)",
		Note: "The gradient of R is 2V^{1/2}(M − R)z/‖z‖² with z = V^{1/2}u, M = ΓΓᵀ/m, and ‖(M − R)z‖ ≤ (μ_1 − " +
			"μ_d)‖z‖/2; an arc is at most π/2 chords. With it the printed N is right.",
		Plant: "1/2 in place of π/2",
		run:   lipschitz(math.Pi / 2),
	},
	{
		Label: "claim:size-of-cover", Reading: Printed, Kind: Inequality, Expect: Holds,
		Statement: "there is an ε-net of 𝕊^{d−1} with at most (1 + 2/ε)^d points",
		Plant:     "(1/ε)^d points",
		run:       netSize,
	},

	// Section 3.4: the process.
	{
		Label: "claim:alpha-non-neg", Reading: Printed, Kind: Identity, Expect: Refuted,
		Statement: "E R_{t+1} − R_t = (2/3 − R_t) Q_t",
		Note:      "E U² = 1/3 for U uniform on [−1, 1]. The process drifts to 1/3.",
		Plant:     "U uniform on [−√2, √2], for which E U² = 2/3",
		run:       drift(2./3, unit, wide),
	},
	{
		Label: "claim:alpha-non-neg", Reading: Corrected, Kind: Identity, Expect: Holds,
		Statement: "E R_{t+1} − R_t = (1/3 − R_t) Q_t",
		Plant:     "targets ±1, another variance",
		run:       drift(1./3, unit, signs),
	},
	{
		Label: "claim:alpha-non-neg", Part: "targets as drawn", Reading: Corrected, Kind: Probability, Expect: Holds,
		Statement: "E U² = 1/3",
		Plant:     "targets ±1",
		run:       targetVariance,
	},
	{
		Label: "lem:noise-sum-bound", Reading: Printed, Kind: Probability, Expect: Holds,
		Statement: "R_0 ≤ 2: |Σ_{i=τ}^t W_{i+1}| ≤ (3 + Σ Q_iR_i)/10 for all τ ≤ t < T with probability 1 − T " +
			"e^{−m/400}",
		Plant: "noise centred with the drift 2/3",
		run:   noiseSums(400, 0.1, 3),
	},
	{
		Label: "lem:noise-sum-bound", Part: "repaired constants", Reading: Corrected, Kind: Probability, Expect: Holds,
		Statement: "|Σ W| ≤ (7/5 + Σ QR)/10",
		Note:      "K = 1 + 2/λ, by claim:sum-Q-RQ.",
		Plant:     "noise centred with the drift 2/3",
		run:       noiseSums(400, 0.1, 1.4),
	},
	{
		Label: "lem:noise-sum-bound", Part: "sharper constants", Reading: Corrected, Kind: Probability, Expect: Holds,
		Statement: "|Σ W| ≤ ρ(0.597 + 0.2292 Σ QR), ρ = √(4/60), with probability 1 − T e^{−m/60}",
		Note:      "Variance proxies 1/3 of U and 0.098 of U² − 1/3.",
		Plant:     "noise centred with the drift 2/3",
		run:       noiseSums(60, sharpAlpha, sharpK),
	},
	{
		Label: "lem:noise-sum-bound", Part: "the choice of x", Reading: Printed, Kind: Inequality, Expect: Refuted,
		Statement: "x = 2 log(3+2T) makes the union over starts T e^{−x/2} at most T e^{−m/400}",
		Note:      "It makes it T/(3+2T), about 1/2.",
		Plant:     "x = m/200",
		run: unionOverStarts(func(T, _ float64) float64 { return 2 * math.Log(3+2*T) },
			func(_, m float64) float64 { return m / 200 }),
	},
	{
		Label: "lem:noise-sum-bound", Part: "the choice of x", Reading: Corrected, Kind: Inequality, Expect: Holds,
		Statement: "x = m/200: T e^{−x/2} = T e^{−m/400}, √(2x/m) = 1/10, x ≥ 2 log(3+2T)",
		Plant:     "x = 2 log(3+2T)",
		run: unionOverStarts(func(_, m float64) float64 { return m / 200 },
			func(T, _ float64) float64 { return 2 * math.Log(3+2*T) }),
	},
	{
		Label: "remark:es-uniform-2", Reading: Printed, Kind: Identity, Expect: Refuted,
		Statement: "Gaussian targets: the truncated noises W ∧ a are again centred",
		Note:      "E min(U² − 1, a) < 0, so the sketch is incomplete.",
		Plant:     "no truncation",
		run:       truncatedNoise,
	},
	{
		Label: "remark:es-uniform-2", Reading: Corrected, Kind: Inequality, Expect: Holds,
		Statement: "only the lower tail is needed: E exp(−s(U² − 1)) ≤ exp(s²) for s ≥ 0, U standard normal",
		Plant:     "the upper tail",
		run:       oneSidedGaussian,
	},

	// Appendix A: the reformulation.
	{
		Label: "alg:es-equiv", Reading: Printed, Kind: Identity, Expect: Refuted,
		Statement: "w_0^j uniform on √d·𝕊: w_t^j = θ̂_t ± rθ̃_t^j",
		Note:      "w_0 lacks the factor r.",
		Plant:     "r = 1",
		run:       incrementalIsEnsemble("printed", "printed", 3, 1, ""),
	},
	{
		Label: "alg:es-equiv", Reading: Corrected, Kind: Identity, Expect: Holds,
		Statement: "w_0^j = r S_0^j/λ: w_t^j = θ̂_t ± rθ̃_t^j",
		Plant:     "w_0^j uniform on √d·𝕊",
		run:       incrementalIsEnsemble("corrected", "corrected", 3, 3, "printed"),
	},
	{
		Label: "alg:es-equiv", Part: "cap of β", Reading: Printed, Kind: Inequality, Expect: Holds,
		Statement: "β_t^δ ≤ β̃_T^δ = √λ + √(2 log(1/δ) + d log(1 + T/(λd)))",
		Plant:     "d log((d + T/λ)/d) without the factor d",
		run:       radiusCap,
	},
	{
		Label: "alg:es-equiv", Part: "regret", Reading: Corrected, Kind: Probability, Expect: Vacuous,
		Statement: "constant r = 7β̃_T: R(τ) ≤ 40 m^{3/2} β̃_T(2E(τ) + M(τ, δ)) with probability 1 − 3δ",
		Plant:     "the bound divided by 4·10⁸, twice what is noticed",
		run:       regretBound("theorem1_constant_r", 3, 5, 1000, 4e8, theoremEnsemble("random", constantR)),
	},

	// Appendix B: tools of the master theorem.
	{
		Label: "lem:time-unif-bound", Part: "δ = 0.1", Reading: Printed, Kind: Probability, Expect: Holds,
		Statement: "|ξ_t| ≤ c: P(∃τ: (Σξ)² ≥ 2(c²τ + 1) log(√(c²τ + 1)/δ)) ≤ δ",
		Plant:     "the misprint of its source, c²(τ + 1) in place of c²τ + 1",
		run:       boundaryCrossing(0.1),
	},
	{
		Label: "lem:time-unif-bound", Part: "δ = 0.5", Reading: Printed, Kind: Probability, Expect: Holds,
		Statement: "|ξ_t| ≤ c: P(∃τ: (Σξ)² ≥ 2(c²τ + 1) log(√(c²τ + 1)/δ)) ≤ δ",
		Plant:     "the misprint of its source, c²(τ + 1) in place of c²τ + 1",
		run:       boundaryCrossing(0.5),
	},
	{
		Label: "lem:epl", Reading: Printed, Kind: Inequality, Expect: Holds,
		Statement: "λ ≥ 1: Σ_{t≤τ} ‖x_t‖² in V_{t−1}^{−1} ≤ 2d log(1 + τ/(λd))",
		Plant:     "λ = 0.05",
		run:       potential,
	},
	{
		Label: "claim:supp-subgrad", Reading: Printed, Kind: Inequality, Expect: Holds,
		Statement: "J(θ_t) + ⟨X_t, θ − θ_t⟩ ≤ J(θ)",
		Plant:     "X_t the maximiser at another parameter",
		run:       subgradient,
	},

	// Appendix C: optimism.
	{
		Label: "lem:conv-opt-ball", Reading: Printed, Kind: Inequality, Expect: Holds,
		Statement: "F convex, u its maximiser over 𝔹: ⟨v, u⟩ ≥ 1 implies F(v) ≥ F(u)",
		Plant:     "⟨v, u⟩ ≥ 1/2",
		run:       convexOnHalfspace,
	},

	// Appendix D: confident Thompson sampling.
	{
		Label: "alg:ts", Reading: Printed, Kind: Probability, Expect: Holds,
		Statement: "θ_t is uniform on the √d-inflation of the confidence ellipsoid: (‖θ_t − θ̂‖_V/(√d β))^d is uniform",
		Plant:     "the radius without its power d",
		run:       confidentLaw,
	},
	{
		Label: "claim:ts", Reading: Printed, Kind: Probability, Expect: Vacuous,
		Statement: "R(τ) ≤ 613 β_{τ−1} √d (√(dτ log(1+τ/(λd))) + √((τ/λ) log⁺(τ/(λδ)))) for all τ with probability 1 " +
			"− δ, d ≥ 2",
		Note:  "C = 613 is the constant that the proof gives. Printed “R(T)” reads R(τ).",
		Plant: "the bound divided by 6000, twice what is noticed",
		run:   regretBound("ts_c", 1, 5, 1000, 6000, confident),
	},
	{
		Label: "claim:ts", Reading: Corrected, Kind: Probability, Expect: Vacuous,
		Statement: "R(τ) ≤ (2√d β_{τ−1}/cap_d)(2E(τ) + M(τ, δ)) for all τ with probability 1 − 2δ, d ≥ 2",
		Plant:     "the bound divided by 700, twice what is noticed",
		run:       regretBound("ts_exact_cap", 2, 5, 1000, 700, confident),
	},
	{
		Label: "claim:ts", Part: "width", Reading: Printed, Kind: Inequality, Expect: Refuted,
		Statement: "θ_t ∈ θ̂_{t−1} + b V_{t−1}^{−1/2}𝔹 with b = √d",
		Note:      "b lacks the factor β.",
		Plant:     "b = √d β",
		run:       confidentWidth(false),
	},
	{
		Label: "claim:ts", Part: "width", Reading: Corrected, Kind: Inequality, Expect: Holds,
		Statement: "θ_t ∈ θ̂_{t−1} + b V_{t−1}^{−1/2}𝔹 with b = √d β_{t−1}",
		Plant:     "b = √d",
		run:       confidentWidth(true),
	},
	{
		Label: "claim:ts", Part: "cap", Reading: Printed, Kind: Inequality, Expect: Refuted,
		Statement: "U(√d·𝔹)({u_1 ≥ 1}) ≥ 1/(16√(3π)) for every d",
		Note: "For d = 1 the half-line meets the ball in one point and the probability is 0: the proof needs d " +
			"≥ 2 (or the radius √(d+2)).",
		Plant: "d ≥ 2",
		run:   capIsLarge([]int{1, 2, 3, 5, 10, 50, 1000}, []int{2, 3, 5, 10, 50, 1000}),
	},
	{
		Label: "claim:ts", Part: "cap", Reading: Corrected, Kind: Inequality, Expect: Holds,
		Statement: "U(√d·𝔹)({u_1 ≥ 1}) ≥ 1/(16√(3π)) for d ≥ 2",
		Note:      "It is ½ I_{1−1/d}((d+1)/2, ½) ≥ 0.0908, 4.5 to 7.8 times the claimed constant.",
		Plant:     "d = 1 allowed",
		run:       capIsLarge([]int{2, 3, 5, 10, 50, 1000}, []int{1, 2, 3}),
	},
	{
		Label: "claim:ts", Part: "cap by drawing", Reading: Corrected, Kind: Probability, Expect: Holds,
		Statement: "the program's draws from the ball: cap_5 = ½ I_{4/5}(3, ½)",
		Plant:     "the radius W in place of W^{1/d}",
		run:       capByDrawing,
	},
	{
		Label: "claim:ts", Part: "optimism", Reading: Corrected, Kind: Probability, Expect: Holds,
		Statement: "p_{t−1} ≥ cap_d when θ* is in its ellipsoid, d ≥ 2",
		Plant:     "r = 0.05, without β",
		run:       confidentOptimism,
	},

	// Appendix E: initialisation.
	{
		Label: "thm:uniform-concentration-sphere", Reading: Printed, Kind: Probability, Expect: Holds,
		Statement: "√m − c√y ≤ s_d ≤ s_1 ≤ √m + c√y, c = 1/(1−2ε), with probability 1 − exp(−3y/8 + log(2(1+2/ε)^d))",
		Note:      "Not refuted in simulation, far from tight; its proof has a false step.",
		Plant:     "rows twice as long",
		run:       sphereColumns,
	},
	{
		Label: "thm:uniform-concentration-sphere", Part: "fixed direction", Reading: Printed, Kind: Probability,
		Expect:    Refuted,
		Statement: "P(|Z_x² − 1| ≥ √(y/m) ∨ y/m) ≤ 2e^{−3y/8}",
		Note:      "Var(d⟨X, x⟩²) = 2(d−1)/(d+2), so the central limit theorem alone gives e^{−y/4} for large d.",
		Plant:     "d = 3, where the variance is 4/5",
		run:       fixedDirection(3./8, 32, 3, 1),
	},
	{
		Label: "thm:uniform-concentration-sphere", Part: "fixed direction", Reading: Corrected, Kind: Probability,
		Expect:    Holds,
		Statement: "P(|Z_x² − 1| ≥ √(y/m) ∨ y/m) ≤ 2e^{−y/8}",
		Plant:     "rows √2 times as long",
		run:       fixedDirection(1./8, 32, 0, 2),
	},
	{
		Label: "claim:mgf-bound-uniform-projection", Reading: Printed, Kind: Inequality, Expect: Refuted,
		Statement: "E exp(s|X_x² − 1/d|) ≤ exp(s²ν/(2(1 − cs))), ν = 2/d², c = 4/d, 0 < s < 1/c",
		Note:      "The left side is 1 + s E|·| to first order.",
		Plant:     "without the modulus",
		run:       projectionMGF(4, true),
	},
	{
		Label: "claim:mgf-bound-uniform-projection", Reading: Corrected, Kind: Inequality, Expect: Holds,
		Statement: "E exp(±s(X_x² − 1/d)) ≤ exp(s²ν/(2(1 − cs))), ν = 2/d², c = 4/d, for each sign",
		Plant:     "half the variance",
		run:       projectionMGF(4, false),
	},
	{
		Label: "claim:mgf-bound-uniform-projection", Part: "c = 2/d", Reading: Corrected, Kind: Inequality,
		Expect:    Holds,
		Statement: "the same with c = 2/d",
		Note: "On a grid of d and s, not proved; lem:initialisation with m ≥ 144d uses it. With the proved c = " +
			"4/d it is m ≥ 183d.",
		Plant: "half the variance",
		run:   projectionMGF(2, false),
	},
	{
		Label: "lem:approximate-isometry", Reading: Printed, Kind: Inequality, Expect: Holds,
		Statement: "‖AᵀA − I‖ ≤ ε ∨ ε² implies 1 − ε ≤ s_d(A) ≤ s_1(A) ≤ 1 + ε",
		Plant:     "ε/2",
		run:       isometry,
	},
	{
		Label: "lem:quadratic-net", Reading: Printed, Kind: Inequality, Expect: Holds,
		Statement: "‖A‖ ≤ sup over an ε-net of |⟨Ax, x⟩|/(1 − 2ε)",
		Plant:     "without the factor 1/(1 − 2ε)",
		run:       quadraticNet,
	},

	// Appendix G: concentration.
	{
		Label: "def:sg", Part: "sums", Reading: Printed, Kind: Inequality, Expect: Holds,
		Statement: "the sum of an a- and a b-subgaussian variable, dependent or not, is √(2(a² + b²))-subgaussian",
		Plant:     "√(1.5(a² + b²))",
		run:       sumOfSubgaussians,
	},
	{
		Label: "lem:pena-concentration-uniform", Reading: Printed, Kind: Probability, Expect: Holds,
		Statement: "P(∃τ: (ΣA)² ≥ (ΣB² + y)(x + log(1 + ΣB²/y))) ≤ e^{−x/2}",
		Note:      "Needs A_i adapted to the next σ-algebra and B_i predictable, which the text does not say.",
		Plant:     "half of x and no logarithm",
		run:       selfNormalised,
	},
	{
		Label: "claim:noise-subgaussian", Reading: Printed, Kind: Inequality, Expect: Holds,
		Statement: "W_{t+1} is conditionally σ_t/√m-subgaussian, σ_t² = 2Q_t² + Q_tR_t",
		Plant:     "targets ±√2",
		run:       stepMGF(2, 1, unit, wideSigns),
	},
	{
		Label: "claim:noise-subgaussian", Part: "sharper constants", Reading: Corrected, Kind: Inequality,
		Expect:    Holds,
		Statement: "σ_t² = 1.078Q_t² + 0.3667Q_tR_t",
		Plant:     "targets ±1",
		run:       stepMGF(1.078, 0.3667, unit, signs),
	},
	{
		Label: "claim:noise-subgaussian", Part: "reason", Reading: Printed, Kind: Inequality, Expect: Refuted,
		Statement: "|U| ≤ 1 and E U = 0 make U 1/√2-subgaussian",
		Note:      "±1 is the counterexample; boundedness alone gives 1.",
		Plant:     "the uniform law",
		run:       proxy(0.5, signs, unit, func(u float64, _ target) float64 { return u }),
	},
	{
		Label: "claim:noise-subgaussian", Part: "reason", Reading: Corrected, Kind: Inequality, Expect: Holds,
		Statement: "U uniform on [−1, 1] is 1/√3-subgaussian",
		Plant:     "±1",
		run:       proxy(1./3, unit, signs, func(u float64, _ target) float64 { return u }),
	},
	{
		Label: "claim:noise-subgaussian", Part: "proxy of U²", Reading: Corrected, Kind: Inequality, Expect: Holds,
		Statement: "U² − 1/3 has variance proxy at most 0.098",
		Note:      "On a grid of s, not proved; Hoeffding's lemma gives 1/4.",
		Plant:     "U uniform on [−√2, √2]",
		run:       proxy(0.098, unit, wide, func(u float64, law target) float64 { return u*u - law.v }),
	},
	{
		Label: "claim:sum-Q-RQ", Reading: Printed, Kind: Inequality, Expect: Holds,
		Statement: "1 + Σ_{i=τ}^t σ_i² ≤ 3 + Σ_{i=τ}^t Q_iR_i for 0 ≤ τ ≤ t < T",
		Note: "The printed range 0 ≤ t ≤ τ < T has the letters exchanged, and X_0 in the proof's sums does not " +
			"exist.",
		Plant: "λ = 0.1",
		run:   varianceSums(func(float64) float64 { return 3 }),
	},
	{
		Label: "claim:sum-Q-RQ", Part: "sharper constant", Reading: Corrected, Kind: Inequality, Expect: Holds,
		Statement: "1 + Σσ² ≤ 1 + 2/λ + ΣQR, because ΣQ² ≤ 1/λ",
		Plant:     "λ = 0.1",
		run:       varianceSums(func(lambda float64) float64 { return 1 + 2/lambda }),
	},
	{
		Label: "claim:sum-Q-RQ2", Reading: Printed, Kind: Inequality, Expect: Holds,
		Statement: "R_0 ≤ 2: 1 + Σσ² ≤ (3 + 2T)²",
		Plant:     "targets 40 times as large",
		run:       varianceCap(2),
	},
	{
		Label: "claim:sum-Q-RQ2", Part: "sharper constant", Reading: Corrected, Kind: Inequality, Expect: Holds,
		Statement: "R_0 ≤ 2: 1 + Σσ² ≤ (3 + T)²",
		Note:      "With it lem:noise-sum-bound and lem:process-max-lower-bound ask for the same m.",
		Plant:     "targets 40 times as large",
		run:       varianceCap(1),
	},
	{
		Label: "claim:sum-Q-RQ2", Part: "proof", Reading: Printed, Kind: Inequality, Expect: Refuted,
		Statement: "R_i^j ≤ 2R_0^j + 2(Σ⟨u, X_l⟩)²/‖u‖²_V",
		Note:      "Absolute values are missing: alternating actions make the sum 0. (And the index i is used twice.)",
		Plant:     "|⟨u, X_l⟩|",
		run:       growthChain(false),
	},
	{
		Label: "claim:sum-Q-RQ2", Part: "proof", Reading: Corrected, Kind: Inequality, Expect: Holds,
		Statement: "R_i^j ≤ 2R_0^j + 2(Σ|⟨u, X_l⟩|)²/‖u‖²_V ≤ 2R_0^j + 2i",
		Plant:     "without absolute values",
		run:       growthChain(true),
	},

	// Appendix H: proofs of the claims.
	{
		Label: "lem:sasha-bound", Part: "first sum", Reading: Printed, Kind: Inequality, Expect: Holds,
		Statement: "b_j ∈ [0, 1]: Σ b_j/(λ + B_j) ≤ log(1 + n/λ)",
		Plant:     "B_{j−1} in place of B_j",
		run:       potentialSums(false),
	},
	{
		Label: "lem:sasha-bound", Part: "second sum", Reading: Printed, Kind: Inequality, Expect: Holds,
		Statement: "b_j ∈ [0, 1]: Σ (b_j/(λ + B_j))² ≤ n/(λ(λ + n)) ≤ 1/λ",
		Plant:     "B_{j−1} in place of B_j",
		run:       potentialSums(true),
	},
}
