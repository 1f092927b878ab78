package feature_test

import (
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"troupe/feature"
)

// metSchema has every kind, as Learn would make them.
const metSchema = `{"intercept":false,"unknown":"ignore","features":[
	{"feature":"context.age","kind":"number","range":[0,100],"outside":"clamp"},
	{"feature":"context.vip","kind":"boolean"},
	{"feature":"context.city","kind":"category","levels":["Oslo","7"],"unseen":"other"},
	{"feature":"context.lang","kind":"category","levels":["no"],"unseen":"ignore"},
	{"feature":"context.title","kind":"text","buckets":4},
	{"feature":"context.mood","kind":"vector","size":2,"bound":1,"outside":"clamp"},
	{"feature":"id","kind":"category","levels":["a"],"unseen":"other"}]}`

func metOf(b *feature.Batch) string {
	var out []string
	b.EachMet(func(what feature.Met, name []byte) {
		out = append(out, map[feature.Met]string{feature.MetIgnored: "ignored ", feature.MetClamped: "clamped ", feature.MetType: "type "}[what]+string(name))
	})
	slices.Sort(out)
	return strings.Join(out, ", ")
}

// TestMet: what each value meets, and the value that it is read as.
func TestMet(t *testing.T) {
	e := mustEncoder(t, metSchema)
	strict, lenient := feature.NewBatch(e), feature.NewBatch(e)
	lenient.Lenient(true)
	encode := func(b *feature.Batch, context string) ([]float64, error) {
		if err := b.Begin([]byte(context)); err != nil {
			return nil, err
		}
		if err := b.Add("a", nil); err != nil {
			return nil, err
		}
		return b.Row(0), nil
	}
	for _, c := range []struct {
		context, met string
		same         string // a context with the same vector; empty: the lenient batch reads what the strict one does
	}{
		{`{"age":31,"vip":true,"city":"Oslo","lang":"no","title":"x y","mood":[0.5,0.1]}`, "", ""},
		{`{"age":null,"_x":1,"other":null}`, "", ""},
		{`{"age":131,"city":"Rome","lang":"sv","mood":[3,4],"a":{"b":1},"c":[1]}`, "clamped context.age, clamped context.mood, ignored context.a.b, ignored context.c, ignored context.city, ignored context.lang", ""},
		{`{"age":"31"}`, "type context.age", `{"age":31}`},
		{`{"age":" 3.1e1 "}`, "type context.age", `{"age":31}`},
		{`{"age":"131"}`, "clamped context.age, type context.age", `{"age":100}`},
		{`{"age":true}`, "type context.age", `{"age":1}`},
		{`{"age":[31]}`, "type context.age", `{"age":31}`},
		{`{"age":[31,32]}`, "type context.age", `{}`},
		{`{"age":[null]}`, "type context.age", `{}`},
		{`{"age":[[31]]}`, "type context.age", `{}`},
		{`{"age":[31,{}]}`, "type context.age", `{}`},
		{`{"age":[]}`, "type context.age", `{}`},
		{`{"age":{"years":31}}`, "type context.age", `{}`},
		{`{"age":"old"}`, "type context.age", `{}`},
		{`{"age":"0x1f"}`, "type context.age", `{}`},
		{`{"age":"1e999"}`, "type context.age", `{}`},
		{`{"age":"NaN"}`, "type context.age", `{}`},
		{`{"age":""}`, "type context.age", `{}`},
		{`{"vip":1}`, "type context.vip", `{"vip":true}`},
		{`{"vip":-0}`, "type context.vip", `{"vip":false}`},
		{`{"vip":"True"}`, "type context.vip", `{"vip":true}`},
		{`{"vip":["0"]}`, "type context.vip", `{"vip":false}`},
		{`{"vip":2}`, "type context.vip", `{}`},
		{`{"vip":[true,false]}`, "type context.vip", `{}`},
		{`{"city":7}`, "", ""},
		{`{"city":["Oslo",null,{"a":1}]}`, "type context.city", `{"city":"Oslo"}`},
		{`{"city":{"name":"Oslo"}}`, "type context.city", `{}`},
		{`{"title":12}`, "type context.title", `{"title":"12"}`},
		{`{"title":["x",true]}`, "type context.title", `{"title":["x","true"]}`},
		{`{"mood":0.5}`, "type context.mood", `{}`},
		{`{"mood":[0.5,0.1,0.2]}`, "type context.mood", `{}`},
		{`{"mood":["a",0.5,0.1]}`, "type context.mood", `{}`},
		{`{"mood":{"x":[1,{"y":2}]}}`, "type context.mood", `{}`},
		{`{"mood":{"dtype":"float32","shape":[1],"data":"AAAAPw=="}}`, "type context.mood", `{}`},
	} {
		got, err := encode(lenient, c.context)
		if err != nil || metOf(lenient) != c.met || (lenient.Met() == 0) != (c.met == "") {
			t.Errorf("%s: met %q and %v, want %q", c.context, metOf(lenient), err, c.met)
			continue
		}
		same := c.same
		if same == "" {
			same = c.context
		} else if _, err := encode(strict, c.context); err == nil {
			t.Errorf("%s: a strict batch takes it", c.context)
		}
		want, err := encode(strict, same)
		if err != nil {
			t.Fatalf("%s: %v", same, err)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s is %v, %s is %v", c.context, got, same, want)
		}
		if c.same == "" && metOf(strict) != c.met {
			t.Errorf("%s: a strict batch met %q, want %q", c.context, metOf(strict), c.met)
		}
	}
	if err := lenient.Begin(nil); err != nil || lenient.Add("", nil) != nil || lenient.Met() != 0 {
		t.Error("an action without an id is refused")
	}
	// Errors that leniency does not concern.
	for _, context := range []string{`{"age":"31`, `{"age":1,"age":"2"}`, `{"age":"` + strings.Repeat("9", 9000) + `"}`, `{"mood":{"x":1,"x":2}`, `"x"`} {
		if _, err := encode(lenient, context); err == nil {
			t.Errorf("%.40s was read", context)
		}
	}
	refuse := mustEncoder(t, `{"features":[{"feature":"action.p","kind":"number","range":[0,1]},{"feature":"action.c","kind":"category","levels":["a"]},{"feature":"action.v","kind":"vector","size":1,"bound":1}]}`)
	b := feature.NewBatch(refuse)
	b.Lenient(true)
	for _, features := range []string{`{"p":2}`, `{"p":"2"}`, `{"c":"b"}`, `{"v":[2]}`, `{"z":1}`} {
		if err := b.Begin(nil); err != nil || b.Add("", []byte(features)) == nil {
			t.Errorf("%s was read although the schema refuses it", features)
		}
	}
}

