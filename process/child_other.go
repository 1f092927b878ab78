//go:build !linux

package process

import (
	"os/exec"
	"strings"
)

func launch(cmd *exec.Cmd, _ int64) error { return cmd.Start() }

const boundsMemory = false

func slay(cmd *exec.Cmd) {
	cmd.Process.Kill() //nolint:errcheck // it may have ended
}

func isPipe(err error) bool { return strings.Contains(err.Error(), "pipe") }
