package worlds

import (
	"bytes"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"

	"troupe/rng"
)

// text writes what a player sees of a decision, and what it does not.
func text(d *Decision) []byte {
	b := d.Context.AppendJSON(nil)
	for i, a := range d.Actions {
		b = fmt.Appendf(b, " %q", a.ID)
		b = a.Features.AppendJSON(b)
		b = fmt.Appendf(b, " %v %v %d", d.Means[i], d.Rewards[i], d.Cells[i])
	}
	return b
}

func mustNew(t testing.TB, kind string, seed uint64, T int) *World {
	t.Helper()
	w, err := New(kind, seed, T)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func mustClient(t testing.TB, text string) Client {
	t.Helper()
	c, err := ClientOf(text)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestWorlds: a world is a function of kind, seed and T; a shorter one is its beginning, but in the kinds that change at
// a part of T; another seed gives another one. Ids differ, requests are JSON that means what the tree has, and
// means and rewards are finite.
func TestWorlds(t *testing.T) {
	const T = 200
	for _, k := range Kinds() {
		a, b, short, other := mustNew(t, k.Name, 3, T), mustNew(t, k.Name, 3, T), mustNew(t, k.Name, 3, T/2), mustNew(t, k.Name, 4, T)
		if a.Kind != k.Name || k.Doc == "" {
			t.Errorf("%s: kind %q, doc %q", k.Name, a.Kind, k.Doc)
		}
		same := 0
		for i := range a.Decisions {
			d := &a.Decisions[i]
			want := text(d)
			if !bytes.Equal(want, text(&b.Decisions[i])) {
				t.Fatalf("%s: decision %d differs in a world of the same seed", k.Name, i)
			}
			if i < T/2 && len(a.Changes) == 0 && !bytes.Equal(want, text(&short.Decisions[i])) {
				t.Fatalf("%s: decision %d differs in a shorter world", k.Name, i)
			}
			if bytes.Equal(want, text(&other.Decisions[i])) {
				same++
			}
			checkDecision(t, k.Name, i, d)
		}
		if same > 0 {
			t.Errorf("%s: %d decisions are the same with another seed", k.Name, same)
		}
	}
}

func checkDecision(t *testing.T, kind string, at int, d *Decision) {
	t.Helper()
	n := len(d.Actions)
	if n < 2 || len(d.Means) != n || len(d.Rewards) != n || len(d.Cells) != n {
		t.Fatalf("%s: decision %d has %d actions, %d means, %d rewards, %d cells", kind, at, n, len(d.Means), len(d.Rewards),
			len(d.Cells))
	}
	ids := map[string]bool{}
	objects := []Object{d.Context}
	for i, a := range d.Actions {
		ids[a.ID] = true
		objects = append(objects, a.Features)
		if math.IsNaN(d.Means[i]+d.Rewards[i]) || math.IsInf(d.Means[i]+d.Rewards[i], 0) {
			t.Fatalf("%s: decision %d has the mean %v and the reward %v", kind, at, d.Means[i], d.Rewards[i])
		}
	}
	if len(ids) != n {
		t.Fatalf("%s: decision %d has an id twice", kind, at)
	}
	for _, o := range objects {
		var got map[string]any
		dec := json.NewDecoder(bytes.NewReader(o.AppendJSON(nil)))
		dec.UseNumber()
		if err := dec.Decode(&got); err != nil || !reflect.DeepEqual(got, plain(Obj(o...))) {
			t.Fatalf("%s: decision %d: %s is read as %v, %v", kind, at, o.AppendJSON(nil), got, err)
		}
	}
}

// plain is a value as encoding/json reads it.
func plain(v Value) any {
	switch v.Type {
	case Number:
		return json.Number(v.AppendJSON(nil))
	case String:
		return v.Text
	case Bool:
		return v.Number != 0
	case List:
		out := []any{}
		for _, f := range v.Items {
			out = append(out, plain(f.Value))
		}
		return out
	case Map:
		out := map[string]any{}
		for _, f := range v.Items {
			out[f.Name] = plain(f.Value)
		}
		return out
	}
	return nil
}

// TestRewards: the reward of an action has the mean that the world states. For each kind, over all actions of 2 worlds of
// 2,000 decisions, z = Σ(y − m)/√Σ(y − m)²; the null is that it is standard normal, the bound 4.5 has a level of 7·10⁻⁶ for
// each of the kinds. With 5 actions a mean that is off by a twentieth of the deviation gives z = 7. Revenue is skewed: the
// level is not exact there.
func TestRewards(t *testing.T) {
	for _, k := range Kinds() {
		var sum, squares float64
		for seed := range uint64(2) {
			for _, d := range mustNew(t, k.Name, 100+seed, 2000).Decisions {
				for i, y := range d.Rewards {
					e := y - d.Means[i]
					sum, squares = sum+e, squares+e*e
				}
			}
		}
		if z := sum / math.Sqrt(squares); !(math.Abs(z) < 4.5) {
			t.Errorf("%s: rewards are off their means by z = %.1f", k.Name, z)
		}
	}
}

// TestBytes: worlds stay what they were, so that figures that were measured on them can be measured again. Means and
// rewards are compared to six digits: the last ones depend on the machine.
func TestBytes(t *testing.T) {
	var b []byte
	for _, k := range Kinds() {
		for i := range 3 {
			w := mustNew(t, k.Name, 1, 60)
			d := &w.Decisions[20*i]
			b = append(b, d.Context.AppendJSON(nil)...)
			for j, a := range d.Actions {
				b = append(append(b, a.ID...), a.Features.AppendJSON(nil)...)
				b = fmt.Appendf(b, "%.6g %.6g", d.Means[j], d.Rewards[j])
			}
		}
	}
	if got, want := crc32.ChecksumIEEE(b), uint32(0x8e1c3a4); got != want {
		t.Errorf("the worlds have the checksum %#x, want %#x: a world that changed gets another name", got, want)
	}
}

// TestClients: when rewards arrive, in which order, and with which values.
func TestClients(t *testing.T) {
	type arrival struct {
		at, decision int
		y            float64
		how          Arrival
	}
	const T = 1300
	arrivals := func(name string) (out []arrival) {
		s := mustClient(t, name).Start(5)
		for i := range T {
			s.Played(i, float64(count(i%4 == 0)))
			err := s.Due(i, func(decision int, y float64, how Arrival) error {
				out = append(out, arrival{i, decision, y, how})
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
		}
		return out
	}
	delays := func(list []arrival, y float64) (out []int) {
		for _, a := range list {
			if a.y == y {
				out = append(out, a.at-a.decision)
			}
		}
		return out
	}
	for _, c := range []struct {
		client           string
		ones, zeros      [2]int // least and largest delay
		onesMean         float64
		received, atmost int
	}{
		{"now", [2]int{0, 0}, [2]int{0, 0}, 0, T, T},
		{"late", [2]int{200, 200}, [2]int{200, 200}, 200, T - 200, T - 200},
		{"ones", [2]int{0, 399}, [2]int{400, 400}, 149, 900, 1000},
		{"bursts", [2]int{0, 0}, [2]int{0, 198}, 0, 1200, T},
		{"random", [2]int{1, 600}, [2]int{1, 600}, 300, 800, 1200},
		{"batch", [2]int{0, 29}, [2]int{0, 29}, 14.5, T - 29, T},
	} {
		list := arrivals(c.client)
		if n := len(list); n < c.received || n > c.atmost {
			t.Errorf("%s: %d rewards of %d came", c.client, n, T)
		}
		for y, want := range map[float64][2]int{1: c.ones, 0: c.zeros} {
			d := delays(list, y)
			if lo, hi := slices.Min(d), slices.Max(d); lo < want[0] || hi > want[1] {
				t.Errorf("%s: rewards of %v came %d to %d late, want %v", c.client, y, lo, hi, want)
			}
		}
		sum := 0.
		d := delays(list, 1)
		for _, x := range d {
			sum += float64(x)
		}
		// a mean over 150 delays with a deviation of at most 173 is within 70 (5 deviations)
		if m := sum / float64(len(d)); math.Abs(m-c.onesMean) > 70 {
			t.Errorf("%s: ones came %.0f late in the mean, want about %.0f", c.client, m, c.onesMean)
		}
		if !slices.IsSortedFunc(list, func(a, b arrival) int { return a.at - b.at }) {
			t.Errorf("%s: not in the order of arrival", c.client)
		}
	}
	if list := arrivals("zeros-first"); list[96].y != 0 || list[100].y != 1 {
		t.Errorf("zeros-first: rewards 97 and 101 are %v and %v", list[96].y, list[100].y)
	}
	if skipped := len(slices.DeleteFunc(arrivals("some"), func(a arrival) bool { return a.how != Lost || a.at-a.decision != 400 })); skipped < 120 || skipped > 240 {
		t.Errorf("some: %d of the 900 windows that closed had no reward, want about 180", skipped)
	}
	for name, how := range map[string]Arrival{"ones": Assumed, "now": Sent} {
		if slices.ContainsFunc(arrivals(name), func(a arrival) bool { return (a.y == 0) != (a.how == how) && a.y == 0 }) {
			t.Errorf("%s: zeros come otherwise", name)
		}
		if mustClient(t, name).Waits() != (how == Assumed) {
			t.Errorf("%s: Waits is wrong", name)
		}
	}
	if list := arrivals("ones/wild=3@7"); list[6].y != 3 || list[6].how != Sent {
		t.Errorf("a wild value in place of a zero: %+v", list[6])
	}
	if list := arrivals("wild"); list[199].y != 1e6 || list[200].y != 1 {
		t.Errorf("wild: rewards 200 and 201 are %v and %v", list[199].y, list[200].y)
	}
	list := arrivals("late/scale=1000/shift=5/wild=1e300@1/wild=-10@200")
	for i, y := range map[int]float64{0: 1e300, 1: 5, 4: 1005, 199: -10, 200: 1005} {
		if list[i].y != y {
			t.Errorf("reward %d is %v, want %v", i+1, list[i].y, y)
		}
	}
	for _, a := range arrivals("now/equal=.5") {
		if a.y != .5 {
			t.Fatalf("equal=.5 sends %v", a.y)
		}
	}
	for _, bad := range []string{"", "soon", "now/wild", "now/wild=x@1", "now/wild=1@0", "now/scale=nan", "now/scale=2@3", "now/size=1"} {
		if _, err := ClientOf(bad); err == nil || !strings.HasPrefix(err.Error(), "client:") {
			t.Errorf("client %q: %v", bad, err)
		}
	}
}

// best plays the best actions: it knows the world.
type best struct {
	w    *World
	made int
	got  map[int]float64
}

func (p *best) Decide(Object, []Action) (int, []float64, error) {
	m := p.w.Decisions[p.made].Means
	p.made++
	return slices.Index(m, slices.Max(m)), nil, nil
}
func (p *best) Reward(decision int, y float64) error {
	p.got[decision] = y
	return nil
}
func (p *best) Skip(decision int) error { return p.Reward(decision, math.NaN()) }

// mustPlay plays a world to its end.
func mustPlay(t *testing.T, w *World, client string, p Player) *Result {
	t.Helper()
	r, err := Play(w, mustClient(t, client), p)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestPlay: the best actions have the share 1 in every stretch, uniform play is near 0, and each reward is that of the
// action that was played.
func TestPlay(t *testing.T) {
	for _, k := range Kinds() {
		w := mustNew(t, k.Name, 9, 600)
		p := &best{w: w, got: map[int]float64{}}
		r := mustPlay(t, w, "late", p)
		if a, b := r.Share(0, 600), r.Share(250, 9999); math.Abs(a-1) > 1e-9 || math.Abs(b-1) > 1e-9 {
			t.Errorf("%s: the best actions have the shares %v and %v", k.Name, a, b)
		}
		if len(p.got) != 400 {
			t.Errorf("%s: %d rewards of 400 came", k.Name, len(p.got))
		}
		for i, y := range p.got {
			m := w.Decisions[i].Means
			if want := w.Decisions[i].Rewards[slices.Index(m, slices.Max(m))]; y != want {
				t.Fatalf("%s: decision %d paid %v, want %v", k.Name, i, y, want)
			}
		}
	}
}

// TestRivals: on a table of 4 cells all rivals earn, in the mean of 4 worlds of 2,000 clicks, and uniform play does
// not. The deviation of a share over worlds is about .05, so that of a mean .025; the bounds are 4 and more from what
// was measured (table .80, LinTS .78). On texts the table knows nothing and LinTS learns. The run is deterministic.
func TestRivals(t *testing.T) {
	for _, make := range []func(*World, uint64) Player{func(w *World, seed uint64) Player { return NewTable(w, seed) },
		func(w *World, seed uint64) Player { return NewLinTS(w, seed) }} {
		w := mustNew(t, "news", 1, 300)
		a, b := mustPlay(t, w, "ones", make(w, 1)), mustPlay(t, w, "ones", make(w, 1))
		if !slices.Equal(a.got, b.got) {
			t.Error("a second run differs")
		}
	}
	mean := func(kind string, make func(*World, uint64) Player) (share float64) {
		for seed := range uint64(4) {
			w := mustNew(t, kind, 50+seed, 2000)
			share += mustPlay(t, w, "now", make(w, seed)).Share(0, 2000) / 4
		}
		return share
	}
	table := func(w *World, seed uint64) Player { return NewTable(w, seed) }
	lints := func(w *World, seed uint64) Player { return NewLinTS(w, seed) }
	uniform := func(w *World, seed uint64) Player { return NewUniform(w, seed) }
	for _, c := range []struct {
		kind   string
		make   func(*World, uint64) Player
		lo, hi float64
	}{
		{"conversion", table, .65, .95}, {"conversion", lints, .55, .95}, {"conversion", uniform, -.1, .1},
		{"texts", table, -.1, .1}, {"texts", lints, .6, .95},
	} {
		got := mean(c.kind, c.make)
		if got < c.lo || got > c.hi {
			t.Errorf("%s: share %.2f, want %v to %v", c.kind, got, c.lo, c.hi)
		}
	}
}

// TestRidge: the model of LinTS is the solution of (I + Σxxᵀ)m = Σxy, by residuals that share no code with it.
func TestRidge(t *testing.T) {
	const n = 7
	b := newRidge(n)
	var v [n][n]float64
	var xy [n]float64
	for i := range n {
		v[i][i] = 1
	}
	r := rng.NewKey(3).Stream(rng.Offer).Round(0).Rand()
	for range 60 {
		x, y := make([]term, 0, 3), r.NormFloat64()
		for _, at := range r.Perm(n)[:3] {
			x = append(x, term{at, r.NormFloat64()})
		}
		b.learn(x, y)
		for _, s := range x {
			xy[s.at] += s.v * y
			for _, u := range x {
				v[s.at][u.at] += s.v * u.v
			}
		}
	}
	for i := range n {
		left, one := 0., 0.
		for j := range n {
			left += v[i][j] * b.m[j]
			one += v[i][j] * b.p[j*n+i]
		}
		if math.Abs(left-xy[i]) > 1e-9 || math.Abs(one-1) > 1e-9 {
			t.Errorf("row %d: Vm = %v, want %v; (VP)_ii = %v", i, left, xy[i], one)
		}
	}
}

func TestSelect(t *testing.T) {
	if k, err := Select("wide, ids"); err != nil || len(k) != len(wideKinds)+1 {
		t.Errorf("wide, ids: %d kinds, %v", len(k), err)
	}
	if _, err := Select("segmints"); err == nil || !strings.Contains(err.Error(), `"segmints"`) {
		t.Errorf("an unknown kind: %v", err)
	}
	if _, err := New("segments", 1, 0); err == nil {
		t.Error("a world without decisions was made")
	}
	seen := map[string]bool{}
	for _, k := range Kinds() {
		if seen[k.Name] {
			t.Errorf("%s twice", k.Name)
		}
		seen[k.Name] = true
	}
}

// BenchmarkNew: a world of 2,000 decisions of each kind in turn.
func BenchmarkNew(b *testing.B) {
	for _, k := range Kinds() {
		b.Run(k.Name, func(b *testing.B) {
			for b.Loop() {
				if _, err := k.New(1, 2000); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
