package cli

import (
	"bytes"
	"crypto/rand"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"troupe/internal/await"
	"troupe/internal/scratch"
)

// slurmSpec is an experiment whose eight parts take a second or two each.
const slurmSpec = `seed = 3
horizon = 20_000
replications = 64
[[environment]]
kind = "linear"
d = 8
set = { kind = "random-sphere", arms = 20 }
[[policy]]
kind = "ts"
[[policy]]
kind = "linucb"
`

// needPrograms skips a test that needs programs of Debian's packages, and root; with TROUPE_SLURM=require it fails.
func needPrograms(t *testing.T, names ...string) {
	t.Helper()
	if os.Getenv("TROUPE_LONG") == "" {
		t.Skip("set TROUPE_LONG=1: starts a scheduler")
	}
	fault := ""
	for _, name := range names {
		if _, err := exec.LookPath(name); err != nil {
			fault = err.Error()
		}
	}
	if os.Getuid() != 0 {
		fault = "needs root"
	}
	if fault == "" {
		return
	}
	if os.Getenv("TROUPE_SLURM") == "require" {
		t.Fatal(fault)
	}
	t.Skip(fault)
}

// slurm is a Slurm of one node, as root, in a directory of its own.
type slurm struct {
	t   *testing.T
	dir string
}

