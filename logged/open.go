package logged

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/klauspost/compress/zstd"

	"troupe/spec"
)

// Options says how to read a file. The zero value finds out what it can and refuses the rest.
type Options struct {
	// Format is one of Formats; "" decides by content.
	Format string
	// Columns maps what an event needs to columns of a table: "action" → ["arm"], "context" → ["x0", "x1"].
	// A name that ends in * stands for all columns that begin so. For csv and export rows.
	Columns map[string][]string
	// IDs says whether numbers of actions count from "0" or "1" where a format leaves it open; "" finds out.
	IDs string
	// Actions is K where a file does not say it; 0: it must.
	Actions int
	// Names are the ids of the actions, by their numbers, where a table has names and lists them nowhere; nil: numbers, or
	// what the file itself has. Then Actions is 0 or their number.
	Names []string
	// Logger is the law of the logger where it is known and the log does not have it. Every propensity is checked against it,
	// and an event gets the law. nil: the log has what there is. It is asked for in the order of the log.
	Logger Logger
	// Unit is where a decision's unit stands: a column of a table, or a path of the context. "": the key or column unit, where
	// there is one.
	Unit string
	// LawTolerance is how far from 1 a law may sum, and from its propensity a law's number may be, beyond what rounding
	// explains; such a law is scaled to 1. 0: nothing beyond.
	LawTolerance float64
	// Open keeps decisions of an export whose windows are open at its end, and counts no reward of theirs: for what
	// looks at laws alone.
	Open bool
	// Outcome says which of several rewards is the reward: reward.NAME of a table, a key of the object reward of JSON lines.
	Outcome string
	// Rewards is the range that rewards must be in, nil: any finite number.
	Rewards *[2]float64
	// Gaps are texts that mark a missing value in the context of a CSV table, beside an empty field, "?" and those of
	// dataset.Gaps. With one of them, or a missing value in the first row, a context is read by name: a context that is a
	// list of numbers has no missing values.
	Gaps []string
	// SkipBad: "" stops at the first bad event; "yes" counts them by reason and fails above 1 % of all;
	// "all" never fails.
	SkipBad string
	// Repeats allows an id to come twice; otherwise Reader keeps 8 bytes for each event.
	Repeats bool
	// Model keeps the rows of one model (rows of log export).
	Model string
	// Position keeps the rows of one position only, as the file counts it; "" keeps all.
	Position string
	// Lists makes one event of consecutive rows of an Open Bandit file with one time, one user and different positions:
	// their rewards and choices belong together.
	Lists bool
}

// Logger is a policy whose law is known. The targets of package ope are some.
type Logger interface {
	// Name is what messages call it.
	Name() string
	// Law stores the probabilities of the actions that an event offered in dst, of length K. q are the numbers of its column
	// q, nil where there is none. An error is about this event.
	Law(dst []float64, e *Event, q []float64) error
}

// Formats lists the formats that Options.Format may name.
var Formats = []string{"jsonl", "parquet", "export", "csv", "npz", "obd", "vw", "vw-flat", "vw-json", "dsjson"}

// source reads one format.
type source interface {
	// next fills e. An *Error that is not fatal is about one event; reading goes on behind it.
	next(e *Event) error
	close() error
}

// errSkip: what was read is no event.
type errSkip string

func (e errSkip) Error() string { return string(e) }

// Reader gives the events of one file. Not safe for concurrent use.
type Reader struct {
	name    string
	format  string
	o       Options
	src     source
	closers []func() error
	ids     *idSet

	events  int
	skipped map[string]int // lines that are no events, and bad events with SkipBad
	bad     int
	badBy   map[string]int
	kept    int // of bad: only their rewards are, and they are events
	first   map[string][]string
	warned  map[string]int
	model   string
	done    error
	offered offered
	stream  bool     // not a file that could be opened again
	more    []string // files that are read behind this one
	names   []string // of actions, once reading has ended

	// Propensities that are not those of Options.Logger: how many, the first one, and two more.
	against      int
	contradicted *Error
	moreAgainst  []string

	unitless int      // events without a unit, with Options.Unit
	paths    []string // of the first of them
}

