package logged

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestFiles: a directory of Parquet files in partitions and a pattern are one log, in the order of the names; an id that comes in two files
// is noticed, errors name the file, files of tools are passed over, and another format or another name of an action behind the first file is refused.
func TestFiles(t *testing.T) {
	dir := t.TempDir()
	table := filepath.Join(dir, "table")
	at := 0
	part := func(name string, n int) {
		t.Helper()
		file := filepath.Join(table, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		w, err := Create(file, WriteOptions{Format: "parquet"})
		if err != nil {
			t.Fatal(err)
		}
		for range n {
			e := Event{ID: fmt.Sprint("e", at), K: 2, Chosen: at % 2, Reward: float64(at), Propensity: .5, Law: []float64{.5, .5}, Position: NoPosition}
			at++
			if err := w.Write(&e); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
	}
	part("date=2026-11-01/part-0.parquet", 3)
	part("date=2026-11-01/part-1.parquet", 2)
	part("date=2026-11-02/part-0.parquet", 4)
	for _, name := range []string{"_SUCCESS", ".part.crc", "_log/00.json"} {
		file := filepath.Join(table, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte("{}"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{table, filepath.Join(table, "date=*", "*.parquet")} {
		all := mustRead(t, name, Options{})
		if len(all) != 9 {
			t.Fatalf("%s: %d events", name, len(all))
		}
		for i := range all {
			if all[i].Reward != float64(i) {
				t.Errorf("%s: event %d has reward %v", name, i, all[i].Reward)
			}
		}
	}
	// A stream of Parquet is copied first: it is read at several places at once.
	f, err := os.Open(filepath.Join(table, "date=2026-11-02", "part-0.parquet"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	r, err := NewReader("stream", f, Options{})
	if err != nil {
		t.Fatal(err)
	}
	var e Event
	n := 0
	for ; r.Read(&e) == nil; n++ {
	}
	if err := r.Close(); err != nil || n != 4 {
		t.Errorf("%d events of a stream, %v", n, err)
	}
	at = 0
	part("date=2026-11-03/part-0.parquet", 1)
	if _, _, err := readAll(table, Options{}); err == nil || !strings.Contains(err.Error(), filepath.Join("date=2026-11-03", "part-0.parquet")) || !strings.Contains(err.Error(), "id: e0") {
		t.Error(err)
	}
	text := func(name, text string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	text("a1.csv", "action,reward,propensity\nred,1,.5\nblue,0,.5\n")
	text("a2.csv", "action,reward,propensity\nblue,1,.5\n")
	all := mustRead(t, filepath.Join(dir, "a*.csv"), Options{})
	if len(all) != 3 || all[1].Chosen != 0 || all[2].Chosen != 0 || all[0].Chosen != 1 {
		t.Errorf("%+v", all)
	}
	text("a3.csv", "action,reward,propensity\ngreen,1,.5\n")
	if _, _, err := readAll(filepath.Join(dir, "a*.csv"), Options{}); err == nil || !strings.Contains(err.Error(), "a3.csv:2") || !strings.Contains(err.Error(), `"green"`) {
		t.Error(err)
	}
	text("b1.csv", "action,reward,propensity\n1,1,.5\n")
	text("b2.csv", `{"action":1,"reward":1,"propensity":0.5}`+"\n")
	if _, _, err := readAll(filepath.Join(dir, "b*.csv"), Options{Actions: 2}); err == nil || !strings.Contains(err.Error(), "b2.csv: JSON lines of events, expected a CSV table, as the files before") {
		t.Error(err)
	}
	if _, _, err := readAll(filepath.Join(dir, "c*.csv"), Options{}); err == nil || !strings.Contains(err.Error(), "no file") {
		t.Error(err)
	}
	// The directory of something else is none.
	if _, _, err := readAll(dir, Options{}); err == nil || !strings.Contains(err.Error(), "a directory") {
		t.Error(err)
	}
}
