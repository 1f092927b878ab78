package report

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"troupe/report/chart"
	"troupe/sim"
)

// Also is what diagnostics.csv holds of one cell: by column, a value for each checkpoint.
type Also map[string][]float64

// parseDiagnostics reads diagnostics.csv beside the results of envs, as strictly as results.csv: the
// columns are those of the manifest's record, every cell is one of results.csv with the same
// checkpoints, and a column is filled in all rows of a cell or in none.
func parseDiagnostics(path string, data []byte, m *sim.Manifest, envs []EnvData) error {
	quantities, err := m.Quantities()
	if err != nil {
		return fmt.Errorf("manifest.json: %w", err)
	}
	var cols []string
	for _, q := range quantities {
		cols = append(cols, q.Columns...)
	}
	r := &diagnosticsReader{table: newTable(path, data, 4+len(cols)), m: m, envs: envs, cols: cols}
	if err := r.begin(); err != nil {
		return err
	}
	for e := range envs {
		envs[e].Also = make([][]Also, len(m.Policies))
		for p := range m.Policies {
			envs[e].Also[p] = make([]Also, m.Replications)
		}
	}
	for {
		rec, err := r.in.Read()
		if err == io.EOF {
			break
		}
		if err != nil {
			return csvFault(path, err)
		}
		if err := r.row(rec); err != nil {
			return err
		}
	}
	if r.next != len(r.rounds) {
		return fmt.Errorf("%s: the last cell has %d checkpoints, expected %d", path, r.next, len(r.rounds))
	}
	if want := m.Diagnostics; want != "" {
		sum := sha256.Sum256(data)
		if got := hex.EncodeToString(sum[:]); got != want {
			return fmt.Errorf("%s: SHA-256 is %.12s…, manifest.json says %.12s…: the file was changed after the run",
				path, got, want)
		}
	}
	return nil
}

// diagnosticsReader is diagnostics.csv while it is read.
type diagnosticsReader struct {
	table
	m    *sim.Manifest
	envs []EnvData
	cols []string // what was recorded

	// The cell that is being read.
	cell   Also
	of     [3]string // environment, policy, replication
	rounds []int     // its checkpoints
	next   int       // the one that its next row has
}

// begin reads the header.
func (r *diagnosticsReader) begin() error {
	header := "environment,policy,replication,round," + strings.Join(r.cols, ",")
	rec, err := r.in.Read()
	if err == io.EOF {
		return fmt.Errorf("%s: line 1, column 1: the file is empty, expected %q", r.path, header)
	}
	if err != nil {
		return csvFault(r.path, err)
	}
	if got := strings.Join(rec, ","); got != header {
		return r.fault(0, "header is %q, expected %q", got, header)
	}
	return nil
}

// row takes one row: of the cell that is being read, or the first of another one.
func (r *diagnosticsReader) row(rec []string) error {
	if r.next == len(r.rounds) {
		if err := r.open(rec); err != nil {
			return err
		}
	} else if r.of != [3]string{rec[0], rec[1], rec[2]} {
		return r.fault(0, "another cell after %d of %d checkpoints", r.next, len(r.rounds))
	}
	if round, err := strconv.Atoi(rec[3]); err != nil || round != r.rounds[r.next] {
		return r.fault(3, "round %q, expected %d", rec[3], r.rounds[r.next])
	}
	for c, col := range r.cols {
		v, filled := r.cell[col]
		if filled != (rec[4+c] != "") {
			return r.fault(4+c, "%s is filled in some rows of the cell and empty in others", col)
		}
		if !filled {
			continue
		}
		var err error
		if v[r.next], err = finite(rec[4+c]); err != nil {
			return r.fault(4+c, "%s %v", col, err)
		}
	}
	r.next++
	return nil
}

