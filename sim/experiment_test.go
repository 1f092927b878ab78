package sim

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"troupe/spec"
)

func names[T any](cases []Case[T]) string {
	var out []string
	for _, c := range cases {
		out = append(out, c.Name)
	}
	return strings.Join(out, " | ")
}

const small = `name = "small"
seed = 3
horizon = 1_00
replications = 4.0

[[environment]]
kind = "arms"

[[policy]]
kind = "random"
`

func TestParse(t *testing.T) {
	x, err := Parse("dir/small.toml", small, fakes)
	if err != nil {
		t.Fatal(err)
	}
	if x.Name != "small" || x.Seed != 3 || x.Horizon != 100 || x.Replications != 4 || x.Cells() != 4 {
		t.Errorf("got %+v", x)
	}
	if x.Checkpoints[len(x.Checkpoints)-1] != 100 {
		t.Errorf("checkpoints %v do not end at the horizon", x.Checkpoints)
	}
	x, err = Parse("dir/other.toml", strings.TrimPrefix(small, "name = \"small\"\n"), fakes)
	if err != nil || x.Name != "other" {
		t.Errorf("an experiment without a name is called %q (%v), want the file's name", x.Name, err)
	}
}

func TestNames(t *testing.T) {
	for _, c := range []struct{ policies, want string }{
		{"[[policy]]\nkind='random'", "random"},
		{"[[policy]]\nkind='random'\nm=[1,2]", "random(m=1) | random(m=2)"},
		{"[[policy]]\nname='es'\nkind='random'\nm=[1,2]\nweight=2", "es(m=1) | es(m=2)"},
		{"[[policy]]\nkind='random'\nm=1\nlaw='a'\n[[policy]]\nkind='random'\nm=2\nlaw='a'", "random(m=1) | random(m=2)"},
		{"[[policy]]\nkind='random'\n[[policy]]\nkind='random'\nlaw='a'", "random | random(law=a)"},
		{"[[policy]]\nkind='random'\n[[policy]]\nname='other'\nkind='random'\nlaw='a'", "random | other"},
		{"[[policy]]\nkind='random'\nm=[1,2]\nlaw='a'\n[[policy]]\nkind='random'\nlaw='b'", "random(m=1, law=a) | random(m=2, law=a) | random(law=b)"},
		{"[[policy]]\nkind='random'\nscale={kind='ball',value=[1,2.5]}", "random(scale=1) | random(scale=2.5)"},
		{"[[policy]]\nkind='random'\nweight=[1.7320508,0.5]", "random(weight=1.732) | random(weight=0.5)"},
		{"[[policy]]\nkind='random'\nweight=[1.7320508,1.7320509]", "random(weight=1.7320508) | random(weight=1.7320509)"},
		{"[[policy]]\nkind='random'\nlaw=''\n[[policy]]\nkind='random'", "random(law=) | random"},
		{"[[policy]]\nkind='random'\nlaw=[\"a\\nb\", 'c']", `random(law="a\nb") | random(law=c)`},
		{"[[policy]]\nkind='random'\nlist=[1,2]\n[[policy]]\nkind='random'\nlist=[3]", "random(list=[1,2]) | random(list=[3])"},
	} {
		x, err := Parse("x.toml", "[[environment]]\nkind='arms'\n"+c.policies, fakes)
		if err != nil {
			t.Errorf("%s: %v", c.policies, err)
			continue
		}
		if got := names(x.Policies); got != c.want {
			t.Errorf("%s\n got %s\nwant %s", c.policies, got, c.want)
		}
	}
	x, err := Parse("x.toml", "[[environment]]\nkind='arms'\nk=[2,3]\n[[environment]]\nkind='arms'\nk=3\nset={kind='ball',value=2}\n[[policy]]\nkind='random'\nm=[1,2]\nweight=[1,2]", fakes)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := names(x.Environments), "arms(k=2) | arms(k=3) | arms(k=3, set.kind=ball, set.value=2)"; got != want {
		t.Errorf("got %s\nwant %s", got, want)
	}
	if got := x.Policies[3]; got.Table["m"] != int64(2) || got.Table["weight"] != int64(2) || !slices.Equal(got.Swept, []string{"m", "weight"}) {
		t.Errorf("the last case of the sweep is %+v", got)
	}
}