// Format returns the format that was read.
func (r *Reader) Format() string { return r.format }

// Events returns how many events were read.
func (r *Reader) Events() int { return r.events }

// Skipped counts what was left out, by reason.
func (r *Reader) Skipped() map[string]int { return r.skipped }

// BadBy counts the events that were left out because they are bad, by Error.Reason.
func (r *Reader) BadBy() map[string]int { return r.badBy }

// Bad returns how many events were bad, and the first messages of each reason.
func (r *Reader) Bad() (n int, first []string) {
	for _, reason := range slices.Sorted(mapKeys(r.first)) {
		first = append(first, r.first[reason]...)
	}
	return r.bad, first
}

// Warnings says what is odd and was read nevertheless, with how often.
func (r *Reader) Warnings() []string {
	var out []string
	for _, w := range slices.Sorted(mapKeys(r.warned)) {
		if n := r.warned[w]; n > 1 {
			w += fmt.Sprintf(" (%d events)", n)
		}
		out = append(out, w)
	}
	return out
}

func mapKeys[V any](m map[string]V) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		for k := range m {
			if !yield(k) {
				return
			}
		}
	}
}

func (r *Reader) warn(s string) {
	if len(r.warned) < 100 {
		r.warned[s]++
	}
}

// Open opens a log: a file; a pattern such as logs/*.csv, or a directory of Parquet files (parts of a table, in directories such as
// date=2026-11-01), whose files are read one after the other in the order of their names; "-" for stdin.
func Open(name string, o Options) (*Reader, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	files, err := filesOf(name)
	if err != nil {
		return nil, err
	}
	if len(files) > 0 {
		name = files[0]
	}
	r := &Reader{name: name, o: o, skipped: map[string]int{}, first: map[string][]string{}, warned: map[string]int{}}
	if !o.Repeats {
		r.ids = newIDSet()
	}
	if len(files) > 1 {
		r.more = files[1:]
	}
	return r.openNamed()
}

// openNamed opens the file r.name.
func (r *Reader) openNamed() (*Reader, error) {
	name := r.name
	f := os.Stdin
	if r.stream = name == "-"; !r.stream {
		var err error
		if f, err = os.Open(name); err != nil {
			return nil, &Error{File: name, Found: errors.Unwrap(err).Error(), Want: "a file to read", fatal: true}
		}
		r.closers = append(r.closers, f.Close)
		if info, err := f.Stat(); err == nil && info.IsDir() {
			f.Close()
			return nil, &Error{File: name, Found: "a directory", Want: "a file", fatal: true}
		}
	}
	return r.begin(f, f)
}

// NewReader reads a stream of a text format. name stands for it in messages.
func NewReader(name string, in io.Reader, o Options) (*Reader, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	r := &Reader{name: name, o: o, skipped: map[string]int{}, first: map[string][]string{}, warned: map[string]int{}}
	if !o.Repeats {
		r.ids = newIDSet()
	}
	r.stream = true
	return r.begin(in, nil)
}

func (r *Reader) begin(in io.Reader, f *os.File) (*Reader, error) {
	name := r.name
	if err := r.open(in, f); err != nil {
		r.Close()
		var e *Error
		if errors.As(err, &e) && e.File == "" {
			e.File = name
		}
		return nil, err
	}
	return r, nil
}

