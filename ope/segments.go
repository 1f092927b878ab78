package ope

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"troupe/bandit"
	"troupe/feature"
	"troupe/internal/decimal"
	"troupe/logged"
	"troupe/spec"
)

// Segments of the events: what is known before the draw cuts the log into parts, and each part has its difference. The
// events of one part are a sequence of their own, so the theorem of docs/design/ope.md holds for each at every look;
// the parts and the whole share one level.

// MostSegments is how many values a segmentation may have, mostShown how many are shown for themselves, and leastEvents
// how many events each of these has. All others are one segment.
const (
	MostSegments = 1000
	mostShown    = 20
	leastEvents  = 100
)

// By says how events are cut into segments: by a value of the context.
type By struct {
	Path string
	// Edges, when it is not nil, cuts numbers into [Edges[i], Edges[i+1]). The first may be −Inf and the last +Inf.
	Edges []float64
	// Values, when it is not nil, are the values that are a segment; all others are one.
	Values []string

	field  uint32            // of Path in contexts that are hashed
	levels map[uint64]string // Values by their hashes there
}

// ParseBy reads context.city, city, city=Oslo|Bergen with values, or price=0:10:50: with edges; an empty end is open.
func ParseBy(text string) (*By, error) {
	path, edges, cut := strings.Cut(text, "=")
	path = strings.TrimPrefix(strings.TrimSpace(path), "context.")
	if path == "" {
		return nil, fmt.Errorf("--by %q: expected a value of the context, such as price=0:10:50:, "+
			"city=Oslo|Bergen or context.city", text)
	}
	b := &By{Path: path, field: feature.ContextFeature(path)}
	switch {
	case !cut:
		return b, nil
	case strings.Contains(edges, "|") || !strings.Contains(edges, ":"):
		return b, b.parseValues(text, edges)
	}
	parts := strings.Split(edges, ":")
	for i, part := range parts {
		v, err := strconv.ParseFloat(strings.TrimSpace(part), 64)
		switch {
		case part == "" && i == 0:
			v = math.Inf(-1)
		case part == "" && i == len(parts)-1:
			v = math.Inf(1)
		case err != nil || !finite(v):
			return nil, fmt.Errorf("--by %q: edge %d is %q, expected a finite number", text, i+1, part)
		}
		if i > 0 && !(v > b.Edges[i-1]) {
			return nil, fmt.Errorf("--by %q: edge %d is %v, expected more than the one before, %v", text, i+1, v,
				b.Edges[i-1])
		}
		b.Edges = append(b.Edges, v)
	}
	if len(b.Edges) > MostSegments {
		return nil, fmt.Errorf("--by %q: %d edges, expected 2 to %d", text, len(b.Edges), MostSegments)
	}
	return b, nil
}

func (b *By) parseValues(text, values string) error {
	b.Values, b.levels = strings.Split(values, "|"), map[uint64]string{}
	if len(b.Values) > MostSegments {
		return fmt.Errorf("--by %q: %d values, expected 1 to %d", text, len(b.Values), MostSegments)
	}
	for i, v := range b.Values {
		if v == "" || slices.Contains(b.Values[:i], v) {
			return fmt.Errorf("--by %q: value %d is %q, expected one that is not empty and not there before", text, i+1, v)
		}
		b.levels[feature.ContextLevel(b.Path, v)] = v
	}
	return nil
}

// String is what ParseBy reads.
func (b *By) String() string {
	s := b.Path
	if b.Values != nil {
		return s + "=" + strings.Join(b.Values, "|")
	}
	for i, e := range b.Edges {
		sep := ":"
		if i == 0 {
			sep = "="
		}
		if s += sep; finite(e) {
			s += decimal.Text(e)
		}
	}
	return s
}

func (b *By) tooMany() error {
	return fmt.Errorf("--by %s: more than %d segments; edges make fewer of numbers (%s=0:10:50:)", b, MostSegments,
		b.Path)
}

// mostSegmentSums bounds segments × targets: 4 kB each, in the whole and in the blocks that are under way.
const mostSegmentSums = 50_000

// fits refuses more segments than there is memory for.
func (b *By) fits(segments, targets int) error {
	switch {
	case segments > MostSegments:
		return b.tooMany()
	case segments*targets > mostSegmentSums:
		return fmt.Errorf("--by %s: more than %d segments of %d targets, expected a product of at most %d", b,
			mostSegmentSums/targets, targets, mostSegmentSums)
	}
	return nil
}

