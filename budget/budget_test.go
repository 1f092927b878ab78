package budget

import (
	"errors"
	"fmt"
	"math"
	"testing"
	"time"
)

// A price keeps what is spent within the budget: two actions cost 1 and 9 and earn .5 and .9, the budget is 3.
func Example() {
	limit := Limit{Mean: 3}
	var p Pacer
	spent := 0.0
	for range 2000 {
		cost := 1.0
		if .9-p.Price(limit)*9 > .5-p.Price(limit)*1 && p.Left(limit, 0) >= 9 {
			cost = 9
		}
		p.Decide(limit, 0, cost, cost, false)
		p.Pay(cost, cost)
		spent += cost
	}
	fmt.Printf("mean cost %.2f\n", spent/2000)
	// Output: mean cost 3.00
}

// With stated costs that hold, what is spent never exceeds what was granted, whatever the policy does.
func TestHardStop(t *testing.T) {
	limit := Limit{Mean: 2}
	var p Pacer
	granted, spent := 0.0, 0.0
	for i := range 1000 {
		cost := []float64{0, 1, 5, 40}[i*7%4]
		if cost > p.Left(limit, 0) {
			cost = 0
		}
		p.Decide(limit, 0, 40, cost, true)
		p.Pay(cost, cost)
		if granted, spent = granted+2, spent+cost; spent > granted {
			t.Fatalf("after %d decisions %v was spent of %v", i+1, spent, granted)
		}
	}
	if spent < 1900 {
		t.Fatalf("%v was spent of %v: the stop holds back more than it must", spent, granted)
	}
}

// A reserve counts like money until the cost is known, and a step is bounded.
func TestReserve(t *testing.T) {
	limit := Limit{Mean: 1}
	var p Pacer
	for range 10 {
		p.Decide(limit, 0, 1, 0, false)
	}
	p.Decide(limit, 0, 1e9, 8, false)
	if left := p.Left(limit, 0); left != 4 {
		t.Fatalf("%v is left of 12 with 8 reserved", left)
	}
	before := p.Mu
	p.Decide(limit, 0, 1e9, 0, false)
	if r := p.Mu / before; math.Abs(r-math.Exp(.03)) > 1e-12 {
		t.Fatalf("a step multiplies by %v, want exp(.03)", r)
	}
	p.Pay(8, 2)
	if left := p.Left(limit, 0); left != 11 {
		t.Fatalf("%v is left of 13 with 2 spent", left)
	}
}

// Days are UTC, nothing carries over unless it is asked for, a clock that goes back opens no day, and traffic that
// changes within the day is followed.
func TestDay(t *testing.T) {
	at := func(day int, hour float64) int64 { return int64(day)*Day + int64(hour*float64(time.Hour)) }
	for _, carry := range []bool{false, true} {
		limit := Limit{Total: 100, Carry: carry}
		var p Pacer
		if left := p.Left(limit, at(20000, 1)); left != 100 {
			t.Fatalf("a day begins with %v of 100", left)
		}
		p.Decide(limit, at(20000, 1), 1, 30, false)
		p.Pay(30, 30)
		if left := p.Left(limit, at(19999, 1)); left != 70 {
			t.Fatalf("%v is left of 100 when the clock goes back", left)
		}
		want := 100.0
		if carry {
			want = 170
		}
		if left := p.Left(limit, at(20001, 0)); left != want {
			t.Fatalf("carry %v: the next day begins with %v, want %v", carry, left, want)
		}
		if carry {
			want = 370 // two days without a decision leave their money too
		}
		if left := p.Left(limit, at(20003, 0)); left != want {
			t.Fatalf("carry %v: three days later begin with %v, want %v", carry, left, want)
		}
	}
	// 2000 decisions a day with actions of cost 0 and 1, of reward 0 and 1: all of the 500 is spent, and not at once.
	limit := Limit{Total: 500}
	var p Pacer
	noon, all := 0.0, 0.0
	for i := range 4000 {
		now := at(20000, 0) + int64(i)*(Day/2000)
		cost := float64(i%97) / 96 // and worth 1−cost: the price says which
		play := 0.0
		if 1-cost-p.Price(limit)*cost > 0 && cost <= p.Left(limit, now) {
			play = cost
		}
		p.Decide(limit, now, play, play, false)
		p.Pay(play, play)
		if i >= 2000 {
			if all += play; i < 3000 {
				noon += play
			}
		}
	}
	if noon < 200 || noon > 300 || all < 470 || all > 500 {
		t.Fatalf("of 500 a day %v are spent by noon and %v in all", noon, all)
	}
}

