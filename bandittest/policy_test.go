package bandittest_test

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"troupe/actionset"
	"troupe/bandit"
	"troupe/bandittest"
	"troupe/policy"
	"troupe/rng"
)

// listener is a TB that remembers which promises were reported broken.
type listener struct{ heard []string }

func (l *listener) Helper() {}

func (l *listener) Errorf(format string, args ...any) {
	l.heard = append(l.heard, fmt.Sprintf(format, args...))
}

// sound is a policy that keeps every promise; the broken ones below are it, but for one method.
type sound struct{ *policy.Mixed }

func newSound() sound {
	base, err := policy.NewEnsemble(policy.EnsembleOptions{M: 3}, policy.Problem{Dim: 3, Init: rng.NewKey(3).Stream(rng.Init)})
	if err != nil {
		panic(err)
	}
	m, err := policy.Mix(base, 0.3)
	if err != nil {
		panic(err)
	}
	return sound{m}
}

func (s sound) ensemble() *policy.Ensemble { return s.Base().(*policy.Ensemble) }

func setsOfArms(t testing.TB) []bandit.ActionSet {
	var sets []bandit.ActionSet
	for s, k := range []int{5, 5, 2} {
		arms := make([][]float64, k)
		for i := range arms {
			arms[i] = make([]float64, 3)
			rng.NewKey(uint64(s)).Stream(rng.Instance).Round(uint64(i)).Ball(arms[i], 0)
		}
		set, err := actionset.NewFinite(arms)
		if err != nil {
			t.Fatal(err)
		}
		sets = append(sets, set)
	}
	return sets
}

// The broken policies.
type (
	learnsInSelect struct{ sound }
	countsSelects  struct {
		sound
		n *int
	}
	lendsSet struct{ sound }
	lendsOwn struct {
		sound
		own *[]float64
	}
	wrongIndex struct{ sound }
	staleCache struct {
		sound
		last *bandit.Action
		key  *[3]uint64
	}
	keepsAction struct {
		sound
		kept *[]float64
	}
	outside      struct{ sound }
	halfUpdate   struct{ sound }
	acceptsNaN   struct{ sound }
	otherError   struct{ sound }
	panics       struct{ sound }
	anyDimension struct{ sound }
	countOff     struct{ sound }
	shareOff     struct{ sound }
	sumOff       struct{ sound }
	noFloor      struct{ sound }
	slightly     struct{ sound }
	probLearns   struct{ sound }
	forgets      struct {
		sound
		n *int
	}
	truncates   struct{ sound }
	noChecksum  struct{ sound }
	halfRestore struct{ sound }
	overwrites  struct{ sound }
	allocates   struct {
		sound
		sink *[]float64
	}
	likesFirst  struct{ sound }
	lawByNumber struct{ sound }
)

func (p learnsInSelect) Select(dst *bandit.Action, set bandit.ActionSet, draw rng.Source) error {
	err := p.sound.Select(dst, set, draw)
	if err == nil {
		p.ensemble().Ridge().Theta()[0] += 1e-12
	}
	return err
}

func (p countsSelects) Select(dst *bandit.Action, set bandit.ActionSet, draw rng.Source) error {
	*p.n++
	return p.sound.Select(dst, set, draw.Sub(uint64(*p.n%2)))
}

func (p lendsSet) Select(dst *bandit.Action, set bandit.ActionSet, draw rng.Source) error {
	err := p.sound.Select(dst, set, draw)
	if err == nil {
		dst.X = set.(bandit.Finite).At(dst.Index)
	}
	return err
}

func (p lendsOwn) Select(dst *bandit.Action, set bandit.ActionSet, draw rng.Source) error {
	err := p.sound.Select(dst, set, draw)
	if err == nil {
		*p.own = append((*p.own)[:0], dst.X...)
		dst.X = *p.own
	}
	return err
}

func (p wrongIndex) Select(dst *bandit.Action, set bandit.ActionSet, draw rng.Source) error {
	err := p.sound.Select(dst, set, draw)
	dst.Index = (dst.Index + 1) % set.(bandit.Finite).Len()
	return err
}

