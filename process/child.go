package process

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"
)

// child is one running program. One goroutine uses it at a time.
type child struct {
	cmd     *exec.Cmd
	in      *bufio.Writer
	pipe    *os.File // under in
	out     *bufio.Reader
	from    *os.File // under out
	errs    *tail
	hello   hello
	timeout time.Duration
	cells   uint32 // numbers of cells so far
	buf     []byte // of frames
	dead    error  // why it is of no use any more
}

// start starts the program and exchanges greetings.
func start(o *Options) (*child, error) {
	cmd := exec.Command(o.Command[0], o.Command[1:]...)
	if path, ok := o.local(o.Command[0]); ok {
		cmd.Path, cmd.Err = path, nil
	}
	cmd.Dir = o.dir
	cmd.Env = o.environ()
	c := &child{cmd: cmd, errs: new(tail), timeout: o.timeout}
	cmd.Stderr = c.errs
	toChild, pipe, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	from, fromChild, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(err, toChild.Close(), pipe.Close())
	}
	cmd.Stdin, cmd.Stdout = toChild, fromChild
	cmd.WaitDelay = time.Second // for what its children keep open
	err = launch(cmd, o.bytes)
	toChild.Close()
	fromChild.Close()
	if err != nil {
		pipe.Close()
		from.Close()
		return nil, fmt.Errorf("command %q does not start: %w", strings.Join(o.Command, " "), err)
	}
	c.pipe, c.from = pipe, from
	c.in, c.out = bufio.NewWriterSize(pipe, 64<<10), bufio.NewReaderSize(from, 64<<10)
	if err := c.greet(cmp.Or(o.role, rolePolicy), !o.Lines); err != nil {
		return nil, c.kill("the greeting", err)
	}
	return c, nil
}

func (c *child) greet(role string, packed bool) error {
	b, err := json.Marshal(hello{Type: "hello", Protocol: Protocol, Role: role, Packed: packed})
	if err != nil {
		return err
	}
	c.in.Write(append(b, '\n'))
	if err := c.flush(); err != nil {
		return err
	}
	line, err := readLine(c.out)
	if err != nil {
		if errors.Is(err, io.EOF) && len(line) > 0 {
			return stray(line)
		}
		return err
	}
	if len(line) == 0 || line[0] != '{' {
		return stray(line)
	}
	if err := strict(line, &c.hello); err != nil {
		return fmt.Errorf("its first message: %w", err)
	}
	h := &c.hello
	switch {
	case h.Type != "hello":
		return fmt.Errorf(`its first message has type %q, expected "hello"`, h.Type)
	case h.Protocol != Protocol:
		return fmt.Errorf("it speaks protocol %d, expected %d", h.Protocol, Protocol)
	case h.Role != "" && h.Role != role, h.Role == "" && role != rolePolicy:
		return fmt.Errorf("it is a %s, expected a program that answers role %q", cmp.Or(h.Role, rolePolicy), role)
	case h.Packed && !packed:
		return errors.New("it answers packed = true, which was not offered")
	}
	return nil
}

// flush sends what was written, and gives the program its time for the answer.
func (c *child) flush() error {
	deadline := time.Time{}
	if c.timeout > 0 {
		deadline = time.Now().Add(c.timeout)
	}
	c.pipe.SetWriteDeadline(deadline)
	c.from.SetReadDeadline(deadline)
	return c.in.Flush()
}

// frame writes the head of a frame whose body has n bytes.
func (c *child) frame(kind byte, n int) {
	head := [6]byte{mark, kind}
	binary.LittleEndian.PutUint32(head[2:], uint32(n))
	c.in.Write(head[:])
}

// send writes a message without waiting for an answer. A program that reads slowly has its time.
func (c *child) send(r request) error {
	b, err := json.Marshal(r)
	if err != nil {
		return err
	}
	if len(b) > mostBytes {
		return fmt.Errorf("a message of %d bytes, expected at most %d", len(b), mostBytes)
	}
	if c.timeout > 0 {
		c.pipe.SetWriteDeadline(time.Now().Add(c.timeout))
	}
	if c.hello.Packed {
		c.frame(frameJSON, len(b))
		_, err = c.in.Write(b)
		return err
	}
	c.in.Write(b)
	return c.in.WriteByte('\n')
}