// Every fault names file, line and column of the key that is wrong.
func TestFaults(t *testing.T) {
	const env, pol = "[[environment]]\nkind='arms'\n", "[[policy]]\nkind='random'\n"
	for _, c := range []struct{ text, want string }{
		{"", "x.toml:1:1: no [[environment]] table; an experiment has at least one"},
		{env, "x.toml:1:1: no [[policy]] table; an experiment has at least one"},
		{"a = \n", "x.toml:1:5: unexpected character U+000A at start of value"},
		{"seed = 1\nseed = 2\n" + env + pol, "x.toml:2:1: key seed is already defined"},
		{"sed = 1\n" + env + pol, `x.toml:1:1: unknown key "sed"; did you mean "seed"?`},
		{"seed = -1\n" + env + pol, "x.toml:1:1: seed is -1, expected a whole number from 0 to 9223372036854775807"},
		{"seed = 1.5\n" + env + pol, "x.toml:1:1: seed is 1.5, expected a whole number"},
		{"\n  horizon = 0\n" + env + pol, "x.toml:2:3: horizon is 0, expected a whole number from 1 to 1000000000000"},
		{"replications = 'x'\n" + env + pol, `x.toml:1:1: replications is the string "x", expected a whole number`},
		{"replications = 0\n" + env + pol, "x.toml:1:1: replications is 0, expected a whole number from 1 to 10000000"},
		{"horizon = 10\ncheckpoints = [5,\n 20]\n" + env + pol, "x.toml:3:2: checkpoints[1] is 20, expected rounds in increasing order from 1 to the horizon 10"},
		{"name = ' x'\n" + env + pol, `x.toml:1:1: name is " x", expected a name without spaces around it`},
		{"name = \"a\\nb\"\n" + env + pol, `x.toml:1:1: name is "a\nb", expected printable characters`},
		{env + "[[policy]]\n", "x.toml:3:3: kind is missing; expected one of break, random, stingy"},
		{env + "[[policy]]\nkind='randon'\n", `x.toml:4:1: unknown kind "randon"; did you mean "random"?`},
		{env + pol + "wieght=1\n", `x.toml:5:1: unknown key "wieght"; did you mean "weight"?`},
		{env + pol + "weight=nan\n", "x.toml:5:1: weight is NaN, expected a finite number"},
		{env + pol + "weight=[1,inf]\n", "x.toml:5:1: weight is +Inf, expected a finite number"},
		{env + pol + "scale={kind='ball', valeu=1}\n", `x.toml:5:21: unknown key "valeu"; did you mean "value"?`},
		{env + pol + "[policy.scale]\nkind='ball'\n value='x'\n", `x.toml:7:2: scale.value is the string "x", expected a number`},
		{env + pol + "name=3\n", "x.toml:5:1: name is 3, expected a string"},
		{env + pol + pol, `x.toml:5:3: two cases of [[policy]] are called "random"; give them different names`},
		{env + pol + "m=[2,2]", `x.toml:3:3: two cases of [[policy]] are called "random(m=2)"; give them different names`},
		{"environment = 3\n" + pol, "x.toml:1:1: environment is 3, expected tables [[environment]]"},
		{"replications = 10_000_000\nhorizon=1_000_000\n" + env + pol, "x.toml:1:1: replications is 10000000, which makes 8.4e+08 numbers of results, more than 200000000"},
	} {
		_, err := Parse("x.toml", c.text, fakes)
		var fault *spec.FileError
		if !errors.As(err, &fault) {
			t.Errorf("%q: error %v is not a FileError", c.text, err)
			continue
		}
		if err.Error() != c.want {
			t.Errorf("%q\n got %s\nwant %s", c.text, err, c.want)
		}
	}
}

func TestOverride(t *testing.T) {
	for _, c := range []struct{ text, key, value, want string }{
		{"seed = 1\nhorizon = 10_000 # rounds\n", "horizon", "5", "seed = 1\nhorizon = 5 # rounds\n"},
		{"name = \"x\"\n", "seed", "7", "seed = 7\nname = \"x\"\n"},
	} {
		got, err := spec.Override("x.toml", c.text, c.key, c.value)
		if err != nil || got != c.want {
			t.Errorf("Override(%q, %s, %s)\n got %q, %v\nwant %q", c.text, c.key, c.value, got, err, c.want)
		}
	}
	for _, c := range []struct{ text, key, want string }{
		{"seed = [1]\n", "seed", "x.toml:1:1: seed is a list or a table here and cannot be replaced from the command line"},
		{"seed = \n", "seed", "x.toml:1:8: unexpected character U+000A at start of value"},
	} {
		if _, err := spec.Override("x.toml", c.text, c.key, "1"); err == nil || err.Error() != c.want {
			t.Errorf("Override(%q, %s): error %v, want %s", c.text, c.key, err, c.want)
		}
	}
}

// The checkpoints increase, end at the horizon, and are dense enough that the last decade of any
// horizon from 100 has at least 14 of them.
func TestCheckpoints(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		horizon := rapid.IntRange(1, 10_000_000).Draw(t, "horizon")
		at := Checkpoints(horizon)
		if at[0] != 1 || at[len(at)-1] != horizon {
			t.Fatalf("%v does not run from 1 to %d", at, horizon)
		}
		late := 0
		for i, c := range at {
			if i > 0 && c <= at[i-1] {
				t.Fatalf("%v does not increase", at)
			}
			if 10*c > horizon {
				late++
			}
		}
		if horizon >= 100 && late < 14 {
			t.Fatalf("%d checkpoints in the last decade of %d", late, horizon)
		}
	})
	if got := len(Checkpoints(10_000)); got != 54 {
		t.Errorf("T = 10 000 has %d checkpoints, the doc comment says 54", got)
	}
	if got := len(Checkpoints(100_000)); got != 69 {
		t.Errorf("T = 100 000 has %d checkpoints, the doc comment says 69", got)
	}
}

// Text from outside never panics.
func FuzzParse(f *testing.F) {
	f.Add(small)
	f.Add("[[environment]]\nkind='arms'\n[[policy]]\nkind='random'\nscale={kind='ball',value=[1,2]}\n")
	f.Add("x.y.z = [[1],{a=[{b=2}]}]\n[x.y]\n[[x.q]]\n[x.q.r]\n")
	f.Fuzz(func(t *testing.T, text string) {
		if _, err := Parse("x.toml", text, fakes); err != nil {
			var fault *spec.FileError
			if !errors.As(err, &fault) || fault.Line < 1 || fault.Column < 1 {
				t.Errorf("%q: %v has no place in the file", text, err)
			}
		}
		spec.Override("x.toml", text, "seed", "1")
	})
}
