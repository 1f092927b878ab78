package verify

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// fault is a wrong program: right is replaced by wrong in a file of the module, and the checks of a label must notice it.
// In wrong, plant(right, fault) is the second value while this fault is planted, and the first otherwise.
type fault struct {
	name, label, file, right, wrong string
	tests                           string // of the package of the file, where verify has no claim: a pattern of go test -run
}

// faults are those of the third reading of the project's science but for four in policies that verify does not speak of, and those of the fourth.
// Without a label: verify has no claim on this policy, and tests of its package notice it.
var faults = []fault{
	{"ensemble: constant scale halved", "alg:es", "policy/ensemble.go",
		"return e.radius.fixed //", "return plant(e.radius.fixed, e.radius.fixed/2) //", ""},
	{"ensemble: no sign in Select", "alg:es", "policy/ensemble.go",
		"s, step, sign*e.Scale())\n\t_, err", "s, step, plant(sign, 1)*e.Scale())\n\t_, err", ""},
	{"ensemble: last member never drawn", "alg:es", "policy/ensemble.go",
		"IntnSign(draw, e.Members())", "IntnSign(draw, e.Members()-plant(0, 1))", ""},
	{"atoms: directions halved", "atoms", "policy/atoms.go",
		"sign*a.Scale(), a.member)", "sign*a.Scale()*plant(1.0, 0.5), a.member)", ""},
	{"atoms: no sign in Select", "atoms", "policy/atoms_law.go", "sign = draw.Sign(1)", "sign = plant(draw.Sign(1), 1)", ""},
	{"key decision acts as round", "atoms", "policy/atoms.go",
		"\t\treturn decision\n", "\t\treturn plant(decision, n)\n", ""},
	{"key decision shared by two decisions", "atoms", "policy/atoms.go",
		"case theory.DecisionKey:\n", "case theory.DecisionKey:\n\t\tdecision = plant(decision, decision/2)\n", ""},
	{"uniform targets: variance 2/3", "alg:es", "policy/ensemble_options.go",
		"variance: 1.0 / 3", "variance: plant(1.0/3, 2.0/3)", ""},
	{"init corrected = printed", "alg:es", "policy/ensemble_options.go",
		"size = math.Sqrt(lambda * float64(d))\n",
		"size = plant(math.Sqrt(lambda*float64(d)), lambda*math.Sqrt(float64(d)))\n", ""},
	{"init matched without Var U", "alg:es", "policy/ensemble_options.go",
		"lambda * float64(d) * variance", "lambda * float64(d) * plant(variance, 1)", ""},
	{"init prior: lambda for sqrt lambda", "alg:es", "policy/ensemble_options.go",
		"size = math.Sqrt(lambda)\n", "size = plant(math.Sqrt(lambda), lambda)\n", ""},
	{"alg 2: mirror gets +u", "alg:es-equiv", "policy/incremental.go",
		"linalg.Axpy(y-u-", "linalg.Axpy(y-plant(u, -u)-", ""},
	{"alg 2: w_0 without r", "alg:es-equiv", "policy/incremental.go",
		"full.Init, r/full.Lambda", "full.Init, plant(r, 1)/full.Lambda", ""},
	{"ts: half the scale", "alg:ts", "policy/ts.go", "float64(c*s.theta[i])", "float64(plant(c, c/2)*s.theta[i])", ""},
	{"ts: stale factor, every 10th update lost", "alg:ts", "policy/ts.go",
		"\ts.factor.Update(a.X)\n", "\tif plant(1, s.ridge.Len()%10) != 0 {\n\t\ts.factor.Update(a.X)\n\t}\n", ""},
	{"alg 3: no sqrt(d)", "alg:ts", "policy/confident_ts.go",
		"c.ts.Scale() * math.Sqrt(float64(d))", "c.ts.Scale() * plant(math.Sqrt(float64(d)), 1)", ""},
	{"linucb: width squared", "lem:conf-sets", "policy/linucb.go",
		"math.Sqrt(u.widths().Width2(x))", "plant(math.Sqrt(u.widths().Width2(x)), u.widths().Width2(x))", ""},
	{"exact-law: lambda I counted twice", "alg:es", "policy/exact.go",
		"row[0] -= b.lambda", "row[0] -= plant(b.lambda, 0)", ""},
	{"ensemble: S gets V^-1 x", "alg:es", "policy/engine.go", "a.Add(x, draw)", "a.Add(plant(x, gain), draw)", ""},
	{"ensemble: beta_0 for ever", "alg:es", "policy/ensemble.go",
		"return e.radius.at(e.ridge.LogDetRatio())", "return e.radius.at(plant(e.ridge.LogDetRatio(), 0))", ""},
	{"squarecb: gamma t for gamma sqrt t", "", "policy/squarecb.go",
		"s.gamma * math.Sqrt(t)", "s.gamma * plant(math.Sqrt(t), t)", "^TestSquareCB$"},
	{"ids: information not weighted by p", "", "policy/ids.go",
		"float64(float64(n) / float64(s.m) * c * c)", "float64(plant(float64(n)/float64(s.m), 1) * c * c)", "^TestIDS$"},
	{"beta: log 1/delta once", "alg:es", "theory/theory.go",
		"logDetRatio-2*logs.Log(delta)", "logDetRatio-plant(2.0, 1)*logs.Log(delta)", ""},
	{"m = 60 log", "thm:es", "theory/theory.go", "members(400, d,", "members(plant(400.0, 60), d,", ""},
	{"log N without sqrt", "thm:es", "theory/theory.go", "float64(0.5*log1pRatio", "float64(plant(0.5, 1)*log1pRatio", ""},
	{"Epochs without 1 +", "few", "theory/few.go", "return 1 + math.Floor", "return plant(1.0, 0) + math.Floor", ""},
	{"S(s): noise of the arm left out", "few", "theory/few.go",
		"math.Sqrt(float64(n)+float64(r2*k))", "math.Sqrt(plant(float64(n), 0)+float64(r2*k))", ""},
	{"thm:few without 1/2", "few", "theory/few.go", "return lo / 2", "return lo / plant(2.0, 1)", ""},
	{"few-exponent: lambda for lambda/k", "few-exponent", "theory/few.go",
		"1+f.Lambda/n)", "1+f.Lambda/plant(n, 1))", ""},
	{"few-exponent: /k for /sqrt k", "few-exponent", "theory/few.go",
		"(f.Lambda+n)*gap))/math.Sqrt(n))", "(f.Lambda+n)*gap))/plant(math.Sqrt(n), n))", ""},
	{"atoms: p = q", "atoms", "theory/atoms.go", "P: q / 2,", "P: q / plant(2.0, 1),", ""},
	{"atoms: B without the 2", "atoms", "theory/atoms.go",
		"math.Sqrt(2*(logKeys", "math.Sqrt(plant(2.0, 1)*(logKeys", ""},
	{"cap without 1/2", "claim:ts", "theory/bounds.go", "0.5 * mathext.RegIncBeta", "plant(0.5, 1) * mathext.RegIncBeta", ""},
	{"member norm: /6 for /3", "rem:lower-vs-upper", "theory/bounds.go", "+logDetRatio)/3)", "+logDetRatio)/plant(3.0, 6))", ""},
	{"few-members (b): half of m", "few", "theory/few.go",
		"return -logs.Log(delta) / (2 * normalTail(1/c))", "return -logs.Log(delta) / (plant(2.0, 4) * normalTail(1/c))", ""},
	{"potential without sqrt 2", "lem:epl", "theory/bounds.go",
		"math.Sqrt2 * math.Sqrt(tau)", "plant(math.Sqrt2, 1) * math.Sqrt(tau)", ""},
	{"martingale without sqrt 2", "lem:time-unif-bound", "theory/bounds.go",
		"return math.Sqrt2 * a", "return plant(math.Sqrt2, 1) * a", ""},
	{"Stuck: sigma^2 for sigma", "few", "theory/few.go",
		"checkStuck(m, sigma, math.Abs(gap))\n\tconst ratio", "checkStuck(m, sigma, math.Abs(gap))\n\tsigma *= plant(1, sigma)\n\tconst ratio", ""},

	// Those that verify missed in the fourth reading, and what a level adds.
	{"LostBy: good models a tenth more often", "few-horizon", "theory/horizon.go", "q := few / (2 * c.m)", "q := few / (plant(2.0, 2/1.1) * c.m)", ""},
	{"LostBy: sqrt k for sqrt(lambda + k)", "few-horizon", "theory/horizon.go",
		"left, sd := 0.0, float64(c.r*math.Sqrt(c.lambda+k))", "left, sd := 0.0, float64(c.r*math.Sqrt(plant(c.lambda, 0)+k))", ""},
	{"LostBy: b for lambda b", "few-horizon", "theory/horizon.go", "debt: f.Lambda * f.Other", "debt: plant(f.Lambda, 1) * f.Other", ""},
	{"LostBy: sign of the level", "few-horizon", "theory/horizon.go", "- c.debt + float64(", "- plant(c.debt, -c.debt) + float64(", ""},
	{"LostBy: half good before the first pull", "few-horizon", "theory/horizon.go", "c.at(-c.debt /", "c.at(-plant(c.debt, 0) /", ""},
	{"LostAmong: exponent 1.2", "few-horizon", "theory/horizon.go", "float64(arms-1), 1.5)", "float64(arms-1), plant(1.5, 1.2))", ""},
	{"LostAmong: 1 + lambda left out", "few-horizon", "theory/horizon.go", "/ (1 + f.Lambda)\n", "/ (1 + plant(f.Lambda, 0))\n", ""},
	{"cap of beta: T/lambda for T/(lambda d)", "lem:conf-sets", "theory/theory.go",
		"Beta(lambda, delta, LogDetCap(d, T, lambda))",
		"Beta(lambda, delta, plant(LogDetCap(d, T, lambda), float64(d)*log1pRatio(float64(T), lambda)))", ""},
	{"master: E for 2E", "thm:master", "theory/bounds.go", "2*Potential(d, tau, lambda) + Martingale", "plant(2.0, 1)*Potential(d, tau, lambda) + Martingale", ""},

	{"ats: c of 8 members more", "ats", "policy/ats.go", "theory.MaxAbsNormal(float64(o.M))", "theory.MaxAbsNormal(float64(o.M + plant(0, 8)))", ""},
	{"ats: no absolute value", "ats", "policy/ats.go", "[...]float64{c, -c}", "[...]float64{c, plant(-c, c)}", ""},
	{"ats: beta for beta/c_m", "ats", "policy/ats.go", "d, c, top := a.ridge.Dim(), a.Scale()/a.norm,", "d, c, top := a.ridge.Dim(), a.Scale()/plant(a.norm, 1),", ""},
	{"ats: law with beta for beta/c_m", "ats", "policy/ats_law.go", "unit := a.Scale() / a.norm", "unit := a.Scale() / plant(a.norm, 1)", ""},
	{"ats: law with exponent m", "ats", "policy/ats_law.go", "math.Exp((m - 1) * logs.Log1p(-math.Min(u, 1)))", "math.Exp((m - plant(1.0, 0)) * logs.Log1p(-math.Min(u, 1)))", ""},
	{"ats: kappa without 1 +", "ats", "theory/absolute.go", "return float64((1+k)*radius", "return float64((plant(1.0, 0)+k)*radius", ""},
	{"ats: e/(e - 1) is 1", "ats", "theory/absolute.go", "math.E / (math.E - 1) * (2*", "plant(math.E/(math.E-1), 1) * (2*", ""},
	{"ats: martingale with c = 1", "ats", "theory/absolute.go", "+ Martingale(tau, 1, s.Delta)", "+ Martingale(tau, plant(1.0, 4), s.Delta)", ""},
	{"ats: chi square of d + 1", "ats", "theory/absolute.go", "mathext.GammaIncRegComp(float64(d)/2,", "mathext.GammaIncRegComp(float64(d+plant(0, 1))/2,", ""},
	{"ats: every second member", "ats", "policy/ats.go", "draw.Normals(a.eta, j*d)", "draw.Normals(a.eta, plant(j, j/2)*d)", ""},

	// Those of the first days of paper/inflation, which had not been looked for before.
	{"max on the ball: without the models of sign -", "rem:max-over-ensemble", "policy/ensemble.go",
		"e.each(func(int, float64) error {\n\t\tv, err := set.ArgMax(&e.challenging, e.theta)\n\t\tif err == nil && v > top {",
		"e.each(func(_ int, sign float64) error {\n\t\tv, err := set.ArgMax(&e.challenging, e.theta)\n\t\tif err == nil && v > top && plant(1, sign) > 0 {", ""},
	{"prior-span: one coordinate too many", "inflation", "policy/ensemble_options.go", "clear(row[j+1:])", "clear(row[min(d, j+plant(1, 2)):])", ""},
	{"prior-span: length of the rest", "", "policy/ensemble_options.go",
		"row[j] = linalg.Norm(row[j:])", "row[j] = plant(linalg.Norm(row[j:]), math.Abs(row[j]))", "^TestPriorSpan$"},
	{"ts: factor of lambda squared", "", "policy/ts.go",
		"linalg.NewBlockFactor(p.Dim, g.ridge.Lambda())", "linalg.NewBlockFactor(p.Dim, plant(1, g.ridge.Lambda())*g.ridge.Lambda())", "^TestThompson"},
	{"linucb: half the radius", "inflation", "policy/linucb.go", "r := u.Scale()", "r := u.Scale() * plant(1, 0.5)", ""},
	{"log det: T/lambda for T/(lambda d)", "", "theory/theory.go",
		"float64(d * log1pRatio(T, lambda*d))", "float64(d * log1pRatio(T, plant(lambda*d, lambda)))", "^Test(RadiiAndSizes|BoundsGolden)$"},
	{"martingale: tau for 4 tau", "lem:time-unif-bound", "theory/bounds.go",
		"math.Hypot(2*math.Sqrt(tau)/math.Sqrt(lambda), 1)", "math.Hypot(plant(2.0, 1)*math.Sqrt(tau)/math.Sqrt(lambda), 1)", ""},
	{"optimism step: b/p for 2b/p", "thm:master", "theory/bounds.go", "return 2 * b / p * meanNorm", "return plant(2.0, 1) * b / p * meanNorm", ""},
	{"prediction step: b for 2b", "thm:master", "theory/bounds.go", "return 2 * float64(b*norm)", "return plant(2.0, 1) * float64(b*norm)", ""},
	{"process range: 1 - alpha for 1 + alpha", "", "theory/bounds.go",
		"return v/(1+alpha) - float64", "return v/(1+plant(alpha, -alpha)) - float64", "^TestProcessRange$"},
	{"singular range: the net's error left out", "", "theory/bounds.go", "sdsq := lo - s1sq/33", "sdsq := lo - s1sq/plant(33.0, 1e9)", "^Test(ProcessRange|SingleConstants|BoundsGolden)$"},
	{"exceedance: half the members", "", "theory/related.go", "m := math.Ceil(4 / p *", "m := math.Ceil(plant(4.0, 2) / p *", "^TestRelated$"},
	{"janz2026: L without the 2", "", "theory/related.go", "l := 2 * janzGamma", "l := plant(2.0, 1) * janzGamma", "^TestRelated$"},
	{"janz2026: gamma without the 2", "", "theory/related.go", "float64(2*math.Sqrt(float64(2*(logs", "float64(plant(2.0, 1)*math.Sqrt(float64(2*(logs", "^TestRelated$"},
	{"ats: norm for its square", "ats", "theory/absolute.go", "float64(w * 2 * s * tail)", "float64(w * plant(2*s, 1) * tail)", ""},
	{"ats: kappa on K arms without m", "ats", "theory/absolute.go", "maxAbsNormalSquare(float64(arms)*m)", "maxAbsNormalSquare(float64(arms)*plant(m, 1))", ""},
	{"Learned: 3 for 30", "", "theory/horizon.go", "return 30 * float64(arms)", "return plant(30.0, 3) * float64(arms)", "^TestLearned$"},
	{"doubling: share of one epoch for all", "", "policy/doubling.go",
		"(float64(k+1) * float64(k+2))", "(float64(k+1) * float64(plant(k+2, 1)))", "^TestDoubling$"},
	{"centred: the mean of one reward more", "", "policy/centred.go",
		"return c.first + c.sum/float64(c.n)", "return c.first + c.sum/float64(c.n+plant(uint64(0), 1))", "^TestCentred"},
	{"scale: norm left out", "", "policy/scale.go", "bias *= s.Norm", "bias *= plant(s.Norm, 1)", "^Test(Scale|ATS)"},
	{"janz2026: r = 4 beta", "", "policy/ensemble_options.go", "betaScale(40)", "betaScale(plant(40.0, 4))", "^TestLiteraturePresets$"},
	{"uninflated: beta for beta/sqrt d", "", "policy/ts.go",
		"betaScale(1 / math.Sqrt(float64(p.Dim)))", "betaScale(plant(1/math.Sqrt(float64(p.Dim)), 1))", "^TestLiteraturePresets$"},
	{"evill: no weights of the likelihood", "", "policy/evill.go",
		"linalg.Axpy(e.opts.A*math.Sqrt(g.n*mu*rest)*draw", "linalg.Axpy(e.opts.A*math.Sqrt(g.n*plant(mu*rest, 1))*draw", "^TestPerturbedLikelihoods$"},
	{"linphe: prior of variance lambda", "", "policy/linphe.go",
		"math.Sqrt(h.ridge.Lambda() * h.law.variance)", "math.Sqrt(h.ridge.Lambda() * plant(h.law.variance, 1))", "^TestLinPHE"},
	{"span: E B for E sqrt B", "inflation", "theory/inflation.go", "g(a+0.5) + g(b) - g(a) - g(b+0.5)", "g(a+plant(0.5, 1)) + g(b) - g(a) - g(b+plant(0.5, 1))", ""},
	{"verify: a binomial tail from k + 1", "", "verify/verify.go",
		"mathext.RegIncBeta(float64(k), float64(n-k+1), q)", "mathext.RegIncBeta(float64(k+plant(0, 1)), float64(n-k+plant(1, 0)), q)", "^TestPower$"},
}

