package cells

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"troupe/timing"
)

// patience is how long a server may take to answer.
const patience = 10 * time.Second

// get asks a server of a cell and hands its answer to read.
func (c *cell) get(ctx context.Context, base, path string, read func(io.Reader) error) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, "GET", base+path, nil)
	if err != nil {
		return err
	}
	if c.key != "" {
		r.Header.Set("Authorization", "Bearer "+c.key)
	}
	a, err := c.http.Do(r)
	if e := (*url.Error)(nil); errors.As(err, &e) {
		err = e.Err
	}
	if err != nil {
		return err
	}
	defer a.Body.Close()
	if a.StatusCode == http.StatusUnauthorized || a.StatusCode == http.StatusForbidden {
		return fmt.Errorf("%s: set TROUPE_KEY to a key with the scope read", a.Status)
	}
	if a.StatusCode != http.StatusOK {
		return fmt.Errorf("GET %s: %s", path, a.Status)
	}
	return read(io.LimitReader(a.Body, 64<<20))
}

// look is what a server says of itself at a moment.
type look struct {
	at        time.Duration      // since the first question
	processor float64            // seconds
	decisions map[string]float64 // by model
	memory    float64
	log       float64
	models    float64
	version   string
}

// look reads the metrics of a server.
func (c *cell) look(ctx context.Context, base string, since func() time.Duration) (l look, err error) {
	err = c.get(ctx, base, "/metrics", func(r io.Reader) error {
		l.at = since()
		parser := expfmt.NewTextParser(model.UTF8Validation)
		all, err := parser.TextToMetricFamilies(r)
		if err != nil {
			return fmt.Errorf("GET /metrics: %w", err)
		}
		one := func(name string) float64 {
			if f := all[name]; f != nil && len(f.Metric) > 0 {
				return value(f.Metric[0])
			}
			return 0
		}
		l.processor, l.memory = one("process_cpu_seconds_total"), one("process_resident_memory_bytes")
		l.log, l.models = one("troupe_log_bytes"), one("troupe_models")
		l.decisions = map[string]float64{}
		for _, m := range all["troupe_model_decisions_total"].GetMetric() {
			l.decisions[label(m, "model")] = value(m)
		}
		for _, m := range all["troupe_info"].GetMetric() {
			l.version = label(m, "version")
		}
		if l.version == "" {
			return errors.New("GET /metrics: these are no metrics of troupe")
		}
		return nil
	})
	return l, err
}

// value is that of a counter or a gauge, whatever the text calls it.
func value(m *dto.Metric) float64 {
	return m.GetCounter().GetValue() + m.GetGauge().GetValue() + m.GetUntyped().GetValue()
}

func label(m *dto.Metric, name string) string {
	for _, l := range m.GetLabel() {
		if l.GetName() == name {
			return l.GetValue()
		}
	}
	return ""
}

// state is what the servers of a cell said in a span.
type state struct {
	Name      string             `json:"name"`
	Number    int                `json:"number"`
	Servers   int                `json:"servers"`
	Ready     int                `json:"ready"`
	Models    int                `json:"models"`
	Rate      float64            `json:"decisions_per_second"`
	Processor float64            `json:"busy_cores"` // of all servers together
	Memory    float64            `json:"memory_bytes"`
	Log       float64            `json:"log_bytes"` // of the largest
	Versions  []string           `json:"versions"`
	Rates     map[string]float64 `json:"models_decisions_per_second,omitempty"` // of models that decided
	Errors    []string           `json:"errors,omitempty"`
}

// ask looks at every server of every cell twice, with a span between.
func ask(ctx context.Context, all []cell, span time.Duration, clock timing.Clock) []state {
	states := make([]state, len(all))
	var wg sync.WaitGroup
	for i := range all {
		wg.Go(func() { states[i] = all[i].ask(ctx, span, clock) })
	}
	wg.Wait()
	return states
}

func (c *cell) ask(ctx context.Context, span time.Duration, clock timing.Clock) state {
	s := state{Name: c.Name, Number: c.Number, Servers: len(c.URLs), Rates: map[string]float64{}, Versions: []string{}}
	type seen struct {
		ready         bool
		before, after look
		err           error
	}
	each := make([]seen, len(c.URLs))
	began := clock.Mark()
	since := func() time.Duration { return clock.Since(began) }
	var wg sync.WaitGroup
	for i, base := range c.URLs {
		wg.Go(func() {
			x := &each[i]
			if x.before, x.err = c.look(ctx, base, since); x.err != nil {
				return
			}
			clock.Sleep(ctx, span)
			if x.after, x.err = c.look(ctx, base, since); x.err == nil {
				x.err = c.get(ctx, base, "/readyz", func(r io.Reader) error {
					var h struct{ Ready bool }
					err := json.NewDecoder(r).Decode(&h)
					x.ready = h.Ready
					return err
				})
			}
		})
	}
	wg.Wait()
	for i := range each {
		x := &each[i]
		if x.err != nil {
			s.Errors = append(s.Errors, fmt.Sprintf("%s: %v", c.URLs[i], x.err))
		}
		if x.ready {
			s.Ready++
		}
		if x.after.version == "" {
			continue
		}
		seconds := (x.after.at - x.before.at).Seconds()
		s.Processor += (x.after.processor - x.before.processor) / seconds
		s.Memory += x.after.memory
		s.Log, s.Models = max(s.Log, x.after.log), max(s.Models, int(x.after.models))
		if !slices.Contains(s.Versions, x.after.version) {
			s.Versions = append(s.Versions, x.after.version)
		}
		// Each node of a cluster counts the decisions of all: the one that is furthest says the rate.
		for name, n := range x.after.decisions {
			if r := (n - x.before.decisions[name]) / seconds; r > s.Rates[name] {
				s.Rates[name] = r
			}
		}
	}
	for _, r := range s.Rates {
		s.Rate += r
	}
	return s
}

// models returns the names of the models of a cell, from the first of its servers that answers.
func (c *cell) models(ctx context.Context) (names []string, err error) {
	for _, base := range c.URLs {
		if names, err = c.modelsAt(ctx, base); err == nil {
			return names, nil
		}
	}
	return nil, fmt.Errorf("cell %s: %w", c.Name, err)
}

func (c *cell) modelsAt(ctx context.Context, base string) (names []string, err error) {
	var page struct {
		Models []struct{ Name string }
		Next   string `json:"next_page_token"`
	}
	for {
		path := "/v1/models?page_size=1000&page_token=" + url.QueryEscape(page.Next)
		if page.Next == "" {
			path = "/v1/models?page_size=1000"
		}
		page.Models, page.Next = nil, ""
		if err := c.get(ctx, base, path, func(r io.Reader) error { return json.NewDecoder(r).Decode(&page) }); err != nil {
			return nil, err
		}
		for _, m := range page.Models {
			names = append(names, m.Name)
		}
		if page.Next == "" {
			return names, nil
		}
	}
}