// staleCache remembers its last answer under the number of arms instead of the set.
func (p staleCache) Select(dst *bandit.Action, set bandit.ActionSet, draw rng.Source) error {
	key := [3]uint64{uint64(set.(bandit.Finite).Len()), draw.Uint64(0), p.ensemble().Ridge().Len()}
	if *p.key == key {
		dst.Set(p.last.X, p.last.Index)
		return nil
	}
	err := p.sound.Select(dst, set, draw)
	if err == nil {
		*p.key = key
		p.last.Set(dst.X, dst.Index)
	}
	return err
}

func (p keepsAction) Update(a bandit.Action, y float64, draw rng.Source) error {
	if len(*p.kept) > 0 && (*p.kept)[0] < -2 {
		y++ // what it kept has changed
	}
	err := p.sound.Update(a, y, draw)
	if err == nil {
		*p.kept = a.X
	}
	return err
}

func (p outside) Select(dst *bandit.Action, set bandit.ActionSet, draw rng.Source) error {
	err := p.sound.Select(dst, set, draw)
	if err == nil {
		dst.X[0] *= 1.0001
	}
	return err
}

func (p halfUpdate) Update(a bandit.Action, y float64, draw rng.Source) error {
	if len(a.X) == 3 && a.X[0]-a.X[0] == 0 {
		p.ensemble().Ridge().Theta()[0] += 1e-9
	}
	return p.sound.Update(a, y, draw)
}

func (p acceptsNaN) Update(a bandit.Action, y float64, draw rng.Source) error {
	if math.IsNaN(y) {
		return nil
	}
	return p.sound.Update(a, y, draw)
}

func (p otherError) Update(a bandit.Action, y float64, draw rng.Source) error {
	if p.sound.Update(a, y, draw) != nil {
		return errors.New("no")
	}
	return nil
}

func (p panics) Update(a bandit.Action, y float64, draw rng.Source) error {
	_ = a.X[2]
	return p.sound.Update(a, y, draw)
}

func (p anyDimension) Select(dst *bandit.Action, set bandit.ActionSet, draw rng.Source) error {
	if set.Dim() != 3 {
		return nil
	}
	return p.sound.Select(dst, set, draw)
}

func (p countOff) Prob(dst *bandit.Law, set bandit.ActionSet, draw rng.Source) error {
	err := p.ensemble().Prob(dst, set, draw)
	dst.Atoms[0].Count++
	return err
}

func (p shareOff) Prob(dst *bandit.Law, set bandit.ActionSet, draw rng.Source) error {
	err := p.ensemble().Prob(dst, set, draw)
	dst.Atoms[0].P += 1e-9
	return err
}

func (p sumOff) Prob(dst *bandit.Law, set bandit.ActionSet, draw rng.Source) error {
	err := p.sound.Prob(dst, set, draw)
	dst.Atoms[0].P += 1e-9
	return err
}

// noFloor states the law of the base: arms that only the floor plays have probability 0.
func (p noFloor) Prob(dst *bandit.Law, set bandit.ActionSet, draw rng.Source) error {
	return p.ensemble().Prob(dst, set, draw)
}

// slightly states the law of a floor of 0.34 instead of 0.3.
func (p slightly) Prob(dst *bandit.Law, set bandit.ActionSet, draw rng.Source) error {
	m, err := policy.Mix(p.ensemble(), 0.34)
	if err != nil {
		return err
	}
	return m.Prob(dst, set, draw)
}

func (p probLearns) Prob(dst *bandit.Law, set bandit.ActionSet, draw rng.Source) error {
	err := p.sound.Prob(dst, set, draw)
	p.ensemble().Ridge().Theta()[1] += 1e-12
	return err
}

// forgets has a field that its snapshot has not.
func (p forgets) Select(dst *bandit.Action, set bandit.ActionSet, draw rng.Source) error {
	return p.sound.Select(dst, set, draw.Sub(uint64(*p.n)))
}

func (p forgets) Update(a bandit.Action, y float64, draw rng.Source) error {
	err := p.sound.Update(a, y, draw)
	if err == nil {
		*p.n++
	}
	return err
}

func (p truncates) AppendSnapshot(b []byte) ([]byte, error) { return p.sound.AppendSnapshot(b[:0]) }