// planting is added to each package that has faults.
const planting = `package %s

import (
	"os"
	"strconv"
)

var planted, _ = strconv.Atoi(os.Getenv("TROUPE_PLANTED"))

func plant[T any](fault int, right, wrong T) T {
	if fault == planted {
		return wrong
	}
	return right
}
`

// overlay writes the files with all faults behind a switch and returns the overlay of the go command that replaces them. A
// fault whose right text is not in its file exactly once is an error: the program has changed, so the fault has to.
func overlay(dir string) (string, error) {
	root, err := filepath.Abs("..")
	if err != nil {
		return "", err
	}
	texts := map[string]string{}
	for i, f := range faults {
		if _, ok := texts[f.file]; !ok {
			b, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(f.file)))
			if err != nil {
				return "", err
			}
			texts[f.file] = string(b)
		}
		if n := strings.Count(texts[f.file], f.right); n != 1 {
			return "", fmt.Errorf("%s: %q is %d times in %s, expected once", f.name, f.right, n, f.file)
		}
		wrong := strings.ReplaceAll(f.wrong, "plant(", fmt.Sprintf("plant(%d, ", i+1))
		texts[f.file] = strings.Replace(texts[f.file], f.right, wrong, 1)
		name, _, _ := strings.Cut(f.file, "/")
		texts[name+"/planted_faults.go"] = fmt.Sprintf(planting, name)
	}
	replace := map[string]string{}
	for name, text := range texts {
		path := filepath.Join(dir, strings.ReplaceAll(name, "/", "-"))
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			return "", err
		}
		replace[filepath.Join(root, filepath.FromSlash(name))] = path
	}
	b, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "overlay.json")
	return path, os.WriteFile(path, b, 0o644)
}

