package logged

import (
	"archive/zip"
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strings"

	"github.com/parquet-go/parquet-go"
)

// npzWriter writes obp's arrays. The length of an array stands before its numbers, so each is kept in a
// temporary file until the number of events is known.
type npzWriter struct {
	w       byteWriter
	dir     string
	shape   shape
	n       int
	context [][]float64 // rows of action_context
	arrays  []*npySpool
}

type npySpool struct {
	name  string
	descr string
	sides []int // behind n
	file  *os.File
	b     *bufio.Writer
}

func (z *npzWriter) lost(e *Event) []string {
	var s saying
	s.unit(e)
	s.no(len(e.Slots) > 0, "lists")
	s.no(e.ID != "", "ids")
	s.no(!e.Time.IsZero(), "times")
	s.no(e.Group != nil, "groups")
	s.no(e.Drop != 0, "drop")
	s.no(e.Named != nil || anyNamed(e), "features with names")
	s.no(anyID(e), "ids of actions")
	s.no(e.Observed != nil, "observations")
	s.no(e.K > 0 && e.Law == nil && e.Target == nil && e.Q == nil && !anyX(e), "how many actions were offered")
	if z.shape.is && anyX(e) && !slices.EqualFunc(z.context, e.Actions,
		func(x []float64, a Action) bool { return slices.Equal(x, a.X) }) {
		s.no(true, "features of actions that change from event to event")
	}
	return s
}