func (o *Options) check() error {
	one := func(field, v string, valid []string) error {
		if v == "" || slices.Contains(valid, v) {
			return nil
		}
		return &Error{File: field, Found: strconv.Quote(v) + spec.Suggest(v, valid), fatal: true}
	}
	if o.Actions < 0 || o.Actions > MaxActions {
		return &Error{File: "--actions", Found: strconv.Itoa(o.Actions), Want: fmt.Sprintf("1 to %d", MaxActions),
			fatal: true}
	}
	for i, n := range o.Names {
		if n == "" || slices.Contains(o.Names[:i], n) {
			return &Error{File: "--actions", Found: strconv.Quote(n), Want: "names that are not empty, each once", fatal: true}
		}
	}
	if !(o.LawTolerance >= 0 && o.LawTolerance <= 0.5) {
		return &Error{File: "--law-tolerance", Found: number(o.LawTolerance), Want: "a number from 0 to 0.5", fatal: true}
	}
	if n := len(o.Names); n > 0 && o.Actions != 0 && o.Actions != n || n > MaxActions {
		return &Error{File: "--actions", Found: strconv.Itoa(n) + " names", Want: fmt.Sprintf("1 to %d", MaxActions),
			fatal: true}
	}
	return errors.Join(one("--format", o.Format, Formats), one("--ids", o.IDs, []string{"0", "1"}),
		one("--skip-bad", o.SkipBad, []string{"yes", "all"}))
}

// open recognises compression and format.
func (r *Reader) open(in io.Reader, f *os.File) error {
	b := bufio.NewReaderSize(in, 1<<18)
	head, err := b.Peek(1 << 16)
	if err != nil && err != io.EOF {
		return err
	}
	b, head, unpacked, err := r.unpack(b, head)
	if err != nil {
		return err
	}
	if len(bytes.TrimSpace(head)) == 0 && len(head) == 1<<16 {
		return &Error{Found: "64 KiB of blanks at the beginning", Want: "an event", fatal: true}
	}
	if len(bytes.TrimSpace(head)) == 0 {
		return &Error{Found: "an empty log", Empty: true, Want: "at least one event", fatal: true}
	}
	if err := r.mistaken(head); err != nil {
		return err
	}
	found := recognise(head)
	if found != "parquet" && found != "npz" && bytes.IndexByte(head, 0) >= 0 {
		return &Error{Found: "binary data of a format that is not known", Want: "one of " + strings.Join(Formats, ", "),
			fatal: true}
	}
	format, err := r.formatOf(found, unpacked)
	if err != nil {
		return err
	}
	r.format = format
	if r.o.Outcome != "" && format != "jsonl" && format != "csv" && format != "parquet" && format != "export" {
		return &Error{Found: "--outcome " + r.o.Outcome + " and " + titles[format], Want: "JSON lines, Parquet, a CSV table or an export: " +
			"others have one reward", fatal: true}
	}
	if format == "parquet" || format == "npz" || format == "export" && found == "parquet" {
		if f == nil || f == os.Stdin {
			if f, err = r.spool(b); err != nil {
				return err
			}
		}
		info, err := f.Stat()
		if err != nil {
			return err
		}
		if format == "npz" {
			r.src, err = newNPZ(r, f, info.Size())
		} else {
			r.src, err = newParquet(r, f, info.Size())
		}
		return err
	}
	return r.sourceOf(format, b)
}

// mistaken refuses what other programs write and no format is, with the command that mends it.
func (r *Reader) mistaken(head []byte) error {
	refuse := func(found, want string) error { return &Error{Found: found, Want: want, fatal: true} }
	if from := utf16(head); from != "" {
		return refuse("UTF-16 text", "UTF-8 (iconv -f "+from+" -t UTF-8 "+r.name+" > OUT)")
	}
	text := bytes.TrimLeft(bytes.TrimPrefix(head, []byte("\xef\xbb\xbf")), " \t\r\n")
	switch {
	case bytes.HasPrefix(text, []byte("[")) && bytes.HasPrefix(bytes.TrimLeft(text[1:], " \t\r\n"), []byte("{")):
		return refuse("one JSON array", "one object a line (jq -c '.[]' "+r.name+" > OUT; in pandas "+
			"to_json(orient=\"records\", lines=True))")
	case bytes.HasPrefix(text, []byte("# ")), text[0] == '#' && recognise(text) == "":
		return refuse("a first line that begins with #", "a header or an event (grep -v '^#' "+r.name+" > OUT)")
	}
	return nil
}