// startSlurm starts munged, slurmctld and slurmd, and waits until the node takes jobs.
func startSlurm(t *testing.T) *slurm {
	t.Helper()
	dir, err := os.MkdirTemp("", "troupe-slurm-") // munge refuses a socket below a directory that others may write to
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	s := &slurm{t, dir}
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	host, _, _ = strings.Cut(host, ".")
	for _, d := range []string{"state", "spool", "munge", "x"} {
		if err := os.Mkdir(filepath.Join(dir, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	key := make([]byte, 1024)
	rand.Read(key)
	munge := func(name string) string { return filepath.Join(dir, "munge", name) }
	if err := os.WriteFile(munge("key"), key, 0o400); err != nil {
		t.Fatal(err)
	}
	ports, err := scratch.Ports(2)
	if err != nil {
		t.Fatal(err)
	}
	config := fmt.Sprintf(`ClusterName=t
SlurmctldHost=%[1]s(127.0.0.1)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket=%[2]s/munge/socket
CredType=cred/munge
SlurmctldPort=%[3]s
SlurmdPort=%[4]s
StateSaveLocation=%[2]s/state
SlurmdSpoolDir=%[2]s/spool
SlurmctldPidFile=%[2]s/slurmctld.pid
SlurmdPidFile=%[2]s/slurmd.pid
SlurmctldLogFile=%[2]s/slurmctld.log
SlurmdLogFile=%[2]s/slurmd.log
ProctrackType=proctrack/pgid
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SlurmdParameters=config_overrides
SchedulerParameters=sched_min_interval=0,sched_interval=1
KillWait=5
MpiDefault=none
ReturnToService=2
NodeName=%[1]s NodeAddr=127.0.0.1 CPUs=4 State=UNKNOWN
PartitionName=p Nodes=%[1]s Default=YES MaxTime=INFINITE State=UP
`, host, dir, ports[0], ports[1])
	if err := os.WriteFile(filepath.Join(dir, "slurm.conf"), []byte(config), 0o644); err != nil {
		t.Fatal(err)
	}
	s.daemon("munged", "--foreground", "--force", "--key-file", munge("key"), "--socket", munge("socket"), "--pid-file", munge("pid"),
		"--seed-file", munge("seed"), "--log-file", munge("log"))
	s.daemon("slurmctld", "-D", "-i", "-c", "-f", filepath.Join(dir, "slurm.conf"))
	s.daemon("slurmd", "-D", "-c", "-N", host, "-f", filepath.Join(dir, "slurm.conf"))
	s.until("a node takes jobs", func() bool {
		out, err := s.command("sinfo", "-h", "-o", "%T").Output()
		return err == nil && strings.Contains(string(out), "idle")
	})
	return s
}

// daemon starts a program that ends with the test.
func (s *slurm) daemon(args ...string) {
	s.t.Helper()
	c := s.command(args...)
	var log bytes.Buffer
	c.Stdout, c.Stderr = &log, &log
	if err := c.Start(); err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() {
		c.Process.Signal(syscall.SIGTERM)
		kill := time.AfterFunc(20*time.Second, func() { c.Process.Kill() })
		c.Wait()
		kill.Stop()
		if s.t.Failed() {
			s.t.Logf("%s: %s", args[0], &log)
		}
	})
}

// command is a command that finds this Slurm, in the directory of the experiment.
func (s *slurm) command(args ...string) *exec.Cmd {
	c := exec.Command(args[0], args[1:]...)
	c.Dir = filepath.Join(s.dir, "x")
	c.Env = append(os.Environ(), "SLURM_CONF="+filepath.Join(s.dir, "slurm.conf"))
	return c
}

// must runs a command and returns what it prints to its standard output.
func (s *slurm) must(args ...string) string {
	s.t.Helper()
	c := s.command(args...)
	var errs bytes.Buffer
	c.Stderr = &errs
	out, err := c.Output()
	if err != nil {
		s.t.Fatalf("%v: %v: %s%s", args, err, out, &errs)
	}
	return strings.TrimSpace(string(out))
}

func (s *slurm) until(what string, done func() bool) {
	s.t.Helper()
	if !await.Poll(done) {
		log, _ := os.ReadFile(filepath.Join(s.dir, "slurmctld.log"))
		s.t.Fatalf("after %v, and not: %s\n%s", await.Limit, what, log)
	}
}

// state is the state of a task of an array, "" after it.
func (s *slurm) state(job string, task int) string {
	out, _ := s.command("squeue", "-h", "-o", "%T", "-j", job+"_"+strconv.Itoa(task)).Output()
	return strings.TrimSpace(string(out))
}

// signal sends a signal to the program of a task of an array, and returns false when there is none.
func (s *slurm) signal(task int, what syscall.Signal) bool {
	s.t.Helper()
	dirs, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		s.t.Fatal(err)
	}
	for _, dir := range dirs {
		line, _ := os.ReadFile(filepath.Join(dir, "cmdline"))
		env, _ := os.ReadFile(filepath.Join(dir, "environ"))
		if !bytes.Contains(line, []byte("\x00--shard\x00auto/8\x00")) || !bytes.Contains(env, []byte("SLURM_CONF="+s.dir)) ||
			!bytes.Contains(env, fmt.Appendf(nil, "SLURM_ARRAY_TASK_ID=%d\x00", task)) {
			continue
		}
		pid, err := strconv.Atoi(filepath.Base(dir))
		if err == nil && syscall.Kill(pid, what) == nil {
			return true
		}
	}
	return false
}

// same fails unless two runs have the bytes of one.
func (s *slurm) same(dir string) {
	s.t.Helper()
	var text [2][]byte
	for i, d := range []string{"one", dir} {
		data, err := os.ReadFile(filepath.Join(s.dir, "x", d, "results.csv"))
		if err != nil {
			s.t.Fatal(err)
		}
		text[i] = data
	}
	if !bytes.Equal(text[0], text[1]) || len(text[0]) < 1000 {
		s.t.Errorf("%s has other results than one machine", dir)
	}
}

// TestSlurm: an array of a real Slurm, submitted with the script as it is. One task is put back into the queue while it
// runs, one is cancelled, the program of one is killed; what is missing is submitted again, and the merged results have the
// bytes of one machine.
func TestSlurm(t *testing.T) {
	t.Parallel()
	needPrograms(t, "munged", "slurmctld", "slurmd", "sbatch")
	s := startSlurm(t)
	if err := os.WriteFile(filepath.Join(s.dir, "x", "big.toml"), []byte(slurmSpec), 0o644); err != nil {
		t.Fatal(err)
	}
	s.must("troupe", "run", "big.toml", "--out", "one", "-qq", "--no-report")
	script := s.must("troupe", "shards", "big.toml", "-n", "8", "--for", "slurm", "-o", "big")
	if err := os.WriteFile(filepath.Join(s.dir, "x", "big.sh"), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	job := s.must("sbatch", "--parsable", "big.sh")
	// Three parts are stopped once they play, so that none has ended when its turn comes.
	plays := map[int]bool{1: true, 2: true, 3: true}
	s.until("three parts play", func() bool {
		for task := range plays {
			_, err := os.Stat(filepath.Join(s.dir, "x", "big", "shards", fmt.Sprintf("%d-of-8", task), "manifest.json"))
			if err == nil && s.signal(task, syscall.SIGSTOP) {
				delete(plays, task)
			}
		}
		return len(plays) == 0
	})
	running := func(task int) {
		s.until(fmt.Sprintf("part %d runs", task), func() bool { return s.state(job, task) == "RUNNING" })
	}
	running(1)
	s.must("scontrol", "requeue", job+"_1")
	running(2)
	s.must("scancel", job+"_2")
	running(3)
	if !s.signal(3, syscall.SIGKILL) {
		t.Fatal("part 3 has ended")
	}
	s.until("the array is over", func() bool {
		out, err := s.command("squeue", "-h", "-j", job).Output()
		return err != nil || len(bytes.TrimSpace(out)) == 0
	})
	missing := s.must("troupe", "merge", "big", "--missing")
	if missing != "2,3" && missing != "2-3" {
		t.Fatalf("missing are %q, expected 2 and 3: 1 was queued again", missing)
	}
	t.Logf("the array lacks %s", missing)
	s.must("sbatch", "--wait", "--array="+missing, "big.sh")
	s.must("troupe", "merge", "big", "--no-report", "-qq")
	s.same("big")
}

// TestParallel: the script for GNU parallel, first some parts, then all, gives the bytes of one machine.
func TestParallel(t *testing.T) {
	t.Parallel()
	needPrograms(t, "parallel")
	s := &slurm{t, t.TempDir()}
	if err := os.MkdirAll(filepath.Join(s.dir, "x"), 0o755); err != nil {
		t.Fatal(err)
	}
	text := strings.Replace(slurmSpec, "20_000", "400", 1)
	if err := os.WriteFile(filepath.Join(s.dir, "x", "big.toml"), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	s.must("troupe", "run", "big.toml", "--out", "one", "-qq", "--no-report")
	script := s.must("troupe", "shards", "big.toml", "-n", "8", "--for", "parallel", "-o", "big")
	if err := os.WriteFile(filepath.Join(s.dir, "x", "big.sh"), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	s.must("bash", "big.sh", "3", "7")
	if missing := s.must("troupe", "merge", "big", "--missing"); missing != "1-2,4-6,8" && missing != "1,2,4-6,8" {
		t.Fatalf("missing are %q, expected all but 3 and 7", missing)
	}
	s.must("bash", "big.sh")
	s.must("troupe", "merge", "big", "--no-report", "-qq")
	s.same("big")
}