// open begins the cell of a row; its columns are those that this row has filled.
func (r *diagnosticsReader) open(rec []string) error {
	e := slices.IndexFunc(r.m.Environments, func(x sim.EnvironmentRow) bool { return x.Name == rec[0] })
	if e < 0 {
		return r.fault(0, "environment %q is not in manifest.json", rec[0])
	}
	p := slices.IndexFunc(r.m.Policies, func(x sim.PolicyRow) bool { return x.Name == rec[1] })
	if p < 0 {
		return r.fault(1, "policy %q is not in manifest.json", rec[1])
	}
	n, err := strconv.Atoi(rec[2])
	if err != nil || n < 1 || n > r.m.Replications || r.envs[e].Cells[p][n-1] == nil {
		return r.fault(2, "replication %q of %s in %s is not in results.csv", rec[2], rec[1], rec[0])
	}
	if r.envs[e].Also[p][n-1] != nil {
		return r.fault(2, "replication %d of %s in %s is given twice", n, rec[1], rec[0])
	}
	r.cell, r.rounds, r.next = Also{}, r.envs[e].Rounds, 0
	for c, col := range r.cols {
		if rec[4+c] != "" {
			r.cell[col] = make([]float64, len(r.rounds))
		}
	}
	r.envs[e].Also[p][n-1] = r.cell
	r.of = [3]string{rec[0], rec[1], rec[2]}
	return nil
}

// diagnosed draws what the spec of an analysis asked to record.
type diagnosed struct{ a *Analysis }

// also returns a column of policy i by checkpoint and replication; nil unless every compared
// replication has it.
func (di diagnosed) also(i int, column string) [][]float64 {
	data := di.a.Run.Envs[di.a.Env].Also
	if data == nil {
		return nil
	}
	out := make([][]float64, len(di.a.Rounds))
	for k := range out {
		out[k] = make([]float64, di.a.R())
	}
	for n, r := range di.a.Reps {
		v, ok := data[di.a.Policies[i]][r][column]
		if !ok {
			return nil
		}
		for k := range out {
			out[k][n] = v[k]
		}
	}
	return out
}

// recorded is one figure of the diagnostics with the table under it.
type recorded struct {
	figure *chart.Figure
	table  *chart.Table
}

// diagnostics returns the figures of what the spec asked to record, in the order of the columns of
// diagnostics.csv.
func (di diagnosed) diagnostics(id string) []recorded {
	var out []recorded
	for _, r := range []recorded{di.armsFigure(id), di.spectrumFigure(id), di.optimismFigure(id), di.coverageFigure(id)} {
		if r.figure != nil {
			out = append(out, r)
		}
	}
	for _, q := range di.a.Run.Manifest.Recorders {
		for _, column := range q.Columns {
			if r := di.recorderFigure(id, q, column); r.figure != nil {
				out = append(out, r)
			}
		}
	}
	return out
}

// recorderFigure shows a column of a recorder of the program's own catalogue.
func (di diagnosed) recorderFigure(id string, q sim.Quantity, column string) recorded {
	p, _ := di.track(column)
	if p == nil {
		return recorded{}
	}
	lo, hi := math.Inf(1), math.Inf(-1)
	for _, m := range p.Marks {
		for _, v := range slices.Concat(m.Y, m.Lo, m.Hi) {
			lo, hi = min(lo, v), max(hi, v)
		}
	}
	if lo >= 0 && lo < hi/2 {
		lo = 0
	}
	dec := max(0, min(6, 2-int(math.Floor(math.Log10(max(hi, -lo, 1e-9))))))
	ticks := chart.LinearTicks(lo, hi, 4)
	p.Y = chart.Axis{Caption: column, Lo: ticks[0].At, Hi: ticks[len(ticks)-1].At, Ticks: ticks}
	t := &chart.Table{ID: id + slug(column), Title: column + ": " + di.a.Name,
		Note: "Means over the replications in the last round.",
		Cols: []chart.Column{{Key: "policy", Head: "Policy", Text: true},
			{Key: column, Head: column + ", at T", Dec: dec},
			{Key: "se", Head: "± s.e.", Dec: dec, Extra: true}}}
	last := len(di.a.Rounds) - 1
	for _, i := range di.a.Order {
		v := di.also(i, column)
		if v == nil {
			continue
		}
		se := chart.Empty()
		if di.a.R() > 1 {
			se = chart.Num(stderr(v[last]))
		}
		t.Rows = append(t.Rows, chart.Row{Look: di.a.Policies[i], Cells: []chart.Cell{chart.TextCell(di.a.Label(i)),
			chart.Num(mean(v[last])), se}})
	}
	return recorded{&chart.Figure{ID: id + slug(column), Title: column, Low: true, Panels: []*chart.Panel{p},
		How: fmt.Sprintf("%s; %s.", upperFirst(strings.TrimSuffix(q.Doc, ".")), di.means(p))}, t}
}