// utf16 returns the name of the encoding of a text in UTF-16, which has a mark at its beginning or, where it is ASCII, a
// zero in every second byte; "" for others.
func utf16(head []byte) string {
	if bytes.HasPrefix(head, []byte("\xff\xfe")) || bytes.HasPrefix(head, []byte("\xfe\xff")) {
		return "UTF-16"
	}
	head = head[:min(len(head), 64)]
	for first, name := range []string{"UTF-16BE", "UTF-16LE"} {
		zeros := 0
		for i, c := range head {
			if (c == 0) != (i%2 == first) {
				break
			}
			zeros++
		}
		if zeros == len(head) {
			return name
		}
	}
	return ""
}

// unpack looks through gzip and zstd. It returns what is inside, its beginning, and by what it was packed.
func (r *Reader) unpack(b *bufio.Reader, head []byte) (inside *bufio.Reader, begin []byte, unpacked string, err error) {
	switch {
	case bytes.HasPrefix(head, []byte{0x1f, 0x8b}):
		z, err := gzip.NewReader(b)
		if err != nil {
			return nil, nil, "", &Error{Found: err.Error(), Want: "gzip", fatal: true}
		}
		b, unpacked = bufio.NewReaderSize(z, 1<<18), "gzip"
	case bytes.HasPrefix(head, []byte{0x28, 0xb5, 0x2f, 0xfd}):
		z, err := zstd.NewReader(b, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(1<<28))
		if err != nil {
			return nil, nil, "", &Error{Found: err.Error(), Want: "zstd", fatal: true}
		}
		r.closers = append(r.closers, func() error { z.Close(); return nil })
		b, unpacked = bufio.NewReaderSize(z, 1<<18), "zstd"
	}
	if unpacked != "" {
		if head, err = b.Peek(1 << 16); err != nil && err != io.EOF {
			return nil, nil, "", &Error{Found: err.Error(), Want: "a whole " + unpacked + " file", fatal: true}
		}
	}
	return b, head, unpacked, nil
}

// formatOf returns the format that is read: the one that was asked for, which must fit what was found, or that.
func (r *Reader) formatOf(found, unpacked string) (string, error) {
	format := r.o.Format
	if found == "vw-either" {
		if found = "vw"; format == "vw-flat" {
			found = format
		}
	}
	switch {
	case found == continuous:
		return "", &Error{Found: "labels of continuous actions (ca)", Want: "labels of one of K actions; troupe evaluate " +
			"--knob reads numbers as actions, from a table with a column each for action, density and reward", fatal: true}
	case found == "records":
		return "", &Error{Found: "records of GET …/log, where decisions and rewards are rows of their own",
			Want: "decisions with what became of them: GET …/decisions, troupe log export, or troupe evaluate " +
				"http://HOST --model NAME", fatal: true}
	case found == "" && format == "":
		return "", &Error{Found: "a format that is not known", Want: "one of " + strings.Join(Formats, ", ") +
			" (--format names it)", fatal: true}
	case format == "":
		format = found
	case found != "" && !sameFamily(format, found):
		return "", &Error{Found: "this is " + titles[found], Want: titles[format] + " (--format " + format +
			"); --format " + found + " reads it", fatal: true}
	}
	if unpacked != "" && (format == "npz" || format == "parquet" || found == "parquet" || found == "npz") {
		return "", &Error{Found: format + " inside " + unpacked,
			Want: "the file itself: it is read at several places at once", fatal: true}
	}
	return format, nil
}

