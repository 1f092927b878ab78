package process

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
)

// Protocol is the version of the messages of this package, which docs/reference/process.md describes.
const Protocol = 1

// mostBytes bounds a message in both directions: a set of 8 million numbers, or a snapshot.
const mostBytes = 64 << 20

// Roles of a program.
const (
	rolePolicy      = "policy"
	roleEnvironment = "environment"
)

// hello is the first message in both directions.
type hello struct {
	Type     string            `json:"type"`
	Protocol int               `json:"protocol"`
	Role     string            `json:"role,omitempty"`     // to the program: "policy" or "environment"; its answer may repeat it
	Name     string            `json:"name,omitempty"`     // of the program
	Versions map[string]string `json:"versions,omitempty"` // of its interpreter and packages
	Packed   bool              `json:"packed,omitempty"`   // it reads and writes frames
	Law      bool              `json:"law,omitempty"`      // it knows the probabilities of its actions
	Snapshot bool              `json:"snapshot,omitempty"` // it can save and restore a cell
	Turns    bool              `json:"turns,omitempty"`    // it can be asked for a cell before it has answered another
}

// problem is what a policy may know before round 1.
type problem struct {
	Dim     int         `json:"dim"`
	Arms    int         `json:"arms,omitempty"`    // 0 for a set that is not finite
	Horizon int         `json:"horizon,omitempty"` // 0 when unknown
	Sigma   float64     `json:"sigma"`
	Range   *[2]float64 `json:"range,omitempty"` // of rewards, where it is declared
}

// request is a message to the program.
type request struct {
	Type    string      `json:"type"`
	Cell    uint32      `json:"cell"`
	Round   uint32      `json:"round,omitempty"`
	Seed    *uint64     `json:"seed,omitempty"`
	Problem *problem    `json:"problem,omitempty"`
	Options any         `json:"options,omitempty"` // a table
	Arms    [][]float64 `json:"arms,omitempty"`    // left out when they are those of the message before
	Set     string      `json:"set,omitempty"`     // "ball"
	Index   *int        `json:"index,omitempty"`
	X       []float64   `json:"x,omitempty"`
	Reward  *float64    `json:"reward,omitempty"`
	State   string      `json:"state,omitempty"` // base64
}

// answer is a message of the program.
type answer struct {
	Type    string    `json:"type"`
	Cell    uint32    `json:"cell"`
	Index   *int      `json:"index,omitempty"`
	Vector  []float64 `json:"vector,omitempty"`
	Law     []float64 `json:"law,omitempty"`
	State   string    `json:"state,omitempty"`
	Message string    `json:"message,omitempty"`

	// Of an environment.
	Dim     int         `json:"dim,omitempty"`            // ready
	Sigma   float64     `json:"sigma,omitempty"`          // ready: subgaussian constant of the noise, 0 for none
	Largest float64     `json:"largest_regret,omitempty"` // ready: what a round costs at most, 0 for no bound
	Arms    [][]float64 `json:"arms,omitempty"`           // set; left out when they are those before
	Set     string      `json:"set,omitempty"`            // set: "ball"
	Reward  *float64    `json:"reward,omitempty"`
	Regret  *float64    `json:"regret,omitempty"`
}

// Kinds of frames. A frame is a byte of value mark, a byte with its kind, and the length of what follows in 4 bytes;
// all numbers are little endian.
const (
	mark        = 0xF5
	frameJSON   = 0 // a message as text
	frameSelect = 1 // u32 cell, u32 round, u64 seed, u32 K, u32 d, K·d × f64; K = 0: the set before, or the ball
	frameLaw    = 2 // the same; asks for probabilities
	frameUpdate = 3 // u32 cell, u32 round, u64 seed, i32 index, f64 reward, u32 d, d × f64; d = 0 where index says it
	frameAction = 4 // u32 cell, i32 index, u32 d, d × f64: the answer to frameSelect; d = 0 where index says it
	frameProbs  = 5 // u32 cell, u32 K, K × f64: the answer to frameLaw

	// Of an environment. The answer to a kind is 3 above it.
	frameOffer  = 6  // u32 cell, u32 round, u64 seed
	frameReward = 7  // u32 cell, u32 round, u64 seed, i32 index, u32 d, d × f64; d = 0 where index says it
	frameRegret = 8  // the same; asks for the regret alone
	frameSet    = 9  // u32 cell, i32 K, u32 d, K·d × f64; K = 0: the arms are those before, K = -1: the unit ball
	framePaid   = 10 // u32 cell, f64 reward, f64 regret
	frameCost   = 11 // u32 cell, f64 regret
)

// ballAgain is the number of arms of a frameSelect that stands for the ball after arms.
const ballAgain = math.MaxUint32

// seedBits is the size of a seed: every language reads a whole number of 53 bits from JSON.
const seedBits = 53

// strict decodes a message; an unknown field is an error.
func strict(line []byte, into any) error {
	dec := json.NewDecoder(strings.NewReader(string(line)))
	dec.DisallowUnknownFields()
	if err := dec.Decode(into); err != nil {
		return err
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return errors.New("text after the message")
	}
	return nil
}

// readLine reads a line of at most mostBytes, without its end.
func readLine(r *bufio.Reader) ([]byte, error) {
	var line []byte
	for {
		part, err := r.ReadSlice('\n')
		if len(line)+len(part) > mostBytes {
			return nil, fmt.Errorf("a line of more than %d bytes", mostBytes)
		}
		line = append(line, part...)
		switch {
		case err == nil:
			return line[:len(line)-1], nil
		case !errors.Is(err, bufio.ErrBufferFull):
			return line, err
		}
	}
}

// readFrame reads a frame into buf, which it may grow, and returns its kind and what follows its head.
func readFrame(r *bufio.Reader, buf []byte) (kind byte, body []byte, err error) {
	var head [6]byte
	if n, err := io.ReadFull(r, head[:]); err != nil {
		return 0, head[:n], err
	}
	if head[0] != mark {
		text, _ := r.Peek(min(r.Buffered(), 80))
		return 0, nil, stray(append(head[:], text...))
	}
	n := binary.LittleEndian.Uint32(head[2:])
	if n > mostBytes {
		return 0, nil, fmt.Errorf("a message of %d bytes, expected at most %d", n, mostBytes)
	}
	if uint32(cap(buf)) < n {
		buf = make([]byte, n)
	}
	buf = buf[:n]
	_, err = io.ReadFull(r, buf)
	return head[1], buf, err
}

// stray is the error for text on standard output that is no message.
func stray(text []byte) error {
	line, _, _ := strings.Cut(string(text), "\n")
	if len(line) > 80 {
		line = line[:80] + "…"
	}
	return fmt.Errorf("%s on standard output is no message of the protocol; print to standard error instead",
		strconv.Quote(line))
}

// appendFloats appends numbers as little-endian float64.
func appendFloats(b []byte, x []float64) []byte {
	for _, v := range x {
		b = binary.LittleEndian.AppendUint64(b, math.Float64bits(v))
	}
	return b
}

// floats reads n numbers from b into dst; false where b has another length.
func floats(dst []float64, b []byte, n int) ([]float64, bool) {
	if n < 0 || len(b) != 8*n {
		return dst[:0], false
	}
	dst = dst[:0]
	for i := range n {
		dst = append(dst, math.Float64frombits(binary.LittleEndian.Uint64(b[8*i:])))
	}
	return dst, true
}