// missing is the key of events without the value or with an empty list, elsewhere that of numbers outside of the edges
// and of values that are not listed. Values have an equals sign in front, their hashes a tilde, intervals of numbers a
// number sign. A list is the set of its values, in alphabetical order with and between them: so each event is in one
// segment.
const (
	missing   = "-"
	elsewhere = "+"
	and       = "\x00"
)

// list is the segment of an event whose value is a list.
func (b *By) list(items []string) (string, error) {
	switch {
	case len(items) == 0:
		return missing, nil
	case b.Edges != nil:
		return "", fmt.Errorf("context.%s is a list, which has no place between the edges of --by %s", b.Path, b)
	case b.Values != nil:
		items = slices.DeleteFunc(items, func(v string) bool { return !slices.Contains(b.Values, v) })
		if len(items) == 0 {
			return elsewhere, nil
		}
	}
	slices.Sort(items)
	return "=" + strings.Join(slices.Compact(items), and), nil
}

// of is the segment of an event, as a key.
func (b *By) of(ev *logged.Event) (string, error) {
	if len(ev.Atoms) > 0 {
		return b.hashed(ev)
	}
	text, ok := ev.Feature(b.Path)
	if !ok {
		if items, isList := ev.FeatureList(b.Path); isList {
			return b.list(items)
		}
	}
	if !ok {
		return missing, nil
	}
	return b.ofText(text, "context."+b.Path)
}

// ofText is the segment of a value; name is what an error calls it.
func (b *By) ofText(text, name string) (string, error) {
	switch {
	case b.Values != nil && !slices.Contains(b.Values, text):
		return elsewhere, nil
	case b.Edges == nil:
		return "=" + text, nil
	}
	v, err := strconv.ParseFloat(text, 64)
	if err != nil || v-v != 0 {
		return "", fmt.Errorf("%s is %q, expected a number: --by %s has edges", name, text, b)
	}
	i, found := slices.BinarySearch(b.Edges, v)
	if !found {
		i--
	}
	if i < 0 || i == len(b.Edges)-1 {
		return elsewhere, nil
	}
	return "#" + strconv.Itoa(i), nil
}

// hashed is the segment of an event whose context is hashed: its values are known by their hashes, its numbers not at
// all.
func (b *By) hashed(ev *logged.Event) (key string, err error) {
	var known, hashes []string
	values, number := 0, false
	for _, a := range ev.Atoms {
		field, role := bandit.FieldOf(a.Hash >> 11)
		switch value, listed := b.levels[a.Hash]; {
		case field != b.field || role == bandit.WordRole:
		case role != bandit.LevelRole:
			number = true
		case listed:
			known, values = append(known, value), values+1
		default:
			hashes, values = append(hashes, strconv.FormatUint(a.Hash&(1<<41-1), 16)), values+1
		}
	}
	switch {
	case number || b.Edges != nil && values > 0:
		return "", fmt.Errorf("--by %s: the log has hashed features, which keep no numbers and no order; expected a "+
			"string, true or false", b)
	case b.Values != nil && values > 0 && known == nil:
		return elsewhere, nil
	case b.Values != nil || hashes == nil:
		return b.list(known)
	}
	slices.Sort(hashes)
	return "~" + strings.Join(slices.Compact(hashes), and), nil
}

// name says a segment in words.
func (b *By) name(key string) string {
	switch {
	case key == missing:
		return "no " + b.Path
	case key == elsewhere && b.Values != nil:
		return "other " + b.Path
	case key == elsewhere:
		return b.Path + " outside"
	case key[0] == '~':
		return b.Path + " #" + strings.ReplaceAll(key[1:], and, " and #")
	case b.Edges == nil:
		if key == "=" {
			return `""`
		}
		return strings.ReplaceAll(key[1:], and, " and ")
	}
	i, _ := strconv.Atoi(key[1:])
	switch lo, hi := b.Edges[i], b.Edges[i+1]; {
	case math.IsInf(lo, -1):
		return b.Path + " below " + decimal.Text(hi)
	case math.IsInf(hi, 1):
		return b.Path + " from " + decimal.Text(lo)
	default:
		return fmt.Sprintf("%s %s to %s", b.Path, decimal.Text(lo), decimal.Text(hi))
	}
}