// sourceOf makes the source of a format that is read from its beginning to its end.
func (r *Reader) sourceOf(format string, b *bufio.Reader) error {
	l := &lines{r: b, most: 1 << 26}
	var err error
	switch format {
	case "jsonl", "export":
		r.src = newJSONL(r, l, format == "export")
	case "dsjson", "vw-json":
		r.src = newDSJSON(r, l, format == "vw-json")
	case "vw":
		r.src = newVW(r, l)
	case "vw-flat":
		if r.o.Actions == 0 {
			return &Error{Found: "one-line VW text without the number of actions", Want: "--actions K", fatal: true}
		}
		r.src = newVWFlat(r, l)
	case "csv":
		r.src, err = newCSV(r, b)
	case "obd":
		r.src, err = newOBD(r, b)
	}
	return err
}

// continuous is found, and not read, where Vowpal Wabbit's labels are of actions that are numbers.
const continuous = "continuous"

// titles are the formats in words.
var titles = map[string]string{
	"jsonl": "JSON lines of events", "parquet": "Parquet", "export": "rows of troupe log export", "csv": "a CSV table",
	"npz": "a zip of NumPy arrays",
	"obd": "an Open Bandit CSV", "vw": "VW text in blocks", "vw-flat": "one-line VW text", "vw-json": "VW JSON",
	"dsjson": "dsjson",
}

// sameFamily: a file recognised as found can be read as format.
func sameFamily(format, found string) bool {
	switch {
	case format == found, format == "csv" && found == "obd", format == "export" &&
		(found == "parquet" || found == "jsonl"), format == "jsonl" && found == "export":
		return true
	}
	return false
}

// recognise decides by content; "" when nothing fits.
func recognise(head []byte) string {
	switch {
	case bytes.HasPrefix(head, []byte("PAR1")):
		return "parquet"
	case bytes.HasPrefix(head, []byte("PK\x03\x04")), bytes.HasPrefix(head, []byte("PK\x05\x06")):
		return "npz"
	}
	text := bytes.TrimLeft(bytes.TrimPrefix(head, []byte("\xef\xbb\xbf")), " \t\r\n")
	line, _, _ := bytes.Cut(text, []byte("\n"))
	if len(line) > 0 && line[0] == '{' {
		return recogniseJSON(line)
	}
	if bytes.IndexByte(line, '|') >= 0 {
		return recogniseVW(text)
	}
	switch {
	case bytes.Contains(line, []byte("propensity_score")) && bytes.Contains(line, []byte("item_id")):
		return "obd"
	case bytes.ContainsAny(line, ",;\t"):
		return "csv"
	}
	return ""
}

// recogniseJSON decides by the keys of the first line, each at its place: what a context or an action is called says nothing.
func recogniseJSON(line []byte) string {
	k := keysOf(line)
	label := func(name string) bool { return len(name) >= 6 && strings.EqualFold(name[:6], "_label") }
	inside := k.c["_multi"] || k.c["_slots"]
	switch {
	case k.top["_label_ca"]:
		return continuous
	case k.top["_multi"] || inside || k.top["_outcomes"] || slices.ContainsFunc(slices.Collect(maps.Keys(k.top)), label):
		if k.top["c"] && !k.top["_multi"] && (inside || k.top["a"] || k.top["_outcomes"] || k.top["p"]) {
			return "dsjson"
		}
		return "vw-json"
	case k.all["seq"] && k.all["kind"] && !k.all["propensity"] &&
		(k.all["act"] || k.all["event"] && !k.all["reward_state"]):
		return "records" // of the server's API
	case k.all["basis_seq"] && k.all["num"] && k.all["den"]:
		return "export"
	case k.top["EventId"] && (k.top["a"] || k.top["c"] || k.top["RewardValue"] || k.top["ActionTaken"]):
		return "dsjson"
	}
	return "jsonl"
}

// lineKeys are the keys of an object: its own, those of its member c, which may be a list of one object, and those at any
// depth.
type lineKeys struct{ top, c, all map[string]bool }

