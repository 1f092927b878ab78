package feature_test

import (
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"troupe/feature"
)

func hashedBatch(t testing.TB, s *feature.Statistics) *feature.HashedBatch {
	t.Helper()
	h, err := feature.NewHashed(feature.HashedOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return feature.NewHashedBatch(h, s)
}

// vector returns a copy of the vector of one action with the id a.
func vector(t testing.TB, b *feature.HashedBatch, context, features string) (at []uint32, x []float64) {
	t.Helper()
	if err := b.Begin([]byte(context)); err != nil {
		t.Fatalf("%s: %v", context, err)
	}
	if err := b.Add("a", []byte(features)); err != nil {
		t.Fatalf("%s: %v", features, err)
	}
	at, x = b.Nonzeros(0)
	return slices.Clone(at), slices.Clone(x)
}

// TestHashedSame: requests that mean the same have the same vector, bit for bit, and others have not.
func TestHashedSame(t *testing.T) {
	b := hashedBatch(t, nil)
	base := `{"city":"Oslo","age":31,"vip":true,"user":{"plan":"free"}}`
	at, x := vector(t, b, base, `{"price":2.5}`)
	for _, same := range []string{
		`{"user":{"plan":"free"},"vip":true,"age":31,"city":"Oslo"}`,
		`{"user.plan":"free","vip":true,"age":31.0,"city":"Oslo"}`,
		`[{"city":"Oslo","age":3.1e1},{"vip":true,"user":{"plan":"free"}}]`,
		`{"city":"Oslo","age":"31","vip":true,"user":{"plan":"free"},"gone":null,"_tag":"x"}`,
		`{"city":"\u004fslo","age":31,"vip":"true","user":{"plan":"free"}}`,
	} {
		at2, x2 := vector(t, b, same, `{"price":2.5}`)
		if !slices.Equal(at, at2) || !slices.Equal(x, x2) {
			t.Errorf("%s has another vector than %s", same, base)
		}
	}
	for _, other := range []string{
		`{"city":"Oslo","age":32,"vip":true,"user":{"plan":"free"}}`, `{"city":"Oslo","vip":true,"user":{"plan":"free"}}`,
		`{"city":"Oslo","age":31,"vip":false,"user":{"plan":"free"}}`, `{"town":"Oslo","age":31,"vip":true,"user":{"plan":"free"}}`,
		`{"city":"Oslo","age":31,"vip":true,"plan":"free"}`, `{"city":"31","age":"Oslo","vip":true,"user":{"plan":"free"}}`, ``,
	} {
		at2, _ := vector(t, b, other, `{"price":2.5}`)
		if slices.Equal(at, at2) {
			t.Errorf("%s has the vector of %s", other, base)
		}
	}
	// 4 atoms of the context, 2 of the action: 2 + 4·2 + 4, and 6 pairs crossed with both.
	if len(at) != 2+8+4+12 {
		t.Errorf("%d coordinates, expected 26", len(at))
	}
	for k, i := range at {
		if pair := i >= 1<<18; pair != (k >= 14) || i >= 1<<19 {
			t.Errorf("coordinate %d is %d: pairs are the last 12", k, i)
		}
	}
}

// TestHashedNeverFails: what is JSON is read, whatever its shape.
func TestHashedNeverFails(t *testing.T) {
	b := hashedBatch(t, nil)
	for _, c := range []string{
		``, `null`, `{}`, `[]`, `[1,2,3]`, `3`, `"text"`, `true`, `{"a":[1,"x",null,{"b":[true]}]}`, `{"a":[[1,2],[3]]}`,
		`{"a":{"b":{"c":{"d":1e-300}}}}`, `{"a":-0,"b":1e308,"c":0.1}`, `{"t":"a title of more than three words"}`, `{"":1}`[:0], `{"é":"ü"}`,
	} {
		at, _ := vector(t, b, c, c)
		if len(at) == 0 {
			t.Errorf("%s: no coordinate", c)
		}
	}
	for c, want := range map[string]string{
		`{"a":1,"a":2}`:       "context.a: is given twice",
		`{"a":{"b":1,"b":2}}`: "context.a.b: is given twice",
		`{"a":1`:              "context: is not JSON: offset 6: found the end of the bytes, expected ',' or '}'",
		`{"a":1e999}`:         "context.a: is 1e999, expected a number that float64 can hold",
		`{"":1}`:              "context: a key is empty, expected a name",
	} {
		err := b.Begin([]byte(c))
		var e *feature.Error
		if !errors.As(err, &e) || err.Error() != want {
			t.Errorf("%s: %v, expected %s", c, err, want)
		}
	}
	if err := b.Begin([]byte(`{"a":1}`)); err != nil {
		t.Fatal(err)
	}
	if err := b.Add("x", []byte(`{"b":{"c":nope}}`)); err == nil || !strings.HasPrefix(err.Error(), "actions[0].b.c: ") {
		t.Errorf("error %v, expected one at actions[0].b.c", err)
	}
	if b.Len() != 0 {
		t.Errorf("an action that failed was added")
	}
	if err := b.Add("x", nil); err != nil || b.Len() != 1 {
		t.Errorf("after an error: %v, %d actions", err, b.Len())
	}
	if err := b.Add("\xff", nil); err == nil {
		t.Error("an id that is not UTF-8 was accepted")
	}
	for _, bits := range []int{9, 29, -1} {
		if _, err := feature.NewHashed(feature.HashedOptions{Bits: bits}); err == nil {
			t.Errorf("bits = %d was accepted", bits)
		}
	}
}

// show passes numbers of one feature by an observer until it proposes a standard.
func show(t *testing.T, b *feature.HashedBatch, o *feature.Observer, s *feature.Statistics, values ...float64) (*feature.Statistics, int) {
	t.Helper()
	records := 0
	for _, v := range values {
		b.Use(s)
		if err := b.Begin(fmt.Appendf(nil, `{"n":%v}`, v)); err != nil {
			t.Fatal(err)
		}
		for _, r := range o.Look(b, s) {
			records++
			var err error
			if s, err = s.With(r); err != nil {
				t.Fatal(err)
			}
		}
	}
	return s, records
}

func series(n int, f func(i int) float64) []float64 {
	v := make([]float64, n)
	for i := range v {
		v[i] = f(i)
	}
	return v
}

func TestObserver(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	normal := func(int) float64 { return 100 + 7*r.NormFloat64() }
	b, o := hashedBatch(t, nil), &feature.Observer{}
	s, n := show(t, b, o, nil, series(31, normal)...)
	if n != 0 || s != nil {
		t.Fatalf("%d records after 31 values", n)
	}
	s, n = show(t, b, o, s, normal(0))
	if n != 1 || len(s.All()) != 1 {
		t.Fatalf("%d records after 32 values", n)
	}
	st := s.All()[0]
	if st.Name != "context.n" || st.Generation != 1 || math.Abs(st.Mean-100) > 5 || st.Deviation < 4 || st.Deviation > 10 || st.Width != 0 || st.Levels {
		t.Errorf("standard %+v", st)
	}
	if s, n = show(t, b, o, s, series(3000, normal)...); n != 0 {
		t.Errorf("%d new records from the same law", n)
	}
	// Now a fifth lies elsewhere.
	s2, n := show(t, b, o, s, series(1200, func(i int) float64 {
		if i%3 == 0 {
			return 500 + r.NormFloat64()
		}
		return normal(0)
	})...)
	if st := s2.All()[0]; n != 1 || st.Generation != 2 || math.Abs(st.Mean-233) > 40 || st.Deviation < 150 {
		t.Errorf("%d records, %+v, expected a second generation over both", n, s2.All())
	}
	// The first record of a generation wins.
	other := st
	other.Mean = 0
	if s3, err := s.With(other); err != nil || s3 != s {
		t.Errorf("a second record of generation 1 changed the statistics (%v)", err)
	}
	for _, bad := range []feature.Standard{{Generation: 0}, {Generation: 1, Mean: math.NaN()}, {Generation: 1, Deviation: -1}, {Generation: 1, Width: math.Inf(1)}, {Generation: 1, Name: strings.Repeat("x", 300)}} {
		if _, err := s.With(bad); err == nil {
			t.Errorf("%+v was accepted", bad)
		}
	}
}

// TestStandards: constants stay levels, few whole numbers are levels, heavy tails are transformed.
func TestStandards(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for name, c := range map[string]struct {
		f                      func(int) float64
		constant, levels, wide bool
	}{
		"constant":     {func(int) float64 { return 7 }, true, false, false},
		"weekday":      {func(i int) float64 { return float64(i % 7) }, false, true, false},
		"log-normal":   {func(int) float64 { return math.Exp(3 * r.NormFloat64()) }, false, false, true},
		"normal":       {func(int) float64 { return r.NormFloat64() }, false, false, false},
		"uniform":      {func(int) float64 { return 1e9 * r.Float64() }, false, false, false},
		"counts":       {func(i int) float64 { return float64(i * 100) }, false, false, false},
		"beyond reach": {func(i int) float64 { return 1e308 * float64(1-2*(i%2)) }, true, false, false},
	} {
		s, n := show(t, hashedBatch(t, nil), &feature.Observer{}, nil, series(32, c.f)...)
		if n != 1 {
			t.Errorf("%s: %d records", name, n)
			continue
		}
		st := s.All()[0]
		if (st.Deviation == 0) != c.constant || st.Levels != c.levels || (st.Width > 0) != c.wide {
			t.Errorf("%s: %+v", name, st)
		}
		back, err := feature.ReadStatistics(s.Append(nil))
		if err != nil || !slices.Equal(back.All(), s.All()) {
			t.Errorf("%s: after a round trip %+v, %v", name, back.All(), err)
		}
	}
}

func TestReadStatistics(t *testing.T) {
	var s *feature.Statistics
	if back, err := feature.ReadStatistics(s.Append(nil)); err != nil || back != nil {
		t.Errorf("empty statistics: %v, %v", back, err)
	}
	for i := range 3 {
		s, _ = s.With(feature.Standard{Feature: uint64(i), Name: "context.n", Generation: 1, Mean: 1, Deviation: 2})
	}
	b := s.Append(nil)
	for i := range b {
		if _, err := feature.ReadStatistics(b[:i]); err == nil {
			t.Fatalf("%d of %d bytes were accepted", i, len(b))
		}
		c := slices.Clone(b)
		c[i] ^= 4
		if _, err := feature.ReadStatistics(c); err == nil {
			t.Fatalf("a flipped bit in byte %d was accepted", i)
		}
	}
}

// TestTypeDrift: a feature that has a standard reads "31" and 31 as one value.
func TestTypeDrift(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	s, _ := show(t, hashedBatch(t, nil), &feature.Observer{}, nil, series(32, func(int) float64 { return 30 + 9*r.NormFloat64() })...)
	b := hashedBatch(t, s)
	at, x := vector(t, b, `{"n":31.5}`, ``)
	at2, x2 := vector(t, b, `{"n":"31.5"}`, ``)
	if !slices.Equal(at, at2) || !slices.Equal(x, x2) {
		t.Error("the text of a number has another vector than the number")
	}
	if _, x := vector(t, b, `{"n":1e300}`, ``); slices.Max(x) != 3 {
		t.Errorf("values %v of a far number, expected a cut at 3", x)
	}
	vector(t, b, `{"n":"unknown"}`, ``)
	vector(t, b, `{"n":[1,2]}`, ``)
	vector(t, b, `{"n":{"m":1}}`, ``)
}

// TestAtoms: a log that keeps atoms gives the vector again.
func TestAtoms(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	s, _ := show(t, hashedBatch(t, nil), &feature.Observer{}, nil, series(32, func(int) float64 { return r.NormFloat64() })...)
	b := hashedBatch(t, s)
	at, x := vector(t, b, `{"n":0.123456789,"c":"x","t":"one title of five words"}`, `{"p":[0.5,2]}`)
	bytes := feature.AppendAtoms(feature.AppendAtoms(nil, b.Context()), b.Action(0))
	context, rest, err := feature.ReadAtoms(nil, bytes)
	if err != nil {
		t.Fatal(err)
	}
	action, rest, err := feature.ReadAtoms(nil, rest)
	if err != nil || len(rest) > 0 {
		t.Fatal(err, len(rest))
	}
	h, _ := feature.NewHashed(feature.HashedOptions{})
	at2, x2 := h.AppendVector(nil, nil, context, action)
	if !slices.Equal(at, at2) || !slices.Equal(x, x2) {
		t.Error("atoms give another vector after a round trip")
	}
	for i := range bytes {
		if c, rest, err := feature.ReadAtoms(nil, bytes[:i]); err == nil {
			if _, _, err := feature.ReadAtoms(nil, rest); err == nil {
				t.Fatalf("%d of %d bytes give %d atoms", i, len(bytes), len(c))
			}
		}
	}
	nan := binary.LittleEndian.AppendUint32([]byte{1, 0, 0, 0, 0, 0, 0, 0, 0, 1}, math.Float32bits(float32(math.NaN())))
	if _, _, err := feature.ReadAtoms(nil, nan); err == nil {
		t.Error("an atom of value NaN was accepted")
	}
}

func TestHashedGroups(t *testing.T) {
	b := hashedBatch(t, nil)
	if err := b.Begin([]byte(`{"u":1}`)); err != nil {
		t.Fatal(err)
	}
	for _, a := range []struct{ id, f string }{{"", `{"p":1,"q":2}`}, {"", `{"p":2}`}, {"", `{"q":2,"p":1}`}, {"x", ``}, {"", `{"p":2}`}, {"y", ``}} {
		if err := b.Add(a.id, []byte(a.f)); err != nil {
			t.Fatal(err)
		}
	}
	first, n := b.Groups(nil)
	if want := []int{0, 1, 0, 3, 1, 5}; !slices.Equal(first, want) || n != 4 {
		t.Errorf("groups %v, %d of them, expected %v", first, n, want)
	}
}

func TestHashedPacked(t *testing.T) {
	rows := []float64{1, 0.5, 1, -2}
	var raw []byte
	for _, v := range rows {
		raw = binary.LittleEndian.AppendUint64(raw, math.Float64bits(v))
	}
	packed := fmt.Appendf(nil, `{"dtype":"float64","shape":[2,2],"data":%q}`, base64.StdEncoding.EncodeToString(raw))
	b := hashedBatch(t, nil)
	if err := b.Begin(nil); err != nil {
		t.Fatal(err)
	}
	if err := b.AddPacked([]string{"a", "b"}, packed); err != nil {
		t.Fatal(err)
	}
	if b.Len() != 2 {
		t.Fatalf("%d actions", b.Len())
	}
	c := hashedBatch(t, nil)
	at, x := b.Nonzeros(0)
	at2, x2 := vector(t, c, ``, `[1,0.5]`)
	if !slices.Equal(at, at2) || !slices.Equal(x, x2) {
		t.Error("a packed row has another vector than a list")
	}
}

// TestHashedLimits: many features stay within the bounds on coordinates.
func TestHashedLimits(t *testing.T) {
	var c, f strings.Builder
	for i := range 400 {
		fmt.Fprintf(&c, `,"c%d":%d`, i, i)
		fmt.Fprintf(&f, `,"f%d":"v"`, i)
	}
	b := hashedBatch(t, nil)
	at, _ := vector(t, b, "{"+c.String()[1:]+"}", "{"+f.String()[1:]+"}")
	pairs := 0
	for _, i := range at {
		if i >= 1<<18 {
			pairs++
		}
	}
	if pairs > feature.MaxPairs || pairs < feature.MaxPairs/2 {
		t.Errorf("%d pairs, expected about and at most %d", pairs, feature.MaxPairs)
	}
	if n := len(at) - pairs; n != 401+400+400 {
		t.Errorf("%d coordinates without pairs, expected 1201: with so many only the id is crossed", n)
	}
}

func TestHashedAllocatesNothing(t *testing.T) {
	b := hashedBatch(t, nil)
	context, action := []byte(`{"city":"Oslo","age":31,"tags":["a","b"],"t":"one title of five words"}`), []byte(`{"price":2.5}`)
	run := func() {
		if b.Begin(context) != nil || b.Add("a", action) != nil || b.Add("b", action) != nil {
			t.Fatal("encoding failed")
		}
	}
	run()
	if n := testing.AllocsPerRun(50, run); n > 0 {
		t.Errorf("%v allocations in a request", n)
	}
}

func FuzzHashed(f *testing.F) {
	f.Add([]byte(`{"a":[1,"x",{"b":null}]}`), []byte(`[1,2]`))
	f.Fuzz(func(t *testing.T, context, action []byte) {
		b := hashedBatch(t, nil)
		if b.Begin(context) != nil || b.Add("a", action) != nil {
			return
		}
		at, x := b.Nonzeros(0)
		for k, i := range at {
			if i >= 1<<19 || x[k]-x[k] != 0 {
				t.Fatalf("entry %d is %v at %d", k, x[k], i)
			}
		}
	})
}

// TestNamesOfAtoms: the atoms and coordinates that names are made of are those of the vectors.
func TestNamesOfAtoms(t *testing.T) {
	h, err := feature.NewHashed(feature.HashedOptions{})
	if err != nil {
		t.Fatal(err)
	}
	b, stats := feature.NewHashedBatch(h, nil), (*feature.Statistics)(nil)
	encode := func(context string) {
		t.Helper()
		if err := b.Begin([]byte(context)); err != nil {
			t.Fatal(err)
		}
		if err := b.Add("sport", []byte(`{"kind": "ball"}`)); err != nil {
			t.Fatal(err)
		}
	}
	b.Use(stats)
	encode(`{"age": 31, "floor": 3, "city": "Oslo"}`)
	hash := map[string]uint64{}
	b.Values(func(v feature.Given) { hash[string(v.Name)] = v.Feature })
	for name, s := range map[string]feature.Standard{"context.age": {Mean: 30, Deviation: 10}, "context.floor": {Mean: 2, Deviation: 2, Levels: true}} {
		s.Name, s.Feature, s.Generation = name, hash[name], 2
		if stats, err = stats.With(s); err != nil {
			t.Fatal(err)
		}
	}
	b.Use(stats)
	encode(`{"age": 31, "floor": 3, "city": "Oslo"}`)
	named := map[uint64]string{h.IDAtom("sport"): "id=sport"}
	b.Values(func(v feature.Given) {
		if v.Atom != 0 {
			named[v.Atom] = string(v.Name) + "=" + string(v.Level)
		}
		if v.Number && string(v.Name) == "context.floor" && h.LevelAtom(stats, v.Feature, v.X) != v.Atom {
			t.Error("the atom of a level is another one")
		}
		if r, ok := stats.Of(v.Feature); ok {
			for _, p := range h.Parts(&r) {
				named[p.Atom] = r.Name + p.Text
			}
		}
	})
	at, _ := b.Nonzeros(0)
	var names []string
	for _, a := range b.Action(0) {
		names = append(names, named[a.Hash])
		for i, c := range b.Context() {
			if !slices.Contains(at, h.Coordinate(a.Hash)) || !slices.Contains(at, h.Coordinate(a.Hash, c.Hash)) || i > 0 && !slices.Contains(at, h.Coordinate(a.Hash, b.Context()[i-1].Hash, c.Hash)) {
				t.Fatal("a coordinate is not in the vector")
			}
		}
	}
	for _, c := range b.Context() {
		names = append(names, named[c.Hash])
	}
	slices.Sort(names)
	want := []string{"action.kind=ball", "context.age in 30 to 35", "context.age per 10", "context.city=Oslo", "context.floor per 2", "context.floor=3", "id=sport"}
	if !slices.Equal(names, want) {
		t.Errorf("%q, expected %q", names, want)
	}
}

// TestNumbersAsText: strings that are always decimal numbers of many values become numbers; names of things that look
// like numbers, and features with other strings among them, do not.
func TestNumbersAsText(t *testing.T) {
	e, err := feature.NewHashed(feature.HashedOptions{Fields: true, List: true})
	if err != nil {
		t.Fatal(err)
	}
	b := feature.NewHashedBatch(e, nil)
	var seen feature.Observer
	var known *feature.Statistics
	for n := range 400 {
		price := fmt.Sprintf("%d.%02d", 5+n*37%50, n%100)
		code := strconv.Itoa(1000 + 17*(n*7%9)) // nine of them
		zip := fmt.Sprintf("0%d", 1000+n)
		size := strconv.Itoa(30 + n)
		if n == 3 {
			size = "XL"
		}
		if err := b.Begin(fmt.Appendf(nil, `{"price": %q, "code": %q, "zip": %q, "size": %q}`, price, code, zip, size)); err != nil {
			t.Fatal(err)
		}
		for _, s := range seen.Look(b, known) {
			if known, err = known.With(s); err != nil {
				t.Fatal(err)
			}
		}
		b.Use(known)
	}
	if all := known.All(); len(all) != 1 || all[0].Name != "context.price" {
		t.Fatalf("numbers: %v, expected the price", all)
	}
	if err := b.Begin([]byte(`{"price": "12.5"}`)); err != nil {
		t.Fatal(err)
	}
	text := slices.Clone(b.Context())
	if err := b.Begin([]byte(`{"price": 12.5}`)); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(text, b.Context()) || len(text) != 2 {
		t.Errorf(`"12.5" is %v, 12.5 is %v`, text, b.Context())
	}
}
