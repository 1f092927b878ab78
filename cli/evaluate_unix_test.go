//go:build unix

package cli

import (
	"bufio"
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/parquet-go/parquet-go"

	"troupe/serve"
)

// wideRow is a decision with ten actions and a context of ten numbers; candidateRow has ten numbers for each action instead.
type wideRow struct {
	Context    []float32 `parquet:"context,list"`
	Action     int32     `parquet:"action"`
	Reward     float64   `parquet:"reward"`
	Propensity float64   `parquet:"propensity"`
	Law        []float64 `parquet:"law,list"`
}

type candidateRow struct {
	Actions    []candidate `parquet:"actions,list"`
	Action     int32       `parquet:"action"`
	Reward     float64     `parquet:"reward"`
	Propensity float64     `parquet:"propensity"`
	Law        []float64   `parquet:"law,list"`
}

type candidate struct {
	X []float32 `parquet:"x,list"`
}

// softmaxed stores a law over ten actions, and returns the action that it draws.
func softmaxed(law []float64, r *rand.Rand) (chosen int) {
	sum := 0.0
	for k := range law {
		law[k] = math.Exp(r.Float64())
		sum += law[k]
	}
	u := r.Float64()
	for k := range law {
		law[k] /= sum
		if u -= law[k]; u < 0 {
			u, chosen = 2, k
		}
	}
	return chosen
}

func writeRows[T any](t *testing.T, file string, n int, fill func(row *T)) {
	t.Helper()
	f, err := os.Create(file)
	if err != nil {
		t.Fatal(err)
	}
	w := parquet.NewGenericWriter[T](f, parquet.Compression(&parquet.Zstd), parquet.MaxRowsPerRowGroup(100_000))
	rows := make([]T, 1000)
	for at := 0; at < n; at += len(rows) {
		for i := range rows {
			fill(&rows[i])
		}
		if _, err := w.Write(rows); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestEvaluateSizes measures processor time and memory of evaluate on large logs, for docs/record/evaluation.md. TROUPE_RECORD is the number of
// events of the first one; the others have fewer.
func TestEvaluateSizes(t *testing.T) {
	n, err := strconv.Atoi(os.Getenv("TROUPE_RECORD"))
	if err != nil || n < 10_000 {
		t.Skip("TROUPE_RECORD is not a number of events")
	}
	dir := t.TempDir()
	measure := func(what string, events int, args ...string) {
		var before, after syscall.Rusage
		if err := syscall.Getrusage(syscall.RUSAGE_CHILDREN, &before); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		var out, errs bytes.Buffer
		c := exec.Command("troupe", append([]string{"evaluate", "--json", "--workers", "2"}, args...)...)
		c.Stdout, c.Stderr = &out, &errs
		if err := c.Run(); err != nil {
			t.Fatalf("%s: %v\n%s", what, err, &errs)
		}
		if err := syscall.Getrusage(syscall.RUSAGE_CHILDREN, &after); err != nil {
			t.Fatal(err)
		}
		busy := time.Duration(after.Utime.Nano() + after.Stime.Nano() - before.Utime.Nano() - before.Stime.Nano())
		usage := c.ProcessState.SysUsage().(*syscall.Rusage)
		t.Logf("%-40s %9d events  processor %6.2f s (%.2f µs an event)  wall %6.2f s  memory %d MiB", what, events, busy.Seconds(), float64(busy.Microseconds())/float64(events),
			time.Since(began).Seconds(), usage.Maxrss/1024)
	}
	r := rand.New(rand.NewPCG(1, 1))
	wide := filepath.Join(dir, "wide.parquet")
	writeRows(t, wide, n, func(x *wideRow) {
		x.Context, x.Law = x.Context[:0], append(x.Law[:0], make([]float64, 10)...)
		for range 10 {
			x.Context = append(x.Context, float32(r.Float64()))
		}
		x.Action = int32(softmaxed(x.Law, r))
		x.Propensity, x.Reward = x.Law[x.Action], 0
		if r.Float64() < 0.2+0.3*float64(x.Context[x.Action]) {
			x.Reward = 1
		}
	})
	measure("Parquet, context of 10", n, wide, "--target", "uniform")
	if err := os.Remove(wide); err != nil {
		t.Fatal(err)
	}
	with := filepath.Join(dir, "candidates.parquet")
	writeRows(t, with, n, func(x *candidateRow) {
		x.Actions, x.Law = append(x.Actions[:0], make([]candidate, 10)...), append(x.Law[:0], make([]float64, 10)...)
		for k := range x.Actions {
			for range 10 {
				x.Actions[k].X = append(x.Actions[k].X, float32(r.Float64()))
			}
		}
		x.Action = int32(softmaxed(x.Law, r))
		x.Propensity, x.Reward = x.Law[x.Action], 0
		if r.Float64() < 0.2+0.3*float64(x.Actions[x.Action].X[0]) {
			x.Reward = 1
		}
	})
	measure("Parquet, 10 candidates of 10", n, with, "--target", "uniform")
	if err := os.Remove(with); err != nil {
		t.Fatal(err)
	}
	lines := filepath.Join(dir, "log.dsjson")
	f, err := os.Create(lines)
	if err != nil {
		t.Fatal(err)
	}
	w, law := bufio.NewWriterSize(f, 1<<20), make([]float64, 10)
	for i := range n / 50 {
		a := softmaxed(law, r)
		fmt.Fprintf(w, `{"_label_cost":%d,"_label_probability":%v,"_label_Action":%d,"_labelIndex":%d,"EventId":"e%d","Timestamp":"2026-05-04T10:00:00.0000000Z","a":[%d`, -(i % 2), law[a], a+1, a, i, a+1)
		p := fmt.Sprint(law[a])
		for k := range law {
			if k != a {
				fmt.Fprintf(w, ",%d", k+1)
				p += fmt.Sprintf(",%v", law[k])
			}
		}
		fmt.Fprintf(w, `],"c":{"User":{"likes":"s%d","hour":%d},"_multi":[`, i%7, i%24)
		for k := range law {
			if k > 0 {
				w.WriteByte(',')
			}
			fmt.Fprintf(w, `{"Item":{"name":"i%d","age":%v}}`, k, r.Float32())
		}
		fmt.Fprintf(w, `]},"p":[%s],"VWState":{"m":"news"}}`+"\n", p)
	}
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	info, err := f.Stat()
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	measure(fmt.Sprintf("dsjson of %.0f MB, no model", float64(info.Size())/1e6), n/50, lines, "--target", "uniform", "--estimators", "logged,ips,snips", "--q", "none")
	measure("the same, ridge", n/50, lines, "--target", "uniform")
	served := n / 100
	data := clickLog(t, served, func(c *serve.ModelConfig) { c.Dim, c.Reward.Adapt = 4, false })
	measure("a server's directory, 4 candidates of 4", served, data, "--target", "uniform")
}
