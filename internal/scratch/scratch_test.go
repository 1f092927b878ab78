package scratch

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

func TestMain(m *testing.M) {
	if n := os.Getenv("TROUPE_TEST_PORTS"); n != "" { // another process
		all, err := Ports(400)
		fmt.Println(strings.Join(all, " "), err)
		_, _ = os.Stdin.Read(make([]byte, 1)) // until the test ends
		return
	}
	Main(m)
}

// TestPorts: each port is given once, by four processes at the same time, and none on which something listens.
func TestPorts(t *testing.T) {
	ours, err := Ports(400)
	if err != nil {
		t.Fatal(err)
	}
	all := slices.Clone(ours)
	for range 3 {
		c := exec.Command(os.Args[0])
		c.Env = append(os.Environ(), "TROUPE_TEST_PORTS=1")
		in, err := c.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		out, err := c.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { in.Close(); _ = c.Wait() })
		for range 400 {
			var port string
			if _, err := fmt.Fscan(out, &port); err != nil {
				t.Fatal(err)
			}
			all = append(all, port)
		}
	}
	slices.Sort(all)
	if n := len(slices.Compact(slices.Clone(all))); n != 4*400 {
		t.Errorf("%d different ports of %d", n, len(all))
	}
	l, err := net.Listen("tcp", "127.0.0.1:"+ours[0])
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for range 10 { // round all of the own blocks
		again, err := Ports(400)
		if err != nil {
			t.Fatal(err)
		}
		if slices.Contains(again, ours[0]) {
			t.Errorf("port %s is given, and something listens there", ours[0])
		}
	}
}

// TestFree: a directory on a disk and one that is missing have no room in memory; where there is some, a test has its
// files there.
func TestFree(t *testing.T) {
	for _, dir := range []string{".", "missing"} {
		if n := free(dir); n != 0 {
			t.Errorf("%s has %d bytes of memory", dir, n)
		}
	}
	if strings.HasPrefix(os.TempDir(), shared) && free(t.TempDir()) == 0 {
		t.Error("the files of this test are not in memory")
	}
}