// receive reads the answer of one cell.
func (c *child) receive(cell uint32, want string) (answer, error) {
	if err := c.flush(); err != nil {
		return answer{}, err
	}
	var line []byte
	var err error
	if c.hello.Packed {
		var kind byte
		if kind, line, err = readFrame(c.out, c.buf); err == nil && kind != frameJSON {
			err = fmt.Errorf("a frame of kind %d, expected a message of type %q", kind, want)
		}
	} else if line, err = readLine(c.out); errors.Is(err, io.EOF) && len(line) > 0 {
		err = stray(line)
	}
	if err != nil {
		return answer{}, err
	}
	return parseAnswer(line, cell, want)
}

// receiveFrame reads the answer of one cell as a frame of a kind, and returns what follows the cell. It is valid until
// the next message.
func (c *child) receiveFrame(cell uint32, want byte) ([]byte, error) {
	if err := c.flush(); err != nil {
		return nil, err
	}
	kind, body, err := readFrame(c.out, c.buf)
	if err != nil {
		return nil, err
	}
	c.buf = body
	switch {
	case kind == frameJSON:
		_, err := parseAnswer(body, cell, "a frame")
		return nil, err
	case kind != want || len(body) < 4 || binary.LittleEndian.Uint32(body) != cell:
		return nil, fmt.Errorf("a frame of kind %d with %d bytes, expected kind %d for cell %d", kind, len(body), want, cell)
	}
	return body[4:], nil
}

// parseAnswer decodes an answer and checks that it is what was asked for.
func parseAnswer(line []byte, cell uint32, want string) (a answer, err error) {
	if len(line) == 0 || line[0] != '{' {
		return a, stray(line)
	}
	if err := strict(line, &a); err != nil {
		return a, fmt.Errorf("its answer %s: %w", short(line), err)
	}
	switch {
	case a.Type == "error":
		return a, fmt.Errorf("it says: %s", a.Message)
	case a.Type != want:
		return a, fmt.Errorf("its answer has type %q, expected %q", a.Type, want)
	case a.Cell != cell:
		return a, fmt.Errorf("its answer is for cell %d, expected %d", a.Cell, cell)
	}
	return a, nil
}

func short(line []byte) string {
	if len(line) > 120 {
		return string(line[:120]) + "…"
	}
	return string(line)
}

// kill ends the program and returns why: what failed, how it ended, and the last lines of its standard error.
func (c *child) kill(during string, err error) error {
	if c.dead != nil {
		return c.dead
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		err = fmt.Errorf("no answer within %v", c.timeout)
	}
	c.pipe.Close()
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || isPipe(err) { // let it say why it ended
		waited := time.AfterFunc(2*time.Second, func() { slay(c.cmd) })
		ended := c.cmd.Wait()
		waited.Stop()
		err = errors.New("the program ended")
		if ended != nil {
			err = fmt.Errorf("the program ended: %w", ended)
		}
	} else {
		slay(c.cmd)
		c.cmd.Wait() //nolint:errcheck // it was killed
	}
	c.from.Close()
	c.dead = fmt.Errorf("command %q, %s: %w%s", strings.Join(c.cmd.Args, " "), during, err, c.errs.lines())
	return c.dead
}

// close lets the program end by itself, and kills it when it does not.
func (c *child) close() {
	if c.dead != nil {
		return
	}
	c.dead = errors.New("closed")
	c.pipe.Close()
	late := time.AfterFunc(2*time.Second, func() { slay(c.cmd) })
	c.cmd.Wait() //nolint:errcheck // its work is done
	late.Stop()
	c.from.Close()
}

// tail keeps the end of what a program writes to standard error.
type tail struct {
	mu  sync.Mutex
	end []byte
}

const tailBytes, tailLines = 8 << 10, 12

// Write implements io.Writer.
func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.end = append(t.end, p[max(0, len(p)-tailBytes):]...)
	if over := len(t.end) - tailBytes; over > 0 {
		t.end = append(t.end[:0], t.end[over:]...)
	}
	return len(p), nil
}

// lines returns the last lines, each indented on a line of its own.
func (t *tail) lines() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	text := bytes.TrimSpace(t.end)
	if len(text) == 0 {
		return ""
	}
	all := strings.Split(string(text), "\n")
	return "\n  " + strings.Join(all[max(0, len(all)-tailLines):], "\n  ")
}
