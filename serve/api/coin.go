package api

import (
	"cmp"
	"context"
	"fmt"
	"html/template"
	"strings"

	"troupe/ope"
	"troupe/report/coin"
	"troupe/serve"
	"troupe/serve/joined"
)

// coinBlock is the length of a block of log entries. The comparison with a coin reads the block of the newest entry and
// the one before: between one and two blocks. It begins at the same entry at every node, at every look and after a
// restart until the next block is full, so that its intervals hold at all looks between.
const coinBlock = 8192

// coinLevel is the level of its intervals.
const coinLevel = .95

// coinView says whether choosing pays, on a stretch of the log. The intervals hold at every look while From stays.
type coinView struct {
	From    uint64          `json:"from" doc:"first log entry; it starts again when a block of 8192 is full"`
	To      uint64          `json:"to" doc:"last log entry"`
	Level   float64         `json:"level" doc:"of the intervals, each by itself"`
	Pending int             `json:"pending" doc:"decisions from the first without a final reward on"`
	Early   int             `json:"early" doc:"count before their windows are over"`
	Left    map[string]int  `json:"left_out,omitempty" doc:"decisions, by reason"`
	Coin    *ope.CoinResult `json:"coin,omitempty" doc:"absent where there is none"`
	Why     string          `json:"why,omitempty" doc:"why there is none"`
	Warning string          `json:"warning,omitempty" doc:"why the intervals may be too narrow, where they may"`
}

// coinCalls say whether choosing pays.
type coinCalls struct {
	svc interface {
		serve.ModelService
		serve.RecordService
	}
	exports chan struct{} // semaphore of those that read the whole log
}

func (a *coinCalls) get(ctx context.Context, in *modelIn) (*reply[coinView], error) {
	if err := allow(ctx, Read, in.Model); err != nil {
		return nil, err
	}
	m, err := a.svc.GetModel(ctx, in.Model)
	if err != nil {
		return nil, err
	}
	select {
	case a.exports <- struct{}{}:
		defer func() { <-a.exports }()
	default:
		return nil, problem("too_busy", "", fmt.Sprintf("%d other readings of the log are under way", maxExports))
	}
	v, err := a.compare(ctx, &m)
	if err != nil {
		return nil, err
	}
	return &reply[coinView]{*v}, nil
}

// compare compares the decisions of the newest blocks with a coin: the fold of troupe evaluate over the decisions whose
// rewards are final.
func (a *coinCalls) compare(ctx context.Context, m *serve.Model) (*coinView, error) {
	start, err := a.svc.Log(ctx, m.Name, 0, 1)
	if err != nil {
		return nil, err
	}
	from := blockFrom(start.From, m.Created.Seq, start.Applied, coinBlock)
	v := &coinView{From: from, To: max(start.Applied, from), Level: coinLevel}
	if from > start.Applied {
		v.Why = "there is no decision yet"
		return v, nil
	}
	page, err := a.svc.Decisions(ctx, m.Name, from, int(start.Applied-from+1))
	if err != nil {
		return nil, err
	}
	lo, hi := m.Range.Min, m.Range.Max
	switch {
	case !(lo < hi) || hi-lo > 1e300:
		v.Why = "rewards have no range"
	case m.Range.ChangedSeq >= from:
		v.Why = "the range of rewards was widened on the way; declare one, or look again later"
	}
	if v.Why != "" {
		return v, nil
	}
	x := &coinReader{view: v, j: joined.New(joined.Options{}), log: ope.NewCoinLog(lo, hi)}
	for d, err := range page.Decisions {
		if err := cmp.Or(err, ctx.Err()); err != nil {
			return nil, err
		}
		if err := x.add(d.Decided); err != nil {
			return nil, err
		}
	}
	x.end()
	return v, nil
}

// blockFrom returns where a comparison begins in a log from entry first to applied, for a model that was created at an
// entry: with the block before that of the newest entry.
func blockFrom(first, created, applied, entries uint64) uint64 {
	from := max(first, created, 1)
	if block := applied / entries; block > 0 {
		from = max(from, (block-1)*entries+1)
	}
	return from
}