// keysOf looks for the keys of a line of JSON, which may be cut at its end.
func keysOf(line []byte) lineKeys {
	k := lineKeys{map[string]bool{}, map[string]bool{}, map[string]bool{}}
	var open []byte // the braces and brackets that are open
	within := ""    // the key of the top that was last
	for i := 0; i < len(line); i++ {
		switch c := line[i]; c {
		case '{', '[':
			open = append(open, c)
		case '}', ']':
			open = open[:max(len(open)-1, 0)]
		case '"':
			end := i + 1
			for end < len(line) && line[end] != '"' {
				if line[end] == '\\' {
					end++
				}
				end++
			}
			if end++; end > len(line) {
				return k // cut inside a text
			}
			if !bytes.HasPrefix(bytes.TrimLeft(line[end:], " \t\r\n"), []byte(":")) {
				i = end - 1
				continue
			}
			name := string(line[i+1 : end-1])
			k.all[name] = true
			switch {
			case len(open) == 1:
				k.top[name], within = true, name
			case within == "c" && (len(open) == 2 || len(open) == 3 && open[1] == '['):
				k.c[name] = true
			}
			i = end - 1
		}
	}
	return k
}

// recogniseVW tells blocks from one-line examples: in a block a line with a label is followed by another
// line, or comes after one; an example of the one-line form stands alone, line after line with labels. A few
// lines can be either.
func recogniseVW(text []byte) string {
	labels, plain, blank, n := 0, 0, 0, 0
	for line := range bytes.Lines(text) {
		line = bytes.TrimSpace(line)
		if n++; n > 200 || len(line) == 0 {
			if len(line) == 0 {
				blank++
			}
			if n > 200 {
				break
			}
			continue
		}
		if bytes.HasPrefix(line, []byte("shared ")) || bytes.HasPrefix(line, []byte("shared|")) {
			return "vw"
		}
		before, _, _ := bytes.Cut(line, []byte("|"))
		if bytes.HasPrefix(before, []byte("ca ")) {
			return continuous
		}
		label := slices.ContainsFunc(bytes.Fields(before), func(word []byte) bool {
			return word[0] != '\'' && bytes.IndexByte(word, ':') >= 0 // a tag may have one too
		})
		if label {
			labels++
		} else {
			plain++
		}
	}
	switch {
	case blank > 0 && plain > 0:
		return "vw"
	case labels > 1 && plain == 0:
		return "vw-flat"
	}
	return "vw-either"
}

// Read fills e with the next event; io.EOF ends the log. An *Error names the place of a bad event. After an
// error about one event the next Read goes on behind it; other errors are final.
func (r *Reader) Read(e *Event) error {
	if r.done != nil {
		return r.done
	}
	for {
		e.reset()
		err := r.src.next(e)
		if err == nil {
			err = r.accept(e)
		}
		if err == nil {
			r.events++
			r.mended(e)
			return nil
		}
		if again, err := r.refused(e, err); !again {
			return err
		}
	}
}

// refused returns what Read returns for an event that cannot be read, or that reading goes on behind it. It is a function
// of its own because errors.As makes its variables escape, which Read would pay for each event.
func (r *Reader) refused(e *Event, err error) (again bool, _ error) {
	var skip errSkip
	var fault *Error
	switch {
	case errors.As(err, &skip):
		r.skipped[string(skip)]++
		return true, nil
	case err == io.EOF && len(r.more) > 0:
		if r.done = r.nextFile(); r.done != nil {
			return false, r.done
		}
		return true, nil
	case err == io.EOF:
		r.done = r.ending()
		return false, r.done
	case !errors.As(err, &fault):
		r.done = fmt.Errorf("%s: %w", r.name, err)
		return false, r.done
	}
	if fault.File == "" {
		fault.File = r.name
	}
	if fault.fatal {
		r.done = fault
		return false, fault
	}
	if r.o.SkipBad == "" {
		return false, fault
	}
	if r.bad++; r.badBy == nil {
		r.badBy = map[string]int{}
	}
	r.badBy[fault.Reason]++
	r.skipped["bad "+fault.Reason]++
	if len(r.first[fault.Reason]) < 3 {
		r.first[fault.Reason] = append(r.first[fault.Reason], fault.Error())
	}
	if fault.Reason == "reward" && len(e.Slots) == 0 { // the rest of the event is good: it was looked at first
		e.BadReward, e.Reward = true, math.NaN()
		if e.check(&r.o) == nil && r.accept(e) == nil {
			r.events++
			r.kept++
			r.mended(e)
			return false, nil
		}
	}
	return true, nil
}