// TestLenientReadsAnyType: with a schema as Learn makes them, no value of any type under any name of it is an error of
// the value, vectors stay finite in the unit ball, and a request without drift has the bits of a strict batch.
func TestLenientReadsAnyType(t *testing.T) {
	p, err := feature.Learn(news(), feature.LearnOptions{MaxDim: 128})
	if err != nil {
		t.Fatal(err)
	}
	e, err := feature.New(p.Schema, feature.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	strict, lenient := feature.NewBatch(e), feature.NewBatch(e)
	lenient.Lenient(true)
	drifted, plain := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		scalar := rapid.OneOf(numbers(), texts(), rapid.SampledFrom([]string{"true", "false", "null", `"31"`, "1"}))
		value := rapid.OneOf(scalar, list(scalar, 4), rapid.SampledFrom([]string{`{}`, `[]`, `[[1]]`, `{"x":{"y":[1]}}`, `[{"a":1}]`}))
		drift := rapid.Bool().Draw(t, "drift")
		of := func(name string, right *rapid.Generator[string]) member {
			if drift {
				right = value
			}
			return member{name, right.Draw(t, name)}
		}
		context := []member{{"user", some(t, of("city", texts()), of("age", numbers()), of("id", numbers()), of("premium", rapid.Just("true")))}}
		action := some(t, of("price", numbers()), of("title", texts()), of("emb", rapid.Just("[3,0.5]")), of("tags", list(texts(), 4)), of("brand", texts()), of("new", value))
		id := rapid.SampledFrom([]string{"", "a", "z"}).Draw(t, "id")
		read := func(b *feature.Batch) error {
			if err := b.Begin([]byte(object(context))); err != nil {
				return err
			}
			return b.Add(id, []byte(object(action)))
		}
		if err := read(lenient); err != nil {
			t.Fatalf("%v in %s, %s", err, object(context), object(action))
		}
		if n := norm(lenient.Row(0)); !(n <= 1) {
			t.Fatalf("norm %v", n)
		}
		if lenient.Met()&feature.MetType != 0 {
			drifted++
			return
		}
		if plain++; id == "" {
			id = "a" // a strict batch wants one
			if err := read(lenient); err != nil {
				t.Fatal(err)
			}
		}
		if err := read(strict); err != nil {
			t.Fatalf("a strict batch refuses what is of no other type: %v", err)
		}
		if !slices.Equal(strict.Row(0), lenient.Row(0)) || metOf(strict) != metOf(lenient) {
			t.Fatalf("%v, a strict batch has %v", lenient.Row(0), strict.Row(0))
		}
	})
	if drifted == 0 || plain == 0 {
		t.Errorf("%d requests had a value of another type, %d had none", drifted, plain)
	}
}