// coinReader folds decisions in the order of the log.
type coinReader struct {
	view *coinView
	j    *joined.Joiner // it knows which decisions are events, and counts the others
	log  *ope.CoinLog
}

func (x *coinReader) add(d *joined.Decided) error {
	if d.State == joined.Pending {
		if d.AtEnd == "" {
			if d.Played() {
				x.view.Pending++
			}
			return nil
		}
		if d.State = d.AtEnd; d.Played() {
			x.view.Early++
		}
	}
	e, err := x.j.Event(d)
	if err != nil || e == nil {
		return err
	}
	x.log.Add(e)
	return nil
}

func (x *coinReader) end() {
	v := x.view
	if len(x.j.Skipped) > 0 {
		v.Left = x.j.Skipped
	}
	if err := x.j.Activation(); err != nil {
		v.Why = err.Error()
		return
	}
	if v.Coin, v.Warning = x.log.Result(coinLevel); v.Coin == nil {
		v.Why = cmp.Or(v.Warning, "no decision with a final reward says what its actions cost")
		v.Warning = ""
	}
}

// coinPage is the comparison on the page of a model.
type coinPage struct {
	Head, Sentence, Note string
	SVG                  template.HTML
	Rows                 []coinRow
}

type coinRow struct{ Name, Cost, Reward, Interval, Note string }

// pages returns what the page shows of whether choosing pays, nil for a model whose requests state no costs.
func (a *coinCalls) pages(ctx context.Context, m *serve.Model, h *modelHistory) []coinPage {
	if m.Budget == nil && !h.costs {
		return nil
	}
	v, err := a.compare(ctx, m)
	if err != nil {
		return []coinPage{{Head: "Does choosing pay?", Sentence: problemOf(err).Detail}}
	}
	if v.Coin == nil {
		return []coinPage{{Head: "Does choosing pay?", Sentence: "Nothing can be said: " + v.Why + "."}}
	}
	say := func(s string) string { return strings.ToUpper(s[:1]) + s[1:] + "." }
	note := fmt.Sprintf("%s decisions of log entries %s to %s; 95%% sure at every look. ", grouped(uint64(v.Coin.Events)),
		grouped(v.From), grouped(v.To))
	if v.Coin.Stopped > 0 {
		note += fmt.Sprintf("%s more under the hard stop of the budget are not among them. ", grouped(uint64(v.Coin.Stopped)))
	}
	if v.Pending > 0 {
		note += fmt.Sprintf("%s wait for a reward, or come after one that does. ", grouped(uint64(v.Pending)))
	}
	out := []coinPage{{Head: "Does choosing pay?", Sentence: say(v.Coin.Sentence), Note: note + v.Warning, SVG: coin.Picture(v.Coin),
		Rows: coinRows(v.Coin)}}
	if s := v.Coin.WithStop; s != nil {
		out = append(out, coinPage{Head: "With the decisions under the hard stop", Sentence: say(s.Sentence),
			Note: fmt.Sprintf("All %s decisions. Where the stop took an action away, the cheapest that was left stands in for it.",
				grouped(uint64(s.Events))), SVG: coin.Picture(s), Rows: coinRows(s)})
	}
	return out
}

func coinRows(c *ope.CoinResult) (out []coinRow) {
	if c.Events == 0 {
		return nil
	}
	for _, p := range append([]ope.CoinPoint{c.Policy}, c.Actions...) {
		if len(out) > maxActionRows {
			break
		}
		row := coinRow{Name: cmp.Or(p.Action, "the decisions"), Note: p.Missing(c.Events)}
		if row.Note == "" {
			row.Cost, row.Reward = short(p.Cost), "–"
			if p.Reward != nil {
				row.Reward = short(*p.Reward)
			}
			row.Interval = short(p.Lower) + " to " + short(p.Upper)
			if p.Share > 0 {
				row.Note = fmt.Sprintf("%.0f%% of the coin", 100*p.Share)
			}
		}
		out = append(out, row)
	}
	return out
}