// mended counts what was mended in an event.
func (r *Reader) mended(e *Event) {
	if e.odd == 0 {
		return
	}
	for _, o := range oddities {
		if e.odd&o.bit != 0 {
			r.warn(o.text)
		}
	}
}

// accept applies what all formats share: ids, of events and of actions, come once.
func (r *Reader) accept(e *Event) error {
	if err := r.distinct(e); err != nil {
		return err
	}
	if r.o.Unit != "" && e.Unit == "" && r.o.Logger == nil {
		r.unitOf(e)
	}
	if r.ids == nil || e.ID == "" {
		return nil
	}
	if !r.ids.add(e.ID) {
		err := bad("id", shown([]byte(e.ID)), "an id that comes once (--ids-unique=no allows repetitions)")
		err.Line, err.Column, err.Row = r.place()
		err.Reason = "id twice"
		return err
	}
	return nil
}

// distinct refuses one id of two actions that were offered together: a target and a reward model could not tell them apart.
func (r *Reader) distinct(e *Event) error {
	a, b := r.offered.twice(e)
	if b < 0 {
		return nil
	}
	err := sameID(e, a, b)
	err.Line, _, err.Row = r.place()
	if s, ok := r.src.(*jsonlSource); ok {
		err.Column = s.at[kActions]
	}
	err.Reason = "action id twice"
	return err
}

// placed is implemented by sources that know where the last event was.
type placed interface {
	place() (line, column, row int)
}

func (r *Reader) place() (line, column, row int) {
	if p, ok := r.src.(placed); ok {
		return p.place()
	}
	return 0, 0, 0
}

// ending is what the end of the file means.
func (r *Reader) ending() error {
	all := r.events + r.bad - r.kept
	switch {
	case r.against > 0:
		return r.contradiction()
	case r.events > 0 && r.unitless == r.events:
		return &Error{File: r.name, Found: "--unit " + r.o.Unit, Want: "a column, or a path of the context" +
			spec.Suggest(r.o.Unit, r.paths), fatal: true}
	case r.bad > 0 && r.o.SkipBad == "yes" && r.bad*100 > all:
		_, first := r.Bad()
		return &Error{File: r.name, Found: fmt.Sprintf("%d of %d events are bad", r.bad, all),
			Want: "at most 1% (--skip-bad=all takes any share):\n  " + strings.Join(first, "\n  "), fatal: true}
	case r.events == 0:
		why := ""
		for _, k := range slices.Sorted(mapKeys(r.skipped)) {
			why += fmt.Sprintf(", %d skipped: %s", r.skipped[k], k)
		}
		return &Error{File: r.name, Found: "an empty log", Empty: true, Left: why, Want: "at least one event",
			fatal: true}
	}
	return io.EOF
}

// Close ends reading.
func (r *Reader) Close() error {
	var err error
	if r.src != nil {
		err = r.src.close()
		r.names, r.src = r.Arms(), nil
		if r.done == nil {
			r.done = errors.New("logged: the reader is closed")
		}
	}
	for _, c := range slices.Backward(r.closers) {
		err = errors.Join(err, c())
	}
	r.closers = nil
	return err
}

