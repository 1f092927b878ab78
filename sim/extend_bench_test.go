package sim

import (
	"path/filepath"
	"strings"
	"testing"
)

// BenchmarkExtend plays the second half of a horizon, from the states of the first and as rounds of their own: the
// difference is the price of going on.
//
//	go test ./sim -run '^$' -bench Extend -benchtime 10x
func BenchmarkExtend(b *testing.B) {
	const text = `
replications = 16
horizon = %HORIZON%
[[environment]]
kind = "linear"
d = 10
set = { kind = "random-sphere", arms = 20 }
[[policy]]
kind = "ensemble"
m = 20
[[policy]]
kind = "ts"
`
	at := func(b *testing.B, dir, horizon string) {
		x, err := Parse("x.toml", strings.Replace(text, "%HORIZON%", horizon, 1), Kinds())
		if err != nil {
			b.Fatal(err)
		}
		if _, err := Run(b.Context(), x, Options{Dir: dir, Workers: 1}); err != nil {
			b.Fatal(err)
		}
	}
	b.Run("alone", func(b *testing.B) {
		for b.Loop() {
			at(b, filepath.Join(b.TempDir(), "out"), "20000")
		}
	})
	b.Run("extended", func(b *testing.B) {
		for b.Loop() {
			b.StopTimer()
			dir := filepath.Join(b.TempDir(), "out")
			at(b, dir, "20000")
			b.StartTimer()
			at(b, dir, "40000")
		}
	})
}