// early is the first checkpoint of the figures on a log axis: the first decade of a long run is
// noise.
func (di diagnosed) early() int {
	first := 0
	for first < len(di.a.Rounds)-2 && float64(di.a.Rounds[first]) < 10 && di.a.T >= 1000 {
		first++
	}
	return first
}

// times is the log axis from checkpoint first on, and its places.
func (di diagnosed) times(first int) (ax chart.Axis, x []float64) {
	for _, t := range di.a.Rounds[first:] {
		x = append(x, float64(t))
	}
	lo := x[0]
	if lo >= 10 && lo <= 15 {
		lo = 10 // so that the power of ten has its tick
	}
	return chart.Axis{Caption: clockCaption(di.a) + " (log)", Log: true, Lo: lo, Hi: float64(di.a.T),
		Ticks: chart.LogTicks(lo, float64(di.a.T))}, x
}

// maxTracks is how many lines carry their interval.
const maxTracks = 5

// means says what the lines of a track are.
func (di diagnosed) means(p *chart.Panel) string {
	s := fmt.Sprintf("mean over %s", many(di.a.R(), "replication"))
	if slices.ContainsFunc(p.Marks, func(m chart.Mark) bool { return m.Kind == chart.Band }) {
		s += " with pointwise 95% intervals"
	}
	return s
}

// track draws the mean of a column over time, a line for each policy that has it, with its pointwise
// 95 % interval where there are few. It is nil when none has, or there is no time to draw.
func (di diagnosed) track(column string) (p *chart.Panel, top float64) {
	first := di.early()
	if len(di.a.Rounds)-first < 2 {
		return nil, 0
	}
	ax, x := di.times(first)
	p = &chart.Panel{Look: -1, X: ax}
	var lines []chart.Mark
	for _, i := range slices.Backward(di.a.Order) { // the best on top
		v := di.also(i, column)
		if v == nil {
			continue
		}
		m, lo, hi := make([]float64, len(x)), make([]float64, len(x)), make([]float64, len(x))
		for k := range x {
			at := v[first+k]
			m[k] = mean(at)
			half := 0.0
			if di.a.R() > 1 {
				half = 1.96 * stderr(at)
			}
			lo[k], hi[k] = m[k]-half, m[k]+half
			top = max(top, hi[k])
		}
		look := di.a.Policies[i]
		p.Marks = append(p.Marks, chart.Mark{Kind: chart.Band, Look: look, Name: di.a.Label(i), X: x, Lo: lo, Hi: hi})
		lines = append(lines, chart.Mark{Kind: chart.Line, Look: look, Name: di.a.Label(i), X: x, Y: m})
		if slices.Index(di.a.Order, i) < maxEnds {
			p.Ends = append(p.Ends, chart.End{Look: look, Y: m[len(m)-1], Label: di.a.Label(i)})
		}
	}
	if lines == nil {
		return nil, 0
	}
	if len(lines) > maxTracks { // more areas than that are mud
		p.Marks, top = nil, 0
		for _, m := range lines {
			top = max(top, slices.Max(m.Y))
		}
	}
	p.Marks = append(p.Marks, lines...)
	return p, top
}

// shares is a linear axis of shares in per cent.
func shares(caption string, top float64) chart.Axis {
	t := chart.LinearTicks(0, top, 4)
	t = chart.Within(t, 0, 1)
	for i := range t {
		t[i].Label = chart.Number(100*t[i].At, chart.DecimalsOf(100*math.Max(t[min(1, len(t)-1)].At, 1e-4))) + "%"
	}
	return chart.Axis{Caption: caption, Lo: 0, Hi: max(t[len(t)-1].At, min(top, 1)), Ticks: t}
}