// A state survives its numbers, and others are refused.
func TestNumbers(t *testing.T) {
	var p, q Pacer
	limit := Limit{Total: 10, Carry: true}
	for i := range 50 {
		p.Decide(limit, 1<<60+int64(i)*7e9, .3, .2, i%3 == 0)
		p.Pay(.2, .25)
	}
	if err := q.Set(p.Numbers()); err != nil || p != q {
		t.Fatalf("%v: %+v, want %+v", err, q, p)
	}
	v := p.Numbers()
	v[0] = math.NaN()
	if q.Set(v) == nil || p != q {
		t.Fatal("a state with NaN is taken")
	}
	p.Change(limit, Limit{Total: 20})
	if got := p.Price(Limit{Total: 20}); math.Abs(got/q.Price(limit)-1) > 1e-12 {
		t.Fatalf("the price is %v after the budget doubled, %v before", got, q.Price(limit))
	}
}

func TestCheck(t *testing.T) {
	for _, c := range []struct {
		limit Limit
		field string
	}{{Limit{}, ""}, {Limit{Mean: 1, Total: 1}, "total"}, {Limit{Mean: -1}, "mean"}, {Limit{Mean: math.NaN()}, "mean"},
		{Limit{Total: math.Inf(1)}, "total"}, {Limit{Mean: 1, Carry: true}, "carry"}, {Limit{Mean: 1e-300}, "mean"}} {
		var fault *Error
		if !errors.As(c.limit.Check(), &fault) || fault.Field != c.field {
			t.Errorf("%+v: %v, want an error of %q", c.limit, fault, c.field)
		}
	}
	for _, v := range []float64{-1, math.NaN(), math.Inf(1), 1e16} {
		if Cost(v) == nil {
			t.Errorf("a cost of %v is taken", v)
		}
	}
	if (Limit{Total: 3, Carry: true}).Check() != nil || Cost(0) != nil {
		t.Error("a budget is refused")
	}
}

// With carry a day may begin with less than nothing, and stays so until money comes.
func TestDebtIsCarried(t *testing.T) {
	limit := Limit{Total: 10, Carry: true}
	var p Pacer
	p.Decide(limit, 20000*Day, 1, 0, false)
	p.Pay(0, 35)
	for range 3 {
		if left := p.Left(limit, 20001*Day+5); left != -15 {
			t.Fatalf("%v is left of 20 for two days after 35 were spent", left)
		}
		p.Decide(limit, 20001*Day+5, 1, 0, true)
	}
	if left := p.Left(limit, 20003*Day); left != 5 {
		t.Fatalf("%v is left two days later", left)
	}
}

// After a cost that was larger than it was stated, actions of at most the budget are played and dearer ones are not: the excess
// does not grow, and nothing is within the stop that would make it grow. Of a day only what it has left is played.
func TestStopAfterExcess(t *testing.T) {
	limit := Limit{Mean: 2}
	var p Pacer
	p.Decide(limit, 0, 2, 2, false)
	p.Pay(2, 42)
	excess := p.Spent - p.Granted
	for i := range 100 {
		if most := p.Most(limit, 0); most != 2 {
			t.Fatalf("decision %d may cost %v with %v left, want 2", i, most, p.Left(limit, 0))
		}
		cost := []float64{2, .5, 2}[i%3]
		p.Decide(limit, 0, cost, cost, false)
		p.Pay(cost, cost)
		now := p.Spent - p.Granted
		if now > excess {
			t.Fatalf("decision %d: the excess grew from %v to %v", i, excess, now)
		}
		if excess = now; excess <= 0 {
			break
		}
	}
	if excess > 0 {
		t.Fatalf("%v more than was granted is spent", excess)
	}
	if most, left := p.Most(limit, 0), p.Left(limit, 0); most != left || left < 2 {
		t.Fatalf("a decision may cost %v with %v left", most, left)
	}
	p.Pay(0, 100) // more than the price can be left to take back
	if most, left := p.Most(limit, 0), p.Left(limit, 0); most != left || left > -80 {
		t.Fatalf("a decision may cost %v with %v left", most, left)
	}
	day := Limit{Total: 2}
	var q Pacer
	q.Decide(day, 20000*Day, 2, 2, false)
	q.Pay(2, 3)
	if most := q.Most(day, 20000*Day); most != -1 {
		t.Fatalf("a decision may cost %v after 3 of a day's 2 were spent", most)
	}
}
