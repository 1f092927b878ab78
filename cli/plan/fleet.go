package plan

import (
	"fmt"
	"io"
	"math"

	"github.com/spf13/cobra"

	"troupe/cli/term"
)

// fleetAsk are the flags of `troupe plan --fleet`, in the units of its formulas.
type fleetAsk struct {
	Rate      float64 `json:"rate"`       // decisions a second, each with a reward
	Nodes     int     `json:"nodes"`      // machines of a cell
	Cores     int     `json:"cores"`      // of a machine
	Use       float64 `json:"use"`        // share of the cores that the rate may take
	Pair      float64 `json:"pair_cost"`  // processor µs of a decision and its reward at one server
	Factor    float64 `json:"factor"`     // of it at each of several nodes
	PairBytes float64 `json:"pair_bytes"` // that it leaves in the log
	Models    int     `json:"models"`
	Window    float64 `json:"window"` // seconds in which rewards are waited for
	Days      float64 `json:"days"`   // that the log is kept
}

// What was measured: docs/record/cells.md.
const (
	fleetProgram = 60e6  // bytes of a server without models
	fleetModel   = 130e3 // bytes of a model that is awake
	fleetOpen    = 60.   // bytes of a decision whose reward is waited for
	fleetFactor  = 1.6   // processor time of a pair at each of three nodes, over that of one server
	fleetMost    = 30e3  // pairs a second of one cell that were measured, in batches
	fleetLimit   = 1 << 20
)

// fleet is the answer; its JSON is the contract of `troupe plan --fleet --json`.
type fleet struct {
	Ask       fleetAsk  `json:"asked"`
	Processor float64   `json:"processor"` // cores that are busy, of all machines
	Cells     int       `json:"cells"`
	Machines  int       `json:"machines"`
	CellRate  float64   `json:"cell_rate"`
	Memory    float64   `json:"memory_bytes"`             // of a machine
	Disk      float64   `json:"disk_bytes"`               // of a machine
	Network   float64   `json:"network_bytes_per_second"` // that a cell's leader sends to the others
	Regret    []float64 `json:"regret_factor,omitempty"`  // of one model over the cells, from and to
}

// flags declares what --fleet asks for.
func (a *fleetAsk) flags(c *cobra.Command) {
	f := c.Flags()
	f.Float64Var(&a.Rate, "rate", 1000, "with --fleet: decisions a second, each with a reward, at the busiest time")
	f.IntVar(&a.Nodes, "nodes", 1, "with --fleet: machines of a cell, 1, 3 or 5")
	f.IntVar(&a.Cores, "cores", 8, "with --fleet: cores of a machine")
	f.Float64Var(&a.Use, "use", 0.5, "with --fleet: share of the cores that this rate may take")
	f.Float64Var(&a.Pair, "pair-cost", 450, "with --fleet: processor time of a decision and its reward at one server, in µs; troupe "+
		"load prints yours")
	f.Float64Var(&a.PairBytes, "pair-bytes", 800, "with --fleet: bytes that they leave in the log")
	f.IntVar(&a.Models, "models", 100, "with --fleet: models in all; 1: one model, with a copy in each cell")
	f.Float64Var(&a.Window, "window", 600, "with --fleet: seconds in which rewards are waited for")
	f.Float64Var(&a.Days, "days", 30, "with --fleet: days that the log is kept")
}

// fleetFlags are those of --fleet alone.
var fleetFlags = []string{"rate", "nodes", "cores", "use", "pair-cost", "pair-bytes", "models", "window", "days"}