// armsFigure shows how often the best arm is played.
func (di diagnosed) armsFigure(id string) recorded {
	p, _ := di.track("action_1")
	if p == nil {
		return recorded{}
	}
	p.Y = shares("Best arm, share of rounds", 1)
	t := &chart.Table{ID: id + "arms", Title: "Shares of the arms: " + di.a.Name,
		Note: "Mean share of all rounds in which the arm with the k-th largest mean of its round was played; arms of " +
			"equal mean share a rank.",
		Cols: []chart.Column{{Key: "policy", Head: "Policy", Text: true}}}
	heads := []string{"Best arm", "Second", "Third", "Fourth", "Fifth"}
	last := len(di.a.Rounds) - 1
	width := 0 // how many ranks any policy has
	for i := range di.a.Policies {
		for k := range heads {
			if di.also(i, fmt.Sprintf("action_%d", k+1)) != nil {
				width = max(width, k+1)
			}
		}
	}
	for k := range width {
		key := fmt.Sprintf("action_%d", k+1)
		t.Cols = append(t.Cols, chart.Column{Key: key, Head: heads[k], Pct: true})
		if k == 0 {
			t.Cols = append(t.Cols, chart.Column{Key: key + "_se", Only: "csv"})
		}
	}
	t.Cols = append(t.Cols, chart.Column{Key: "others", Head: "Others", Pct: true})
	for _, i := range di.a.Order {
		c := []chart.Cell{chart.TextCell(di.a.Label(i))}
		rest := 1.0
		for k := range width {
			v := di.also(i, fmt.Sprintf("action_%d", k+1))
			if v == nil {
				c = append(c, chart.Empty())
				if k == 0 {
					c = append(c, chart.Empty())
				}
				continue
			}
			m := mean(v[last])
			rest -= m
			c = append(c, chart.Num(m))
			if k == 0 {
				se := chart.Empty()
				if di.a.R() > 1 {
					se = chart.Num(stderr(v[last]))
				}
				c = append(c, se)
			}
		}
		if c[1].Empty {
			continue
		}
		t.Rows = append(t.Rows, chart.Row{Look: di.a.Policies[i], Cells: append(c, chart.Num(max(0, rest)))})
	}
	return recorded{&chart.Figure{ID: id + "arms", Title: "Which arms are played", Low: true, Panels: []*chart.Panel{p},
		How: fmt.Sprintf("Share of the rounds so far in which the best arm was played; %s. A low share with low "+
			"regret means that the next best is nearly as good.", di.means(p))}, t}
}

// spectrum is the mean smallest and largest singular value of a policy, by time.
type spectrum struct {
	i      int
	lo, hi []float64
}

