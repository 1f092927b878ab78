package cli

import (
	"archive/zip"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestShare: a shared file passes, the same directory gives the same bytes, and whatever is changed in it is
// found and named.
func TestShare(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	do := func(code int, want string, args ...string) string {
		t.Helper()
		var out bytes.Buffer
		if got := command(t.Context(), args, &out, &out); got != code || !strings.Contains(out.String(), want) {
			t.Fatalf("%q: exit code %d, expected %d and %q in\n%s", args, got, code, want, &out)
		}
		return out.String()
	}
	do(0, "", "run", "tour", "-qq", "--replications", "3", "--horizon", "200", "--out", at("run"))
	do(0, "sha256 ", "share", at("run"), "--out", at("a.zip"))
	do(0, "to check troupe check ", "share", at("run"), "--out", at("b.zip"))
	a, err := os.ReadFile(at("a.zip"))
	if err != nil {
		t.Fatal(err)
	}
	if b, err := os.ReadFile(at("b.zip")); err != nil || !bytes.Equal(a, b) {
		t.Errorf("sharing again gives other bytes, error %v", err)
	}
	do(0, "18 cells of 18 again: the same numbers, bit for bit", "check", at("a.zip"), "--all")
	do(0, "4 cells of 18 again", "check", at("a.zip"), "--cells", "4", "--seed", "7")
	do(2, "a.zip exists", "share", at("run"), "--out", at("a.zip"))
	do(2, "is no result directory", "share", dir)
	do(2, "is no file of troupe share", "check", at("run/results.csv"))
	do(2, "expected at least 1", "check", at("a.zip"), "--cells", "0")

	z, err := zip.NewReader(bytes.NewReader(a), int64(len(a)))
	if err != nil {
		t.Fatal(err)
	}
	files := make(map[string]string)
	for _, f := range z.File {
		r, err := f.Open()
		if err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		files[f.Name] = string(b)
	}
	sum := func(s string) string {
		h := sha256.Sum256([]byte(s))
		return hex.EncodeToString(h[:])
	}
	// forge writes an archive with a file changed; with fix all hashes are made to fit.
	forge := func(name, from, to string, fix bool) string {
		t.Helper()
		changed := strings.Replace(files[name], from, to, 1)
		if changed == files[name] {
			t.Fatalf("%s has no %q", name, from)
		}
		all := make(map[string]string)
		for k, v := range files {
			all[k] = v
		}
		all[name] = changed
		if fix {
			if name == "results.csv" {
				all["manifest.json"] = strings.ReplaceAll(files["manifest.json"], sum(files[name]), sum(changed))
			}
			for k, v := range files {
				all["hashes.json"] = strings.ReplaceAll(all["hashes.json"], sum(v), sum(all[k]))
			}
		}
		var b bytes.Buffer
		w := zip.NewWriter(&b)
		for k, v := range all {
			f, err := w.Create(k)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := io.WriteString(f, v); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(at("forged.zip"), b.Bytes(), 0o666); err != nil {
			t.Fatal(err)
		}
		return at("forged.zip")
	}
	row := strings.Split(files["results.csv"], "\n")[40]
	other := row[:strings.LastIndexByte(row, ',')] + ",0.125"
	do(1, "results.csv was changed", "check", forge("results.csv", row, other, false))
	do(1, "report.html was changed", "check", forge("report.html", "ensemble", "ensemblf", false))
	do(1, "manifest.json was changed", "check", forge("manifest.json", `"seed": 1`, `"seed": 2`, false))
	do(1, "results.csv: SHA-256 is", "check", forge("manifest.json", sum(files["results.csv"]), sum(""), true))
	do(1, "1 cell of 18 played again are not the same", "check", forge("results.csv", row, other, true), "--all")
	if text := do(1, "differs  ", "check", at("forged.zip"), "--all"); !strings.Contains(text, "0.125") || strings.Count(text, "differs") != 1 {
		t.Errorf("the cell is not named:\n%s", text)
	}
	do(1, "the spec is not that of the manifest", "check", forge("manifest.json", `horizon = 200`, `horizon = 201`, true))
	do(1, "nothing was played again", "check", forge("manifest.json", `"engine": `, `"engine": 9`, true))
	do(1, "results: it was changed", "check", forge("report.html", "ensemble", "ensemblf", true))
	do(1, "or is of another build. Check it with 9.9.9", "check", "--all",
		forge("manifest.json", `"troupe": "`+version+`"`, `"troupe": "9.9.9"`, true))
	files["../evil"] = "x"
	do(2, `"../evil" is not a file of troupe share`, "check", forge("report.html", "ensemble", "ensemblf", false))
	delete(files, "../evil")
	if err := os.WriteFile(at("cut.zip"), a[:len(a)/2], 0o666); err != nil {
		t.Fatal(err)
	}
	do(2, "is no file of troupe share", "check", at("cut.zip"))
}

// TestShareCommands: check starts no program of a shared file without --allow-commands. The file's program writes where
// it was started.
func TestShareCommands(t *testing.T) {
	need(t, "python3")
	module, err := filepath.Abs("../clients/python")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(at(name), []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	write("first.py", `
import os
from troupe.policy import Policy
open(os.environ["TRACE"], "a").write("started\n")

class First(Policy):
    def select(self, arms, draw):
        return 0
    def update(self, index, x, reward, draw):
        pass

First.main()
`)
	write("mine.toml", `
horizon = 20
replications = 2
[[environment]]
kind = "linear"
d = 2
set = { kind = "random-sphere", arms = 3 }
[[policy]]
kind = "process"
command = ["python3", "`+at("first.py")+`"]
env = ["PYTHONDONTWRITEBYTECODE=1", "PYTHONPATH=`+module+`", "TRACE=`+at("trace")+`"]
[[policy]]
kind = "uniform"
`)
	do := func(code int, want string, args ...string) {
		t.Helper()
		var out bytes.Buffer
		if got := command(t.Context(), args, &out, &out); got != code || !strings.Contains(out.String(), want) {
			t.Fatalf("%q: exit code %d, expected %d and %q in\n%s", args, got, code, want, &out)
		}
	}
	do(0, "", "run", at("mine.toml"), "-qq", "--no-report", "--out", at("run"))
	do(0, "", "share", at("run"), "--out", at("a.zip"))
	if err := os.Remove(at("trace")); err != nil {
		t.Fatal("the run did not start the program: ", err)
	}
	do(0, "2 cells not played", "check", at("a.zip"), "--all")
	if _, err := os.Stat(at("trace")); err == nil {
		t.Error("check started a program of the file")
	}
	do(0, "command  python3 "+at("first.py"), "check", at("a.zip"), "--all", "--allow-commands")
	if _, err := os.Stat(at("trace")); err != nil {
		t.Error("--allow-commands did not start it")
	}
}