// segmentSums is what adds up in one segment.
type segmentSums struct {
	n       int
	first   int // index of its first event
	r       sum
	paid    int // rewards that are not damaged
	noLaw   int
	targets []segmentTarget
}

// segmentTarget is the sequence of the difference of one target in one segment: with the logger's law, and without.
// w1, w2 and paired are Σ w, Σ w² and the sums of the plain differences, likewise; like is how alike the target is to
// the logger there.
type segmentTarget struct {
	uplift, plain twoSided
	w1, w2        sum
	paired        [2]sum
	like          likeness
}

func newSegment(targets, first int) *segmentSums {
	s := &segmentSums{first: first, targets: make([]segmentTarget, targets)}
	var shift []float64
	for _, k := range clips {
		shift = append(shift, k+2)
	}
	for t := range s.targets {
		s.targets[t] = segmentTarget{uplift: newTwoSided(shift...), plain: newTwoSided(1)}
	}
	return s
}

func (s *segmentSums) merge(o *segmentSums) {
	s.first = min(s.first, o.first)
	s.n, s.paid, s.noLaw = s.n+o.n, s.paid+o.paid, s.noLaw+o.noLaw
	s.r.merge(o.r)
	for t := range s.targets {
		s.targets[t].uplift.merge(&o.targets[t].uplift)
		x, y := &s.targets[t], &o.targets[t]
		x.plain.merge(&y.plain)
		x.w1.merge(y.w1)
		x.w2.merge(y.w2)
		x.like.merge(&y.like)
		for i := range x.paired {
			x.paired[i].merge(y.paired[i])
		}
	}
}

// segment is the segment of an event, which is counted there.
func (w *worker) segment(a *accumulator, ev *logged.Event, index int) (*segmentSums, error) {
	key, err := w.p.o.By.of(ev)
	if err != nil {
		return nil, &EventError{Event: index + 1, Err: err}
	}
	s := a.segments[key]
	if s == nil {
		if err := w.p.o.By.fits(len(a.segments)+1, len(w.p.o.Targets)); err != nil {
			return nil, err
		}
		if a.segments == nil {
			a.segments = map[string]*segmentSums{}
		}
		s = newSegment(len(w.p.o.Targets), index)
		a.segments[strings.Clone(key)] = s
	}
	s.n++
	if !ev.BadReward {
		s.r.add(ev.Reward)
		s.paid++
	}
	if ev.Law == nil {
		s.noLaw++
	}
	return s, nil
}

func (a *accumulator) mergeSegments(o *accumulator) {
	if a.segments == nil {
		a.segments = o.segments
		return
	}
	for key, s := range o.segments {
		if mine := a.segments[key]; mine != nil {
			mine.merge(s)
		} else {
			a.segments[key] = s
		}
	}
}

// addSegments makes the products of the whole from those of its segments, in the order of their first events: each
// event is in one of them.
func (e *evidence) addSegments() {
	if e.p.o.By == nil || e.p.lists {
		return
	}
	all := newSegment(len(e.p.o.Targets), 0)
	for _, s := range slices.SortedFunc(maps.Values(e.total.segments), func(a, b *segmentSums) int { return a.first - b.first }) {
		all.merge(s)
	}
	for t := range all.targets {
		ta := &e.total.targets[t]
		ta.uplift, ta.plain = all.targets[t].uplift, all.targets[t].plain
	}
}

// Segments is the difference of one target in each segment, at one level together with the whole.
type Segments struct {
	By       string    `json:"by"`
	Level    float64   `json:"level"` // of all rows together
	Each     float64   `json:"each"`  // of one row: 1 − (1 − level)/rows
	Rule     string    `json:"rule"`
	Sentence string    `json:"sentence"`
	Rows     []Segment `json:"rows"` // the whole first, then by size
	Notes    []string  `json:"-"`    // what a reader should know; Result.Warnings has them
}

// Path is the value of the context that cuts the events.
func (s *Segments) Path() string {
	path, _, _ := strings.Cut(s.By, "=")
	return path
}

// Segment is one row.
type Segment struct {
	Name     string   `json:"name"`
	Values   int      `json:"values"` // how many values of the context it has
	Events   int      `json:"events"`
	Logged   *float64 `json:"logged"`   // mean reward of what ran
	Value    *float64 `json:"value"`    // the plain paired mean, moved to the nearest end of Sequence; nil: not Shown
	Sequence *Pair    `json:"sequence"` // of the difference, at the level Each
	Verdict  string   `json:"verdict"`

	sums *segmentSums
	key  string // of knobs
}