// spectrumFigure shows the extreme singular values of Γ_t/√m, one panel for each policy with
// members.
func (di diagnosed) spectrumFigure(id string) recorded {
	first := di.early()
	if len(di.a.Rounds)-first < 2 {
		return recorded{}
	}
	ax, x := di.times(first)
	ax.Ticks = slices.DeleteFunc(slices.Clone(ax.Ticks), func(t chart.Tick) bool { return t.Minor })
	var all []spectrum
	least, most := 1.0/7, 10.0/7
	t := &chart.Table{ID: id + "spectrum", Title: "Singular values of the members: " + di.a.Name,
		Note: "Means over the replications in the last round, and the extremes over all replications and recorded " +
			"rounds.",
		Cols: []chart.Column{{Key: "policy", Head: "Policy", Text: true},
			{Key: "s_min", Head: "Smallest, at T", Dec: 3}, {Key: "s_max", Head: "Largest, at T", Dec: 3},
			{Key: "condition", Head: "Largest/smallest", Dec: 1},
			{Key: "lowest", Head: "Lowest ever", Dec: 3, Extra: true},
			{Key: "highest", Head: "Highest ever", Dec: 3, Extra: true}}}
	for i := range di.a.Policies { // in the order of the spec, so that a sweep reads from left to right
		lo, hi := di.also(i, "s_min"), di.also(i, "s_max")
		if lo == nil || hi == nil {
			continue
		}
		q := spectrum{i: i}
		low, high := math.Inf(1), 0.0
		for k := range di.a.Rounds {
			low, high = min(low, slices.Min(lo[k])), max(high, slices.Max(hi[k]))
			if k < first {
				continue
			}
			q.lo, q.hi = append(q.lo, mean(lo[k])), append(q.hi, mean(hi[k]))
			most = max(most, q.hi[len(q.hi)-1])
			if v := q.lo[len(q.lo)-1]; v > 0 {
				least = min(least, v)
			}
			if v := q.hi[len(q.hi)-1]; v > 0 {
				least = min(least, v)
			}
		}
		all = append(all, q)
		n := len(q.lo) - 1
		ratio := chart.Empty()
		if q.lo[n] > 0 {
			ratio = chart.Num(q.hi[n] / q.lo[n])
		}
		t.Rows = append(t.Rows, chart.Row{Look: di.a.Policies[i], Cells: []chart.Cell{chart.TextCell(di.a.Label(i)),
			chart.Num(q.lo[n]), chart.Num(q.hi[n]), ratio, chart.Num(low), chart.Num(high)}})
	}
	if all == nil {
		return recorded{}
	}
	least = max(least, most*1e-4)
	least, most = chart.LogRange(least/1.05, most*1.05)
	y := chart.Axis{Caption: "Singular value (log)", Log: true, Lo: least, Hi: most}
	y.Ticks = chart.LogTicks(least, most)
	f := &chart.Figure{ID: id + "spectrum", Title: "How evenly the members explore",
		How: "Smallest and largest singular value of Γ/√m, mean over replications: the members’ spread in the " +
			"direction they explore least and most. A narrow strip is even; 0 is a direction that no member " +
			"explores. " +
			"Dotted: 1/7 and 10/7, the range that Theorem 5 promises at its own m."}
	more := 0
	for _, q := range all {
		if len(f.Panels) == maxGaps {
			more++
			continue
		}
		f.Panels = append(f.Panels, di.spectrumPanel(q, x, ax, y))
	}
	if more > 0 {
		f.How += fmt.Sprintf(" The first %d of %d are shown.", maxGaps, maxGaps+more)
	}
	return recorded{f, t}
}

// spectrumPanel draws the strip of a policy between the two, and the range of Theorem 5.
func (di diagnosed) spectrumPanel(q spectrum, x []float64, ax, y chart.Axis) *chart.Panel {
	m := di.a.Policies[q.i]
	lo := slices.Clone(q.lo)
	p := &chart.Panel{Title: di.a.Label(q.i), Look: m, X: ax, Y: y}
	if slices.Max(lo) == 0 {
		p.Note = "smallest: 0"
	}
	for _, g := range []float64{1.0 / 7, 10.0 / 7} {
		p.Marks = append(p.Marks, chart.Mark{Kind: chart.Guide, Look: -1, Name: "Theorem 5",
			X: []float64{ax.Lo, ax.Hi}, Y: []float64{g, g}})
	}
	p.Marks = append(p.Marks, chart.Mark{Kind: chart.Band, Look: m, Name: "s_min to s_max", X: x, Lo: lo, Hi: q.hi},
		chart.Mark{Kind: chart.Line, Look: m, Name: "s_max", X: x, Y: q.hi},
		chart.Mark{Kind: chart.Line, Look: m, Name: "s_min", X: x, Y: lo})
	return p
}

