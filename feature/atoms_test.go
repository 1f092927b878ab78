package feature_test

import (
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"

	"troupe/feature"
)

func hashedBatch() *feature.AtomBatch {
	return feature.NewAtomBatch(feature.NewAtomEncoder(feature.Limits{}))
}

// vector returns a copy of the vector of one action with the id a.
func vector(t testing.TB, b *feature.AtomBatch, context, features string) (at []uint32, x []float64) {
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

// TestAtomsSame: requests that mean the same have the same vector, bit for bit, and others have not.
func TestAtomsSame(t *testing.T) {
	b := hashedBatch()
	base := `{"city":"Oslo","age":31,"vip":true,"user":{"plan":"free"}}`
	at, x := vector(t, b, base, `{"price":2.5}`)
	for _, same := range []string{
		`{"user":{"plan":"free"},"vip":true,"age":31,"city":"Oslo"}`,
		`{"user.plan":"free","vip":true,"age":31.0,"city":"Oslo"}`,
		`[{"city":"Oslo","age":3.1e1},{"vip":true,"user":{"plan":"free"}}]`,
		`{"city":"Oslo","age":31,"vip":true,"user":{"plan":"free"},"gone":null,"_tag":"x"}`,
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
		_, x2 := vector(t, b, other, `{"price":2.5}`)
		if slices.Equal(x, x2) {
			t.Errorf("%s has the vector of %s", other, base)
		}
	}
	// 4 atoms of the context, 2 of the action, with two entries each, and two counts
	if len(at) != 2*(4+2)+2 || x[len(x)-1] != 4 || x[len(x)-2] != 2 {
		t.Errorf("%d entries that end with %v, expected 14 that end with 2, 4", len(at), x[len(x)-2:])
	}
}

// TestAtomsNeverFails: what is JSON is read, whatever its shape.
func TestAtomsNeverFails(t *testing.T) {
	b := hashedBatch()
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
}

// TestAtoms: a log that keeps atoms gives the vector again.
func TestAtoms(t *testing.T) {
	b := hashedBatch()
	at, x := vector(t, b, `{"n":0.123456789,"big":1e300,"id":9007199254740993,"c":"x","t":"one title of five words"}`, `{"p":[0.5,2]}`)
	bytes := feature.AppendAtoms(feature.AppendAtoms(nil, b.Context()), b.Action(0))
	context, rest, err := feature.ReadAtoms(nil, bytes)
	if err != nil {
		t.Fatal(err)
	}
	action, rest, err := feature.ReadAtoms(nil, rest)
	if err != nil || len(rest) > 0 {
		t.Fatal(err, len(rest))
	}
	h := feature.NewAtomEncoder(feature.Limits{})
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
	inf := binary.LittleEndian.AppendUint64([]byte{1, 0, 0, 0, 0, 0, 0, 0, 0, 2}, math.Float64bits(math.Inf(1)))
	if _, _, err := feature.ReadAtoms(nil, inf); err == nil {
		t.Error("an infinite atom was accepted")
	}
}

// TestLongIDs: whole numbers that a float64 does not hold are text, so that two neighbours are two ids; smaller ones and
// those with a fraction or an exponent are numbers.
func TestLongIDs(t *testing.T) {
	b := hashedBatch()
	of := func(v string) []float64 {
		_, x := vector(t, b, `{"user":`+v+`}`, ``)
		return x
	}
	for _, pair := range [][2]string{{"9007199254740993", "9007199254740995"}, {"-18014398509481985", "-18014398509481987"},
		{"184467440737095516151", "184467440737095516152"}, {"5", "6"}} {
		if slices.Equal(of(pair[0]), of(pair[1])) {
			t.Errorf("%s and %s are one value", pair[0], pair[1])
		}
	}
	if !slices.Equal(of("9007199254740993"), of(`"9007199254740993"`)) {
		t.Error("a long number is not its digits")
	}
	for _, number := range []string{"9007199254740991", "1e300", "-2.5", "0"} {
		want, _ := strconv.ParseFloat(number, 64)
		if x := of(number); x[1] != want {
			t.Errorf("%s has the value %v", number, x[1])
		}
	}
}

func TestAtomsGroups(t *testing.T) {
	b := hashedBatch()
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

func TestAtomsPacked(t *testing.T) {
	rows := []float64{1, 0.5, 1, -2}
	var raw []byte
	for _, v := range rows {
		raw = binary.LittleEndian.AppendUint64(raw, math.Float64bits(v))
	}
	packed := fmt.Appendf(nil, `{"dtype":"float64","shape":[2,2],"data":%q}`, base64.StdEncoding.EncodeToString(raw))
	b := hashedBatch()
	if err := b.Begin(nil); err != nil {
		t.Fatal(err)
	}
	if err := b.AddPacked([]string{"a", "b"}, packed); err != nil {
		t.Fatal(err)
	}
	if b.Len() != 2 {
		t.Fatalf("%d actions", b.Len())
	}
	c := hashedBatch()
	at, x := b.Nonzeros(0)
	at2, x2 := vector(t, c, ``, `[1,0.5]`)
	if !slices.Equal(at, at2) || !slices.Equal(x, x2) {
		t.Error("a packed row has another vector than a list")
	}
}

func TestAtomsAllocatesNothing(t *testing.T) {
	b := hashedBatch()
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
		b := hashedBatch()
		if b.Begin(context) != nil || b.Add("a", action) != nil {
			return
		}
		at, x := b.Nonzeros(0)
		for k, i := range at {
			if i != 0 || x[k]-x[k] != 0 {
				t.Fatalf("entry %d is %v at %d", k, x[k], i)
			}
		}
	})
}