// chooseAfter is what every answer with segments says.
const chooseAfter = "segments hold together at one level if --by was fixed without looking at these rewards; after a " +
	"look at other segments of the same log they do not"

// unnamed says how values of which only hashes are kept get their names, "" where they have them.
func (e *evidence) unnamed() string {
	for key := range e.total.segments {
		if key[0] == '~' {
			path := e.p.o.By.Path
			return "the log keeps hashes of values; --by '" + path + "=VALUE|VALUE' names those that you know"
		}
	}
	return ""
}

// noSegments says why there are no segments, nil when there may be.
func (e *engine) noSegments() error {
	b := e.p.o.By
	switch {
	case b == nil || len(e.p.o.Targets) == 0:
		return nil
	case e.p.lists:
		return fmt.Errorf("--by %s: the log has lists of slots, and segments are of single decisions", b)
	}
	counts := map[string]int{}
	for key, s := range e.sums.total.segments {
		counts[key] = s.n
	}
	return b.empty(counts, e.sums.total.n, "context."+b.Path, e.suggestion)
}

// empty refuses a segmentation with a segment that was asked for and is in no event. counts has the events of each
// segment, all of them together; name is what an error calls the value, suggest what else there is.
func (b *By) empty(counts map[string]int, all int, name string, suggest func() string) error {
	for _, key := range []string{missing, elsewhere} {
		if n := counts[key]; n > 0 && n == all {
			what := "no event has " + name
			switch {
			case key == elsewhere && b.Values != nil:
				what = "no event has one of these values"
			case key == elsewhere:
				what = "no event has a " + name + " between the edges"
			}
			return fmt.Errorf("--by %s: %s%s", b, what, suggest())
		}
	}
	found := map[string]bool{}
	for key := range counts {
		if values, ok := strings.CutPrefix(key, "="); ok {
			for v := range strings.SplitSeq(values, and) {
				found[v] = true
			}
		}
	}
	for _, v := range b.Values {
		if !found[v] {
			return fmt.Errorf("--by %s: no event is in the segment %q", b, v)
		}
	}
	for i := range max(0, len(b.Edges)-1) {
		if key := "#" + strconv.Itoa(i); counts[key] == 0 {
			return fmt.Errorf("--by %s: no event is in the segment %q", b, b.name(key))
		}
	}
	return nil
}

// suggestion names what the first event's context has.
func (e *engine) suggestion() string {
	if e.hashed {
		return "; the log has hashes of names and values: expected the path and the values as they were sent"
	}
	if len(e.features) == 0 {
		return "; its contexts have no names and no numbers"
	}
	return spec.Suggest(e.p.o.By.Path, e.features)
}

// parts are the rows that all targets share: segments with leastEvents and more, mostShown of them at most, the largest
// first, and one for all others.
func (e *evidence) parts() []Segment {
	var rows []Segment
	for key, s := range e.total.segments {
		rows = append(rows, Segment{Name: e.p.o.By.name(key), Values: 1, Events: s.n, sums: s})
	}
	shown, name := arranged(rows)
	if name == "" {
		return rows
	}
	rest := Segment{Name: name, sums: newSegment(len(e.p.o.Targets), 0)}
	for _, x := range rows[shown:] {
		rest.Events, rest.Values = rest.Events+x.Events, rest.Values+1
		rest.sums.merge(x.sums)
	}
	return append(rows[:shown:shown], rest)
}

// arranged sorts rows and says how many are shown for themselves, and what all others together are called, "" where all
// are shown.
func arranged(rows []Segment) (shown int, rest string) {
	slices.SortFunc(rows, func(a, b Segment) int {
		if a.Events != b.Events {
			return b.Events - a.Events
		}
		return strings.Compare(a.Name, b.Name)
	})
	for shown < len(rows) && shown < mostShown && rows[shown].Events >= leastEvents {
		shown++
	}
	switch {
	case shown == len(rows) || shown == len(rows)-1 && shown < mostShown && shown > 0:
		return len(rows), "" // one small segment is shown as it is
	case shown == 0:
		return 0, fmt.Sprintf("the %d small ones", len(rows))
	}
	return shown, fmt.Sprintf("the %d others", len(rows)-shown)
}