// optimismFigure shows the share of optimistic models.
func (di diagnosed) optimismFigure(id string) recorded {
	p, top := di.track("optimistic")
	if p == nil {
		return recorded{}
	}
	p.Y = shares("Optimistic models", min(1, max(top, 0.1)))
	t := &chart.Table{ID: id + "optimism", Title: "Optimistic models: " + di.a.Name,
		Note: "Means over the replications in the last round. None: replications that had no optimistic model in " +
			"some recorded round, with the exact interval for their share.",
		Cols: []chart.Column{{Key: "policy", Head: "Policy", Text: true},
			{Key: "optimistic", Head: "Optimistic, at T", Pct: true},
			{Key: "se", Only: "csv"},
			{Key: "none", Head: "None at some time", Pct: true}, {Key: "none_lo", Head: "95%",
				Pct: true, Extra: true},
			{Key: "none_hi", Head: "", Pct: true, Range: true, Extra: true}}}
	last := len(di.a.Rounds) - 1
	for _, i := range di.a.Order {
		v := di.also(i, "optimistic")
		if v == nil {
			continue
		}
		none := 0
		for r := range di.a.R() {
			if slices.ContainsFunc(v, func(at []float64) bool { return at[r] == 0 }) {
				none++
			}
		}
		se := chart.Empty()
		if di.a.R() > 1 {
			se = chart.Num(stderr(v[last]))
		}
		lo, hi := clopperPearson(none, di.a.R())
		t.Rows = append(t.Rows, chart.Row{Look: di.a.Policies[i], Cells: []chart.Cell{chart.TextCell(di.a.Label(i)),
			chart.Num(mean(v[last])), se,
			chart.Num(float64(none) / float64(di.a.R())), chart.Num(lo), chart.Num(hi)}})
	}
	return recorded{&chart.Figure{ID: id + "optimism", Title: "How many models are optimistic", Low: true,
		Panels: []*chart.Panel{p},
		How: fmt.Sprintf("Share of the models whose best value on the round’s set is at least that of θ*; %s. "+
			"Theorem 1 needs one of the 2m in every round.", di.means(p))}, t}
}

// coverageFigure shows how far θ* is from the estimate.
func (di diagnosed) coverageFigure(id string) recorded {
	p, top := di.track("distance")
	if p == nil {
		return recorded{}
	}
	t := chart.LinearTicks(0, max(top, 1), 4)
	p.Y = chart.Axis{Caption: "Distance in units of β", Lo: 0, Hi: t[len(t)-1].At, Ticks: t}
	p.Marks = append([]chart.Mark{{Kind: chart.Zero, Look: -1, Name: "edge of the ellipsoid", Y: []float64{1}}},
		p.Marks...)
	p.Ends = append(p.Ends, chart.End{Look: -1, Y: 1, Label: "edge"})
	tab := &chart.Table{ID: id + "coverage", Title: "Coverage of the confidence ellipsoid: " + di.a.Name,
		Note: "Left: replications in which θ* was outside the ellipsoid in some round, every round counted, with the " +
			"exact interval for their share. The ellipsoid of level δ promises at most δ.",
		Cols: []chart.Column{{Key: "policy", Head: "Policy", Text: true},
			{Key: "distance", Head: "Distance/β at T", Dec: 3}, {Key: "se", Head: "± s.e.", Dec: 3, PM: true},
			{Key: "largest", Head: "Largest ever", Dec: 3}, {Key: "left", Head: "Left at some time", Pct: true},
			{Key: "left_lo", Head: "95%", Pct: true, Extra: true},
			{Key: "left_hi", Head: "", Pct: true, Range: true, Extra: true}}}
	last := len(di.a.Rounds) - 1
	for _, i := range di.a.Order {
		v, w := di.also(i, "distance"), di.also(i, "distance_max")
		if v == nil || w == nil {
			continue
		}
		left := 0
		for _, x := range w[last] {
			if x > 1 {
				left++
			}
		}
		se := chart.Empty()
		if di.a.R() > 1 {
			se = chart.Num(stderr(v[last]))
		}
		lo, hi := clopperPearson(left, di.a.R())
		tab.Rows = append(tab.Rows, chart.Row{Look: di.a.Policies[i], Cells: []chart.Cell{chart.TextCell(di.a.Label(i)),
			chart.Num(mean(v[last])), se, chart.Num(slices.Max(w[last])),
			chart.Num(float64(left) / float64(di.a.R())), chart.Num(lo), chart.Num(hi)}})
	}
	return recorded{&chart.Figure{ID: id + "coverage", Title: "Is θ* in the ellipsoid?", Low: true,
		Panels: []*chart.Panel{p},
		How: fmt.Sprintf("Distance of θ* from the estimate in the norm of V, in units of β; %s. Below 1 the "+
			"ellipsoid contains θ*.", di.means(p))}, tab}
}