// noChecksum takes damage for success.
func (p noChecksum) Restore(b []byte) error {
	if err := p.sound.Restore(b); err == nil || !strings.Contains(err.Error(), "checksum") {
		return err
	}
	return nil
}

func (p halfRestore) Restore(b []byte) error {
	err := p.sound.Restore(b)
	if err != nil {
		p.ensemble().Ridge().Theta()[2] = 0
	}
	return err
}

func (p overwrites) Restore(b []byte) error {
	_ = b[300] // trusts the length
	return p.sound.Restore(b)
}

func (p allocates) Update(a bandit.Action, y float64, draw rng.Source) error {
	*p.sink = slices.Clone(a.X)
	return p.sound.Update(a, y, draw)
}

// likesFirst prefers arm 0 for its number.
func (p likesFirst) Select(dst *bandit.Action, set bandit.ActionSet, draw rng.Source) error {
	if f := set.(bandit.Finite); set.Dim() == 3 && p.ensemble().Ridge().Theta()[0]*f.At(0)[0] > 0 {
		dst.Set(f.At(0), 0)
		return nil
	}
	return p.ensemble().Select(dst, set, draw)
}

func (p lawByNumber) Prob(dst *bandit.Law, set bandit.ActionSet, draw rng.Source) error {
	err := p.sound.Prob(dst, set, draw)
	if err == nil && dst.Atoms[0].P > 1e-3 && dst.Atoms[1].P > 1e-3 {
		dst.Atoms[0].P -= 1e-4 // too little for 10⁵ draws
		dst.Atoms[1].P += 1e-4
	}
	return err
}

// onBall is LinUCB without its refusals.
type onBall struct{ *policy.LinUCB }

func (p onBall) Select(dst *bandit.Action, set bandit.ActionSet, draw rng.Source) error {
	err := p.LinUCB.Select(dst, set, draw)
	if errors.Is(err, bandit.ErrUnsupported) {
		dst.Set(make([]float64, 3), bandit.NoIndex)
		return nil
	}
	return err
}