// poolRule is how small segments become one.
var poolRule = fmt.Sprintf("values with fewer than %d decisions, and all beyond the %d largest, are one segment",
	leastEvents, mostShown)

// segments are the rows of target t.
func (e *evaluation) segments(t int) *Segments {
	p := e.p
	rows := append([]Segment{{Name: "all", Events: e.sums.total.once()}}, slices.Clone(e.rows)...)
	out := &Segments{By: p.o.By.String(), Level: p.level, Each: 1 - (1-p.level)/float64(len(rows)), Rows: rows,
		Rule: poolRule}
	ta := &e.sums.total.targets[t]
	alone := false // the whole is sure at its own level
	if d, err := e.sums.differenceOf(ta).at(p.level); err == nil {
		alone = sure(d)
	}
	for i := range rows {
		row := &rows[i]
		d := e.sums.differenceOf(ta)
		base, value, ess := ta.m.mean(vR), e.sums.plainDifference(ta), effective(ta.w1.value(), ta.w2.value())
		if s := row.sums; s != nil {
			x := &s.targets[t]
			d = &difference{&x.uplift, p.scale, -1, 1, 0, 0, x.like.most(s.n)}
			if s.noLaw > 0 || e.sums.cross != nil {
				d.seq = &x.plain
			}
			paid := float64(max(s.paid, 1))
			base, value, ess = s.r.value()/paid, x.paired[0].value()/paid, effective(x.w1.value(), x.w2.value())
			if s.noLaw > 0 {
				value = x.paired[1].value() / paid
			}
		}
		row.Logged = real(base)
		interval, err := d.at(out.Each)
		if err != nil {
			row.Verdict = err.Error()
			continue
		}
		row.Sequence = &interval
		if Shown(ess) {
			row.Value = ptr(within(value, interval))
		}
		if row.Verdict = differs(interval, base); row.Verdict == "" {
			row.Verdict = tooClose
			if i == 0 && alone {
				row.Verdict = sureAlone
			}
		}
	}
	out.Sentence, out.Notes = sentence(rows), []string{chooseAfter}
	if how := e.sums.unnamed(); how != "" {
		out.Notes = append(out.Notes, how)
	}
	return out
}

// Verdicts of a row: its interval has 0 inside; sureAlone is that of a whole whose interval leaves 0 out at its own level and
// not at that of all rows.
const (
	tooClose  = "too close to call"
	sureAlone = "sure by itself, not at the level of all rows"
)

// sure reports whether a difference leaves 0 out.
func sure(d Pair) bool { return d[0] > 0 || d[1] < 0 }

// differs says a difference that leaves 0 out, "" for one that does not.
func differs(d Pair, base float64) string {
	switch {
	case d[0] > 0:
		return "better by " + amount(d[0], d[1], base)
	case d[1] < 0:
		return "worse by " + amount(-d[1], -d[0], base)
	}
	return ""
}

// Reversed is what ran minus the target, in each segment: better means that what ran is. Per cent are those of what
// ran, as in s. It copies the rows.
func (s *Segments) Reversed() *Segments {
	out := *s
	out.Rows = slices.Clone(s.Rows)
	for i := range out.Rows {
		row := &out.Rows[i]
		if row.Sequence == nil {
			continue
		}
		row.Sequence = &Pair{0 - row.Sequence[1], 0 - row.Sequence[0]}
		if row.Value != nil {
			row.Value = ptr(0 - *row.Value)
		}
		base := 0.0
		if row.Logged != nil {
			base = *row.Logged
		}
		if verdict := differs(*row.Sequence, base); verdict != "" {
			row.Verdict = verdict
		}
	}
	out.Sentence = sentence(out.Rows)
	return &out
}

// sentence says for whom it holds.
func sentence(rows []Segment) string {
	const most = 5
	var parts []string
	open := 0
	for _, x := range rows[1:] {
		if x.Sequence == nil || x.Sequence[0] <= 0 && x.Sequence[1] >= 0 {
			open++
		} else {
			parts = append(parts, "in "+x.Name+" "+x.Verdict)
		}
	}
	if len(parts) == 0 {
		return "too close to call in every segment"
	}
	if n := len(parts) - most; n > 0 {
		parts = append(parts[:most:most], fmt.Sprintf("sure in %d more, too", n))
	}
	if open > 0 {
		parts = append(parts, "elsewhere too close to call")
	}
	return strings.Join(parts, ", ")
}
