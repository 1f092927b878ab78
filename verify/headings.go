package verify

// Heading is where a label stands in the paper.
type Heading struct {
	Label   string
	Number  string // Theorem 1
	Title   string // a few words
	Section string // part of the paper; the first heading of a part opens it
}

// Headings lists every label of the checks in the order of the paper. Statements share one counter
// there, remarks and algorithms have their own.
var Headings = []Heading{
	{"ass:sg", "Assumption 1", "Subgaussian noise, targets drawn late", "Setting, algorithm, main theorem"},
	{"alg:es", "Algorithm 1", "Linear ensemble sampling", "Setting, algorithm, main theorem"},
	{"thm:es", "Theorem 1", "Regret of ensemble sampling", "Setting, algorithm, main theorem"},
	{"remark:1", "Remark 1", "Orders of ensemble size and regret", "Setting, algorithm, main theorem"},
	{"rem:large-m", "Remark 2", "Large ensembles", "Setting, algorithm, main theorem"},
	{"rem:max-over-ensemble", "Remark 5", "The maximum over the ensemble", "Setting, algorithm, main theorem"},
	{"remark:bayes-es-comparison", "Remark 7", "Qin et al.", "Setting, algorithm, main theorem"},
	{"remark:large-ensemble", "Remark 8", "Lee and Oh", "Setting, algorithm, main theorem"},
	{"thm:master", "Theorem 2", "Master regret bound", "The master theorem"},
	{"lem:conf-sets", "Lemma 3", "Confidence ellipsoids", "The master theorem"},
	{"lem:thetaopt-lower-bound", "Lemma 4", "Optimistic parameters", "The master theorem"},
	{"thm:sing-val-gamma", "Theorem 5", "Singular values of the ensemble", "Singular values"},
	{"remark:es-sym-2", "Remark 11", "Without symmetrisation", "Singular values"},
	{"remark:es-improve-bound", "Remark 12", "Can the bound be improved?", "Singular values"},
	{"rem:lower-vs-upper", "Remark 13", "Norms of the members", "Singular values"},
	{"lem:initialisation", "Lemma 6", "Initialisation", "Singular values"},
	{"claim:inf-sup-R", "Claim 7", "Quadratic forms", "Singular values"},
	{"lem:process-max-lower-bound", "Lemma 8", "The process for one direction", "Singular values"},
	{"lem:rtlipschitz", "Lemma 9", "Lipschitz constant", "Singular values"},
	{"claim:size-of-cover", "Lemma 10", "Size of nets", "Singular values"},
	{"claim:alpha-non-neg", "Claim 11", "Drift", "The process"},
	{"lem:noise-sum-bound", "Lemma 12", "Sums of noises", "The process"},
	{"remark:es-uniform-2", "Remark 14", "Gaussian targets", "The process"},
	{"alg:es-equiv", "Algorithm 2", "The reformulation", "Appendix A: reformulation"},
	{"lem:time-unif-bound", "Lemma 13", "Martingales, uniformly in time", "Appendix B: the master theorem's tools"},
	{"lem:epl", "Lemma 14", "Elliptical potential", "Appendix B: the master theorem's tools"},
	{"claim:supp-subgrad", "Claim 15", "Subgradients", "Appendix B: the master theorem's tools"},
	{"lem:conv-opt-ball", "Lemma 16", "Convex functions on half-spaces", "Appendix C: optimism"},
	{"alg:ts", "Algorithm 3", "Confident Thompson sampling", "Appendix D: Thompson sampling"},
	{"claim:ts", "Theorem 17", "Regret of confident Thompson sampling", "Appendix D: Thompson sampling"},
	{"thm:uniform-concentration-sphere", "Theorem 18", "Random matrices with rows on the sphere",
		"Appendix E: initialisation"},
	{"claim:mgf-bound-uniform-projection", "Claim 19", "Projections of the sphere", "Appendix E: initialisation"},
	{"lem:approximate-isometry", "Lemma 20", "Approximate isometry", "Appendix E: initialisation"},
	{"lem:quadratic-net", "Lemma 21", "Quadratic forms on a net", "Appendix E: initialisation"},
	{"def:sg", "Definition 22", "Conditional subgaussianity", "Appendix G: concentration"},
	{"lem:pena-concentration-uniform", "Lemma 23", "Self-normalised sums", "Appendix G: concentration"},
	{"claim:noise-subgaussian", "Claim 24", "One step of noise", "Appendix G: concentration"},
	{"claim:sum-Q-RQ", "Claim 25", "Sums of variances", "Appendix G: concentration"},
	{"claim:sum-Q-RQ2", "Claim 26", "A crude cap", "Appendix G: concentration"},
	{"lem:sasha-bound", "Lemma 27", "Two sums", "Appendix H: proofs of the claims"},
	{"janz2026:thm-4.1", "Theorem 4.1", "Regret of the Gaussian ensemble", "Newer: arXiv 2602.08026"},
	{"janz2026:thm-5.3", "Theorem 5.3", "Embedding into Brownian motion", "Newer: arXiv 2602.08026"},
	{"janz2026:thm-5.4", "Theorem 5.4", "Exceedance", "Newer: arXiv 2602.08026"},
	{"janz2026:cor-5.6", "Corollary 5.6", "All directions", "Newer: arXiv 2602.08026"},
	{"janz2026:lem-I.1", "Lemma I.1", "Stuck in the span", "Newer: arXiv 2602.08026"},
	{"janz2026:thm-4.2", "Theorem 4.2", "Linear regret below d/2 members", "Newer: arXiv 2602.08026"},
	{"atoms", "Atoms", "Members redrawn instead of accumulated", "Ours"},
	{"few", "Few", "The price of few frozen members", "Ours"},
	{"few-exponent", "Few, exponent", "The exponent of the price", "Ours"},
	{"few-horizon", "Few, horizon", "How many members for T rounds", "Ours"},

	{"ats", "Absolute TS", "Regret of absolute Thompson sampling", "Ours"},
	{"inflation", "Inflation", "How much inflation, how many members", "Ours"},
}

// HeadingOf returns the heading of a label.
func HeadingOf(label string) Heading {
	for _, h := range Headings {
		if h.Label == label {
			return h
		}
	}
	return Heading{Label: label, Number: label}
}
