package worlds

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"troupe/rng"
)

// Client says how rewards arrive. Times count decisions: a reward with delay 0 arrives before the next decision.
type Client struct {
	Name  string // as ClientOf reads it
	doc   string
	when  func(t int, y float64, r rng.Source) (delay int, how Arrival)
	zeros int // the first rewards that are sent are 0

	scale, shift float64 // a reward y is sent as scale·y + shift
	equal        bool    // every reward is sent as shift
	wild         []wild
}

// Arrival is how a reward arrives.
type Arrival uint8

const (
	Sent    Arrival = iota // the client sends it
	Assumed                // the client sends nothing: its window closes, and the decision counts as this reward
	Lost                   // the client sends nothing: its window closes, and the decision does not count
)

// wild is a value that is sent in place of reward number n, from 1.
type wild struct {
	n int
	y float64
}

const (
	lateBy = 200
	window = 400 // in which a success may come
	block  = 200 // zeros that are sent together
	bunch  = 30  // decisions whose rewards are sent together
)

// success is what a client sends on its own; the others are nothing that happened.
func success(y float64) bool { return y != 0 }

// when is at which delay each kind of client sends the reward of decision t.
var clients = []struct {
	name, doc string
	when      func(t int, y float64, r rng.Source) (delay int, how Arrival)
}{
	{"now", "before the next decision", func(int, float64, rng.Source) (int, Arrival) { return 0, Sent }},
	{"late", "all 200 decisions late", func(int, float64, rng.Source) (int, Arrival) { return lateBy, Sent }},
	{"ones", "rewards other than 0 about 150 late, zeros when a window of 400 closes",
		func(_ int, y float64, r rng.Source) (int, Arrival) {
			if !success(y) {
				return window, Assumed
			}
			const scale = 250 // exponential, cut at the window: its mean is 149
			u := r.Float64(0) * (1 - math.Exp(-window/float64(scale)))
			return int(-scale * math.Log1p(-u)), Sent
		}},
	{"bursts", "rewards other than 0 at once, zeros in blocks of 200 decisions",
		func(t int, y float64, _ rng.Source) (int, Arrival) {
			if success(y) {
				return 0, Sent
			}
			return block - 1 - t%block, Sent
		}},
	{"random", "1 to 600 late", func(_ int, _ float64, r rng.Source) (int, Arrival) { return 1 + r.Intn(0, 600), Sent }},
	{"zeros-first", "at once; the first 100 are 0", func(int, float64, rng.Source) (int, Arrival) { return 0, Sent }},
	{"some", "at once; of each fifth decision none comes, and its window closes after 400",
		func(_ int, _ float64, r rng.Source) (int, Arrival) {
			if r.Intn(0, 5) == 0 {
				return window, Lost
			}
			return 0, Sent
		}},
	{"batch", "together at the end of each 30 decisions",
		func(t int, _ float64, _ rng.Source) (int, Arrival) { return bunch - 1 - t%bunch, Sent }},
	{"wild", "before the next decision; the 200th is 10⁶", func(int, float64, rng.Source) (int, Arrival) { return 0, Sent }},
}

// ClientOf reads a client: a name and changes of the values that it sends, with slashes between them. For instance
// late/wild=1e6@200 sends 1e6 in place of the 200th reward; ones/scale=1000/shift=5 sends 1000·y + 5; now/equal=.5
// sends .5 always.
func ClientOf(text string) (Client, error) {
	parts := strings.Split(text, "/")
	c := Client{Name: text, scale: 1}
	var known []string
	for _, k := range clients {
		if known = append(known, k.name); k.name == parts[0] {
			c.when, c.doc = k.when, k.doc
		}
	}
	if c.when == nil {
		return c, fmt.Errorf("client: is %q, expected one of %s", parts[0], strings.Join(known, ", "))
	}
	if parts[0] == "zeros-first" {
		c.zeros = 100
	}
	if parts[0] == "wild" {
		c.wild = []wild{{200, 1e6}}
	}
	for _, p := range parts[1:] {
		name, value, _ := strings.Cut(p, "=")
		value, at, given := strings.Cut(value, "@")
		x, err := strconv.ParseFloat(value, 64)
		n := 1
		if given && err == nil {
			n, err = strconv.Atoi(at)
		}
		if err != nil || math.IsNaN(x) || math.IsInf(x, 0) || n < 1 || given && name != "wild" {
			return c, fmt.Errorf("client: has %q, expected wild=VALUE@NUMBER, scale=FACTOR, shift=VALUE or equal=VALUE", p)
		}
		switch name {
		case "wild":
			c.wild = append(c.wild, wild{n, x})
		case "scale":
			c.scale = x
		case "shift":
			c.shift = x
		case "equal":
			c.equal, c.shift = true, x
		default:
			return c, fmt.Errorf("client: has %q, expected wild, scale, shift or equal", name)
		}
	}
	return c, nil
}

// Clients returns the name of every client and what it does.
func Clients() [][2]string {
	var out [][2]string
	for _, c := range clients {
		out = append(out, [2]string{c.name, c.doc})
	}
	return out
}

// Sender keeps the rewards of one run until their client sends them.
type Sender struct {
	client Client
	random rng.Stream
	due    map[int][]reward
	sent   int
	odd    int // wild values that were sent
}

type reward struct {
	decision int
	y        float64
	how      Arrival
}

// Start returns a sender; delays that are random are those of the seed, whatever is played.
func (c Client) Start(seed uint64) *Sender {
	return &Sender{client: c, due: map[int][]reward{},
		random: rng.NewKey(seed).Child("client").Child(strings.Split(c.Name, "/")[0]).Stream(rng.Reward)}
}

// Played notes that decision t was played and pays y.
func (s *Sender) Played(t int, y float64) {
	delay, how := s.client.when(t, y, s.random.Round(uint64(t)))
	s.due[t+delay] = append(s.due[t+delay], reward{t, y, how})
}

// Due calls send for what arrives between decision t and the next one, in the order of arrival, until it returns an
// error. Call it for each t in order.
func (s *Sender) Due(t int, send func(decision int, y float64, how Arrival) error) error {
	due := s.due[t]
	delete(s.due, t)
	for _, r := range due {
		y := 0.
		if r.how != Lost {
			s.sent++
			was := s.odd
			if y = s.value(r.y); s.odd > was {
				r.how = Sent
			}
		}
		if err := send(r.decision, y, r.how); err != nil {
			return err
		}
	}
	return nil
}

// Doc says when rewards arrive.
func (c Client) Doc() string { return c.doc }

// Waits reports whether rewards of the client are left to a window that closes.
func (c Client) Waits() bool {
	return slices.Contains([]string{"ones", "some"}, strings.Split(c.Name, "/")[0])
}

// value is what is sent for a reward.
func (s *Sender) value(y float64) float64 {
	c := &s.client
	for _, w := range c.wild {
		if w.n == s.sent {
			s.odd++
			return w.y
		}
	}
	if c.equal {
		return c.shift
	}
	if s.sent <= c.zeros {
		y = 0
	}
	return c.scale*y + c.shift
}