func (z *npzWriter) write(e *Event) error {
	if !z.shape.is {
		if err := z.begin(e); err != nil {
			return err
		}
	}
	if err := z.shape.fix(e); err != nil {
		return err
	}
	if z.context != nil && e.K != len(z.context) {
		return bad("event", fmt.Sprintf("%d actions", e.K), "%d as before", len(z.context))
	}
	z.n++
	var b [8]byte
	for _, a := range z.arrays {
		var err error
		one := func(u uint64) {
			binary.LittleEndian.PutUint64(b[:], u)
			_, w := a.b.Write(b[:])
			err = errors.Join(err, w)
		}
		all := func(x []float64) {
			for _, v := range x {
				one(math.Float64bits(v))
			}
		}
		switch a.name {
		case "action":
			one(uint64(e.Chosen))
		case "position":
			one(uint64(e.Position))
		case "reward":
			one(math.Float64bits(e.Reward))
		case "pscore":
			one(math.Float64bits(e.Propensity))
		case "context":
			all(e.Context)
		case "pi_b":
			all(e.Law)
		case "action_dist":
			all(e.Target)
		case "estimated_rewards_by_reg_model":
			all(e.Q)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (z *npzWriter) begin(e *Event) error {
	if anyX(e) {
		d := len(e.Actions[0].X)
		for i := range e.Actions {
			if len(e.Actions[i].X) != d {
				return bad("actions", "different numbers of features", "the same for all")
			}
			z.context = append(z.context, slices.Clone(e.Actions[i].X))
		}
	}
	for _, a := range []struct {
		name, descr string
		sides       []int
		is          bool
	}{
		{"context", "<f8", []int{len(e.Context)}, e.Context != nil}, {"action", "<i8", nil, true},
		{"position", "<i8", nil, e.Position != NoPosition},
		{"reward", "<f8", nil, true}, {"pscore", "<f8", nil, true}, {"pi_b", "<f8", []int{e.K, 1}, e.Law != nil},
		{"action_dist", "<f8", []int{e.K, 1}, e.Target != nil}, {"estimated_rewards_by_reg_model", "<f8", []int{e.K, 1},
			e.Q != nil},
	} {
		if !a.is {
			continue
		}
		f, err := os.CreateTemp(z.dir, ".troupe-array-*")
		if err != nil {
			return err
		}
		z.arrays = append(z.arrays, &npySpool{name: a.name, descr: a.descr, sides: a.sides, file: f,
			b: bufio.NewWriterSize(f, 1<<16)})
	}
	return nil
}

// npyHeader is the header of NPY 1.0, padded to 64 bytes.
func npyHeader(descr string, shape []int) []byte {
	sides := fmt.Sprint(shape[0]) + ","
	for i, s := range shape[1:] {
		if i > 0 {
			sides += ","
		}
		sides += " " + fmt.Sprint(s)
	}
	text := fmt.Sprintf("{'descr': '%s', 'fortran_order': False, 'shape': (%s), }", descr, sides)
	text += strings.Repeat(" ", (64-(10+len(text)+1)%64)%64) + "\n"
	return append(binary.LittleEndian.AppendUint16([]byte("\x93NUMPY\x01\x00"), uint16(len(text))), text...)
}

func (z *npzWriter) end() error {
	defer z.abort()
	out := zip.NewWriter(z.w)
	if z.context != nil {
		m, err := out.Create("action_context.npy")
		if err != nil {
			return err
		}
		b := npyHeader("<f8", []int{len(z.context), len(z.context[0])})
		for _, x := range z.context {
			for _, v := range x {
				b = binary.LittleEndian.AppendUint64(b, math.Float64bits(v))
			}
		}
		if _, err := m.Write(b); err != nil {
			return err
		}
	}
	for _, a := range z.arrays {
		if err := a.b.Flush(); err != nil {
			return err
		}
		if _, err := a.file.Seek(0, io.SeekStart); err != nil {
			return err
		}
		m, err := out.Create(a.name + ".npy")
		if err != nil {
			return err
		}
		if _, err := m.Write(npyHeader(a.descr, append([]int{z.n}, a.sides...))); err != nil {
			return err
		}
		if _, err := io.Copy(m, a.file); err != nil {
			return err
		}
	}
	return out.Close()
}

func (z *npzWriter) abort() {
	for _, a := range z.arrays {
		a.file.Close()
		os.Remove(a.file.Name())
	}
	z.arrays = nil
}

// parquetRow is an event as a row: the columns of docs/formats.md.
type parquetRow struct {
	ID         *string         `parquet:"id,optional"`
	Time       *int64          `parquet:"time,optional,timestamp(nanosecond)"`
	Context    []float64       `parquet:"context,list,optional"`
	Features   *string         `parquet:"features,optional"`
	Actions    []parquetAction `parquet:"actions,list,optional"`
	Action     *int64          `parquet:"action,optional"`
	Reward     *float64        `parquet:"reward,optional"`
	Propensity *float64        `parquet:"propensity,optional"`
	Law        []float64       `parquet:"law,list,optional"`
	Target     []float64       `parquet:"target,list,optional"`
	Q          []float64       `parquet:"q,list,optional"`
	Group      []string        `parquet:"group,list,optional"`
	Drop       *float64        `parquet:"drop,optional"`
	Position   *int64          `parquet:"position,optional"`
	Slots      *string         `parquet:"slots,optional"`
	Observed   *string         `parquet:"observed,optional"`
	Unit       *string         `parquet:"unit,optional"`
}

type parquetAction struct {
	ID       *string   `parquet:"id,optional"`
	X        []float64 `parquet:"x,list,optional"`
	Features *string   `parquet:"features,optional"`
}

type parquetWriter struct {
	p    *parquet.GenericWriter[parquetRow]
	held int // bytes, about
}

func newParquetWriter(w io.Writer) sink {
	return &parquetWriter{p: parquet.NewGenericWriter[parquetRow](w, parquet.Compression(&parquet.Zstd))}
}

func (p *parquetWriter) lost(e *Event) []string {
	var s saying
	s.no(e.K > 0 && e.K != kOf(e, 0), "how many actions were offered")
	s.no(e.ListLaw != nil, "the law of whole lists") // its marginals stay
	s.no(!e.Time.IsZero() && (e.Time.Year() < 1678 || e.Time.Year() > 2261), "times before 1678 or after 2261")
	return s
}

func (p *parquetWriter) write(e *Event) error {
	var r parquetRow
	text := func(b []byte) *string {
		if b == nil {
			return nil
		}
		s := string(b)
		return &s
	}
	if e.ID != "" {
		r.ID = &e.ID
	}
	if !e.Time.IsZero() {
		ns := e.Time.UnixNano()
		r.Time = &ns
	}
	r.Context, r.Features = e.Context, text(e.Named)
	size := 100 + 8*(len(e.Context)+len(e.Law)+len(e.Target)+len(e.Q)) + len(e.Named)
	for i := range e.Actions {
		a := &e.Actions[i]
		row := parquetAction{X: a.X, Features: text(a.Named)}
		if a.ID != "" {
			row.ID = &a.ID
		}
		r.Actions = append(r.Actions, row)
		size += 32 + 8*len(a.X) + len(a.Named)
	}
	r.Law, r.Target, r.Q, r.Group = e.Law, e.Target, e.Q, e.Group
	if len(e.Slots) == 0 {
		action := int64(e.Chosen)
		r.Action, r.Reward, r.Propensity = &action, &e.Reward, &e.Propensity
	} else {
		r.Slots = text(appendSlots(nil, e, false))
		if e.OneReward {
			r.Reward = &e.Reward
		}
	}
	if e.Drop != 0 {
		r.Drop = &e.Drop
	}
	if e.Position != NoPosition {
		position := int64(e.Position)
		r.Position = &position
	}
	r.Observed = text(e.Observed)
	if e.Unit != "" {
		r.Unit = &e.Unit
	}
	if _, err := p.p.Write([]parquetRow{r}); err != nil {
		return err
	}
	if p.held += size; p.held > 32<<20 { // what is not flushed is in memory
		p.held = 0
		return p.p.Flush()
	}
	return nil
}

func (p *parquetWriter) end() error { return p.p.Close() }