// TestPolicySuiteSeesFaults plants one fault after the other and expects the promise that it
// breaks among the reports; a sound policy must not be reported at all.
func TestPolicySuiteSeesFaults(t *testing.T) {
	exempt := map[bandittest.PolicyCheck]string{bandittest.PermutedAction: "the floor draws a number"}
	var sink []float64
	for _, c := range []struct {
		name  string
		mk    func() bandit.Policy
		wants bandittest.PolicyCheck // "" for a sound policy
	}{
		{"sound", func() bandit.Policy { return newSound() }, ""},
		{"Select learns", func() bandit.Policy { return learnsInSelect{newSound()} }, bandittest.PureSelect},
		{"Select counts its calls", func() bandit.Policy { return countsSelects{newSound(), new(int)} }, bandittest.PureSelect},
		{"Select lends the set's memory", func() bandit.Policy { return lendsSet{newSound()} }, bandittest.PureSelect},
		{"Select lends the policy's memory", func() bandit.Policy { return lendsOwn{newSound(), new([]float64)} }, bandittest.PureSelect},
		{"Select gives a wrong index", func() bandit.Policy { return wrongIndex{newSound()} }, bandittest.PureSelect},
		{"Select leaves the set", func() bandit.Policy { return outside{newSound()} }, bandittest.PureSelect},
		{"a cache under the wrong key", func() bandit.Policy { return staleCache{newSound(), new(bandit.Action), new([3]uint64)} }, bandittest.PureSelect},
		{"Update keeps the action", func() bandit.Policy { return keepsAction{newSound(), new([]float64)} }, bandittest.PureSelect},
		{"Prob learns", func() bandit.Policy { return probLearns{newSound()} }, bandittest.PureSelect},
		{"a failed Update half applies", func() bandit.Policy { return halfUpdate{newSound()} }, bandittest.FailedCall},
		{"Update accepts NaN", func() bandit.Policy { return acceptsNaN{newSound()} }, bandittest.FailedCall},
		{"Update's error is another", func() bandit.Policy { return otherError{newSound()} }, bandittest.FailedCall},
		{"Update panics", func() bandit.Policy { return panics{newSound()} }, bandittest.FailedCall},
		{"Select accepts any dimension", func() bandit.Policy { return anyDimension{newSound()} }, bandittest.FailedCall},
		{"a count off by one", func() bandit.Policy { return countOff{newSound()} }, bandittest.Law},
		{"a probability that is not its count", func() bandit.Policy { return shareOff{newSound()} }, bandittest.Law},
		{"probabilities that do not add up", func() bandit.Policy { return sumOff{newSound()} }, bandittest.Law},
		{"a played arm with probability 0", func() bandit.Policy { return noFloor{newSound()} }, bandittest.Law},
		{"a law slightly off", func() bandit.Policy { return slightly{newSound()} }, bandittest.Law},
		{"a snapshot without a field", func() bandit.Policy { return forgets{newSound(), new(int)} }, bandittest.Snapshots},
		{"AppendSnapshot does not append", func() bandit.Policy { return truncates{newSound()} }, bandittest.Snapshots},
		{"Restore accepts damage", func() bandit.Policy { return noChecksum{newSound()} }, bandittest.Snapshots},
		{"a failed Restore half applies", func() bandit.Policy { return halfRestore{newSound()} }, bandittest.Snapshots},
		{"Restore trusts a length", func() bandit.Policy { return overwrites{newSound()} }, bandittest.Snapshots},
		{"Update allocates", func() bandit.Policy { return allocates{newSound(), &sink} }, bandittest.Allocations},
		{"arm 0 is liked", func() bandit.Policy { return likesFirst{newSound()} }, bandittest.PermutedAction},
		{"the law looks at numbers", func() bandit.Policy { return lawByNumber{newSound()} }, bandittest.PermutedLaw},
	} {
		if c.wants == bandittest.Allocations && bandittest.RaceDetector {
			continue
		}
		t.Run(c.name, func(t *testing.T) {
			var l listener
			cfg := bandittest.PolicyConfig{Sets: setsOfArms(t), Exempt: exempt}
			if c.wants == bandittest.PermutedAction {
				cfg.Exempt = nil
			}
			if c.wants != "" && c.wants != bandittest.Law { // the law is that of the sound policy
				cfg.Draws = 2000
			}
			bandittest.TestPolicy(&l, c.mk, cfg)
			judge(t, l, c.wants)
		})
	}

	t.Run("what should be refused is played", func(t *testing.T) {
		var l listener
		oracle, err := actionset.NewMSets(3, 2)
		if err != nil {
			t.Fatal(err)
		}
		msets, err := actionset.NewCombinatorial(oracle, 0.5)
		if err != nil {
			t.Fatal(err)
		}
		mk := func() bandit.Policy {
			u, err := policy.NewLinUCB(policy.LinUCBOptions{}, policy.Problem{Dim: 3})
			if err != nil {
				t.Fatal(err)
			}
			return onBall{u}
		}
		bandittest.TestPolicy(&l, mk, bandittest.PolicyConfig{Sets: setsOfArms(t), Refused: []bandit.ActionSet{msets}})
		judge(t, l, bandittest.Refusal)
	})
	t.Run("no sets", func(t *testing.T) {
		var l listener
		bandittest.TestPolicy(&l, func() bandit.Policy { return newSound() }, bandittest.PolicyConfig{})
		judge(t, l, "bandittest")
	})
	t.Run("an unknown promise is exempt", func(t *testing.T) {
		var l listener
		bandittest.TestPolicy(&l, func() bandit.Policy { return newSound() }, bandittest.PolicyConfig{
			Sets: setsOfArms(t), Exempt: map[bandittest.PolicyCheck]string{"lav": "", bandittest.PermutedAction: ""},
		})
		judge(t, l, "bandittest")
	})
}

func judge(t *testing.T, l listener, wants bandittest.PolicyCheck) {
	t.Helper()
	if wants == "" {
		if len(l.heard) > 0 {
			t.Errorf("a sound policy was reported: %q", l.heard)
		}
		return
	}
	if !slices.ContainsFunc(l.heard, func(s string) bool { return strings.HasPrefix(s, string(wants)+": ") }) {
		t.Errorf("%q was not reported broken; heard %q", wants, l.heard)
		return
	}
	t.Logf("%q", l.heard)
}