// planFleet computes the fleet. The error names a flag.
func planFleet(a fleetAsk) (fleet, error) {
	for _, x := range []struct {
		flag  string
		value float64
		ok    bool
		want  string
	}{
		{"rate", a.Rate, a.Rate > 0 && a.Rate <= 1e9, "a rate above 0 and of at most 1e9"},
		{"nodes", float64(a.Nodes), a.Nodes == 1 || a.Nodes == 3 || a.Nodes == 5, "1, 3 or 5"},
		{"cores", float64(a.Cores), a.Cores >= 1 && a.Cores <= 4096, "1 to 4096"},
		{"use", a.Use, a.Use > 0 && a.Use <= 1, "a share above 0, at most 1"},
		{"pair-cost", a.Pair, a.Pair > 0 && a.Pair <= 1e9, "microseconds above 0"},
		{"pair-bytes", a.PairBytes, a.PairBytes > 0 && a.PairBytes <= 1e9, "bytes above 0"},
		{"models", float64(a.Models), a.Models >= 1 && a.Models <= 1e9, "1 or more"},
		{"window", a.Window, a.Window > 0 && a.Window <= 1e9, "seconds above 0"},
		{"days", a.Days, a.Days > 0 && a.Days <= 36_500, "days above 0, at most 36500"},
	} {
		if !x.ok { // also NaN
			return fleet{}, fmt.Errorf("--%s %v: expected %s", x.flag, x.value, x.want)
		}
	}
	a.Factor = 1
	if a.Nodes > 1 {
		a.Factor = fleetFactor
	}
	p := fleet{Ask: a}
	p.Processor = a.Rate * a.Pair * a.Factor * float64(a.Nodes) / 1e6
	cells := math.Ceil(math.Max(a.Rate*a.Pair*a.Factor/1e6/(float64(a.Cores)*a.Use), a.Rate/fleetMost))
	if cells > fleetLimit {
		return fleet{}, fmt.Errorf("--rate %v at --pair-cost %v: expected at most %d cells, this takes %v", a.Rate, a.Pair, fleetLimit, cells)
	}
	p.Cells = int(cells)
	p.Machines = p.Cells * a.Nodes
	p.CellRate = a.Rate / cells
	models := math.Ceil(float64(a.Models) / cells)
	if a.Models == 1 && p.Cells > 1 {
		p.Regret = []float64{math.Sqrt(cells), cells}
	}
	p.Memory = fleetProgram + models*fleetModel + p.CellRate*a.Window*fleetOpen
	p.Disk = p.CellRate * a.PairBytes * 86_400 * a.Days
	p.Network = p.CellRate * a.PairBytes * float64(a.Nodes-1)
	return p, nil
}

// answerFleet is `troupe plan --fleet`.
func (q *question) answerFleet() error {
	if name := q.given("dimension", "horizon", "delta", "lambda", "method", "arms", "practical"); name != "" {
		return term.Misuse(fmt.Errorf("--%s is no part of the question of --fleet", name))
	}
	p, err := planFleet(q.fleet)
	if err != nil {
		return term.Misuse(err)
	}
	if q.json {
		return q.encode(p)
	}
	return writeFleet(q.out, p)
}

// writeFleet prints the answer and its formulas, in 76 columns.
func writeFleet(w io.Writer, p fleet) (err error) {
	line := func(format string, args ...any) {
		if err == nil {
			_, err = fmt.Fprintf(w, format+"\n", args...)
		}
	}
	row := func(name, value, formula string, args ...any) {
		line("  %-10s %11s  %s", name, value, fmt.Sprintf(formula, args...))
	}
	a := p.Ask
	machines := "one machine"
	if p.Machines > 1 {
		machines = planDigits(float64(p.Machines)) + " machines"
	}
	switch {
	case p.Cells == 1:
		machines += ", one cell"
	case a.Nodes == 1:
		machines += ", each a cell"
	default:
		machines += fmt.Sprintf(", %s cells of %d", planDigits(float64(p.Cells)), a.Nodes)
	}
	line("%s decisions a second, each with a reward: %s.", planNumber(a.Rate), machines)
	line("")
	cost := "pair cost"
	if a.Nodes > 1 {
		cost = fmt.Sprintf("pair cost × %v", a.Factor)
	}
	row("busy cores", planShort(p.Processor), "rate × %s × nodes; the pair cost is %v µs", cost, a.Pair)
	row("cells", planDigits(float64(p.Cells)), "rate × %s / (%d cores × %v),", cost, a.Cores, a.Use)
	row("", "", "or rate / %s if that is more", planDigits(fleetMost))
	row("machines", planDigits(float64(p.Machines)), "cells × nodes")
	row("each cell", planShort(p.CellRate)+"/s", "rate / cells")
	line("")
	line("Each machine has")
	models := "models / cells"
	if p.Regret != nil {
		models = "1 model"
	}
	row("memory", planBytes(p.Memory), "60 MB + %s × 130 kB + a cell's rate × %v s × 60 B", models, a.Window)
	row("log", planBytes(p.Disk), "a cell's rate × %v B × %v days", a.PairBytes, a.Days)
	if a.Nodes > 1 {
		row("network", planBytes(p.Network)+"/s", "a cell's rate × %v B × (nodes − 1): what leaders send", a.PairBytes)
	}
	if p.Regret != nil {
		line("")
		line("Each of the %d copies of the one model learns from its share of the", p.Cells)
		line("decisions. Together they lose %s to %s times what one copy would:", planShort(p.Regret[0]), planShort(p.Regret[1]))
		line("√cells where regret grows as √T, cells where one copy has learned all there")
		line("is (troupe run beyond/cells).")
	}
	line("")
	line("The pair cost of your requests is what troupe load prints. The other constants")
	line("are of models of the default kind. No cell was tried with more than %s", planDigits(fleetMost))
	line("decisions a second. docs/record/cells.md")
	return err
}

// planNumber prints a rate, with its fraction where it is small.
func planNumber(x float64) string {
	if x < 100 {
		return planShort(x)
	}
	return planDigits(x)
}