// lines reads lines of bounded length.
type lines struct {
	r    *bufio.Reader
	line int
	most int
	long []byte
}

// next returns the next line without its end; the slice is valid until the next call.
func (l *lines) next() ([]byte, error) {
	l.long = l.long[:0]
	for {
		part, err := l.r.ReadSlice('\n')
		if err == bufio.ErrBufferFull {
			if l.long = append(l.long, part...); len(l.long) > l.most {
				return nil, &Error{Line: l.line + 1, Found: fmt.Sprintf("a line of more than %d bytes", l.most),
					Want: "one event on a line", fatal: true}
			}
			continue
		}
		if err != nil && err != io.EOF {
			return nil, &Error{Line: l.line + 1, Found: err.Error(), Want: "a whole file", fatal: true}
		}
		if len(l.long) > 0 {
			l.long = append(l.long, part...)
			part = l.long
		}
		if len(part) == 0 && err == io.EOF {
			return nil, io.EOF
		}
		if l.line++; l.line == 1 {
			part = bytes.TrimPrefix(part, []byte("\xef\xbb\xbf"))
		}
		part = bytes.TrimSuffix(part, []byte("\n"))
		return bytes.TrimSuffix(part, []byte("\r")), nil
	}
}

// idSet is a set of 64-bit hashes: open addressing, 8 bytes an entry, at most three quarters full. Two
// different ids of 10⁷ share a hash with probability below 10⁻⁵.
type idSet struct {
	slot []uint64
	n    int
}

func newIDSet() *idSet { return &idSet{slot: make([]uint64, 1<<10)} }

// hashID is FNV-1a with a finaliser.
func hashID(s string) uint64 {
	h := uint64(14695981039346656037)
	for i := range len(s) {
		h = (h ^ uint64(s[i])) * 1099511628211
	}
	h ^= h >> 33
	h *= 0xff51afd7ed558ccd
	h ^= h >> 33
	h *= 0xc4ceb9fe1a85ec53
	h ^= h >> 33
	return max(h, 1)
}

// add returns false when the id was there.
func (s *idSet) add(id string) bool {
	if 4*s.n >= 3*len(s.slot) {
		old := s.slot
		s.slot = make([]uint64, 2*len(old))
		for _, h := range old {
			if h != 0 {
				s.put(h)
			}
		}
	}
	if !s.put(hashID(id)) {
		return false
	}
	s.n++
	return true
}

func (s *idSet) put(h uint64) bool {
	mask := uint64(len(s.slot) - 1)
	for i := h & mask; ; i = (i + 1) & mask {
		switch s.slot[i] {
		case 0:
			s.slot[i] = h
			return true
		case h:
			return false
		}
	}
}

// columnNames lists what Options.Columns may map.
var columnNames = []string{"id", "time", "context", "action", "reward", "propensity", "law", "target", "q", "group",
	"drop", "position", "unit"}

// ParseColumns reads action=arm,reward=click,context=x0:x1: the form of the flag --columns.
func ParseColumns(s string) (map[string][]string, error) {
	if s == "" {
		return nil, nil
	}
	out := map[string][]string{}
	for part := range strings.SplitSeq(s, ",") {
		key, names, ok := strings.Cut(part, "=")
		if !ok || names == "" {
			return nil, &Error{File: "--columns", Found: strconv.Quote(part), Want: "field=column, such as action=arm",
				fatal: true}
		}
		if !slices.Contains(columnNames, key) {
			return nil, &Error{File: "--columns", Found: strconv.Quote(key) + spec.Suggest(key, columnNames),
				fatal: true}
		}
		if out[key] != nil {
			return nil, &Error{File: "--columns", Found: strconv.Quote(key) + " twice", Want: "each field once",
				fatal: true}
		}
		out[key] = strings.Split(names, ":")
	}
	return out, nil
}