// TestFaultsApply: each fault still has its place in the program, and each label is one of verify.
func TestFaultsApply(t *testing.T) {
	if _, err := overlay(t.TempDir()); err != nil {
		t.Error(err)
	}
	for _, f := range faults {
		if (f.label == "") == (f.tests == "") {
			t.Errorf("%s: expected a label or tests", f.name)
		}
		if f.label == "" {
			continue
		}
		if _, err := Select([]string{f.label}); err != nil {
			t.Errorf("%s: %v", f.name, err)
		}
	}
	if len(faults) != 83 {
		t.Errorf("%d faults, expected 83", len(faults))
	}
}

// TestFaultPlayed is the program that TestPlantedFaults builds: it plays the checks of the labels and names those that are
// not as expected.
func TestFaultPlayed(t *testing.T) {
	labels := os.Getenv("TROUPE_PLANTED_LABELS")
	if labels == "" {
		t.Skip("played by TestPlantedFaults")
	}
	checks, err := Select(strings.Split(labels, " "))
	if err != nil {
		t.Fatal(err)
	}
	results, err := Run(context.Background(), checks, Options{Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range results {
		if !r.Expected() {
			fmt.Printf("noticed by %s: %s\n", r.Name(), r.Verdict)
		}
	}
}

// failing plays tests of a package with a fault and returns the names of those that fail; without the fault all of them pass.
func failing(t *testing.T, program, dir, tests string, fault int) string {
	t.Helper()
	for _, planted := range []int{0, fault} {
		c := exec.Command(program, "-test.run", tests, "-test.count", "1", "-test.v")
		c.Dir = dir
		c.Env = append(os.Environ(), "TROUPE_LONG=", "TROUPE_PLANTED="+strconv.Itoa(planted))
		out, err := c.CombinedOutput()
		if planted == fault {
			var by []string
			for line := range strings.Lines(string(out)) {
				if name, ok := strings.CutPrefix(line, "--- FAIL: "); ok {
					by = append(by, strings.Fields(name)[0])
				}
			}
			return strings.Join(by, " ")
		}
		if err != nil || !strings.Contains(string(out), "--- PASS") {
			t.Fatalf("%s without a fault: %v\n%s", tests, err, out)
		}
	}
	return ""
}

// TestPlantedFaults builds the program once with all faults behind a switch and plays the checks of each fault's label, as
// troupe verify does without its own plants, or tests of the package. Every fault is noticed, and the program without a
// fault is not. With TROUPE_LONG=1; TROUPE_FAULTS=PATTERN plays those whose names match.
func TestPlantedFaults(t *testing.T) {
	if os.Getenv("TROUPE_LONG") == "" {
		t.Skip("TROUPE_LONG=1 plays it: builds and 90 runs")
	}
	dir := t.TempDir()
	path, err := overlay(dir)
	if err != nil {
		t.Fatal(err)
	}
	build := func(name, in string) string {
		program := filepath.Join(dir, name+".test")
		if out, err := exec.Command("go", "test", "-c", "-vet=off", "-ldflags=-s -w", "-overlay", path, "-o", program, in).CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		return program
	}
	program := build("verify", ".")
	played := func(fault int, labels string) string {
		c := exec.Command(program, "-test.run", "^TestFaultPlayed$", "-test.count", "1")
		c.Env = append(os.Environ(), "TROUPE_PLANTED="+strconv.Itoa(fault), "TROUPE_PLANTED_LABELS="+labels)
		out, err := c.CombinedOutput()
		if err != nil {
			t.Errorf("fault %d: %v\n%s", fault, err, out)
		}
		var by []string
		for line := range strings.Lines(string(out)) {
			if name, ok := strings.CutPrefix(line, "noticed by "); ok {
				by = append(by, strings.TrimSpace(name))
			}
		}
		return strings.Join(by, "; ")
	}
	var all []string
	noticed, of := 0, 0
	only := regexp.MustCompile(os.Getenv("TROUPE_FAULTS"))
	tests := map[string]string{"verify": program}
	for i, f := range faults {
		if !only.MatchString(f.name) {
			continue
		}
		of++
		if f.label == "" {
			name, _, _ := strings.Cut(f.file, "/")
			if tests[name] == "" {
				tests[name] = build(name, "../"+name)
			}
			if by := failing(t, tests[name], "../"+name, f.tests, i+1); by == "" {
				t.Errorf("%s: not noticed by %s of %s", f.name, f.tests, name)
			} else {
				noticed++
				t.Logf("%-42s %s", f.name, by)
			}
			continue
		}
		if !strings.Contains(" "+strings.Join(all, " ")+" ", " "+f.label+" ") {
			all = append(all, f.label)
		}
		by := played(i+1, f.label)
		t.Logf("%-42s %s", f.name, by)
		if by == "" {
			t.Errorf("%s: not noticed by %s", f.name, f.label)
		} else {
			noticed++
		}
	}
	if by := played(0, strings.Join(all, " ")); by != "" {
		t.Errorf("without a fault: %s", by)
	}
	t.Logf("%d of %d noticed", noticed, of)
}
