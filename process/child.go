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

	"troupe/policy"
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

	early map[uint32]*message // cells that wait for an answer while others go on, with it where it has come
	users int                 // cells that it plays; under the lock of Options, as ended
	ended []uint32            // cells that it has not been told the end of
}

// start starts the program and exchanges greetings.
func start(o *Options) (*child, error) {
	cmd := exec.Command(o.Command[0], o.Command[1:]...)
	if path, ok := o.local(o.Command[0]); ok {
		cmd.Path, cmd.Err = path, nil
	}
	cmd.Dir = o.dir
	cmd.Env = o.environ()
	c := &child{cmd: cmd, errs: new(tail), timeout: o.timeout, early: make(map[uint32]*message)}
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
	deadline := c.deadline()
	c.pipe.SetWriteDeadline(deadline)
	c.from.SetReadDeadline(deadline)
	return c.in.Flush()
}

// deadline is when an answer comes too late, the zero time for never.
func (c *child) deadline() time.Time {
	if c.timeout == 0 {
		return time.Time{}
	}
	return time.Now().Add(c.timeout)
}

// frame writes the head of a frame whose body has n bytes.
func (c *child) frame(kind byte, n int) {
	if n+6 > c.in.Available() { // part of it leaves now
		c.pipe.SetWriteDeadline(c.deadline())
	}
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

// message is one of the program.
type message struct {
	kind   byte
	body   []byte // of a frame, valid until the next message is read
	answer answer // of kind frameJSON
}

// cell is whom a message is for.
func (m *message) cell() uint32 {
	switch {
	case m.kind == frameJSON:
		return m.answer.Cell
	case len(m.body) < 4:
		return 0
	}
	return binary.LittleEndian.Uint32(m.body)
}

// yield lets other cells go on until it is the turn of this one, which has asked for something.
func (c *child) yield(cell uint32, turns policy.Turns) {
	c.early[cell] = nil
	turns.Yield()
}

// next returns the answer of a cell. Those of other cells that wait, which stand before it, are kept.
func (c *child) next(cell uint32) (m message, err error) {
	if c.dead != nil {
		return m, c.dead
	}
	if came := c.early[cell]; came != nil {
		delete(c.early, cell)
		return *came, nil
	}
	if c.in.Buffered() > 0 {
		if err := c.flush(); err != nil {
			return m, err
		}
	}
	for {
		if c.out.Buffered() == 0 {
			c.from.SetReadDeadline(c.deadline())
		}
		if m, err = c.read(); err != nil {
			return m, err
		}
		of := m.cell()
		if came, waits := c.early[of]; of == cell || !waits || came != nil {
			delete(c.early, cell)
			return m, nil
		}
		c.early[of] = &message{m.kind, bytes.Clone(m.body), m.answer}
	}
}

// read reads a message. That the program says an error, whatever the cell, is an error.
func (c *child) read() (m message, err error) {
	var line []byte
	if c.hello.Packed {
		if m.kind, line, err = readFrame(c.out, c.buf); err == nil {
			c.buf = line
		}
	} else if line, err = readLine(c.out); errors.Is(err, io.EOF) && len(line) > 0 {
		err = stray(line)
	}
	if err != nil {
		return m, err
	}
	if m.kind != frameJSON {
		m.body = line
		return m, nil
	}
	if len(line) == 0 || line[0] != '{' {
		return m, stray(line)
	}
	if err := strict(line, &m.answer); err != nil {
		return m, fmt.Errorf("its answer %s: %w", short(line), err)
	}
	if m.answer.Type == "error" {
		return m, fmt.Errorf("it says: %s", m.answer.Message)
	}
	return m, nil
}

// receive reads the answer of one cell that is JSON.
func (c *child) receive(cell uint32, want string) (answer, error) {
	m, err := c.next(cell)
	a := m.answer
	switch {
	case err != nil:
		return a, err
	case m.kind != frameJSON:
		return a, fmt.Errorf("a frame of kind %d, expected a message of type %q", m.kind, want)
	case a.Type != want:
		return a, fmt.Errorf("its answer has type %q, expected %q", a.Type, want)
	case a.Cell != cell:
		return a, fmt.Errorf("its answer is for cell %d, expected %d", a.Cell, cell)
	}
	return a, nil
}

// receiveFrame reads the answer of one cell that is a frame of a kind, and returns what follows the cell. It is valid
// until the next message is read.
func (c *child) receiveFrame(cell uint32, want byte) ([]byte, error) {
	m, err := c.next(cell)
	switch {
	case err != nil:
		return nil, err
	case m.kind == frameJSON:
		return nil, fmt.Errorf("its answer has type %q, expected a frame of kind %d", m.answer.Type, want)
	case m.kind != want || len(m.body) < 4 || m.cell() != cell:
		return nil, fmt.Errorf("a frame of kind %d with %d bytes, expected kind %d for cell %d", m.kind, len(m.body), want,
			cell)
	}
	return m.body[4:], nil
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
