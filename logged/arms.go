package logged

import (
	"bufio"
	"hash/maphash"
	"io"
	"math/bits"
	"os"
	"slices"
	"strconv"
	"strings"

	"troupe/spec"
)

// arms says which action a value of a table's column means. A whole number in any spelling (1, 01, 1.0, 1e0) is an
// action's number. Anything else is a name, and names have numbers only through a list: Options.Names, the names at the
// end of columns such as law_news, or, for a file, the names in its column in alphabetical order.
type arms struct {
	names  []string // nil: actions are numbers
	index  map[string]int
	places bool   // the list was given, so a whole number that is no name is a place in it
	from   string // what the names are from, for messages
	number bool   // a number was met
}

// set makes names the actions.
func (a *arms) set(names []string, from string) {
	a.names, a.from, a.index = names, from, make(map[string]int, len(names))
	for i, n := range names {
		a.index[n] = i
	}
}

// wholeNumber reads a whole number in any spelling.
func wholeNumber(text string) (n int, ok bool) {
	if n, err := strconv.Atoi(text); err == nil {
		return n, true
	}
	x, ok := parseFloat([]byte(strings.TrimPrefix(text, "+")))
	if n = int(x); !ok || x > 1<<53 || x < -(1<<53) || float64(n) != x {
		return 0, false
	}
	return n, true
}

// find returns the action of a value. ok is false for a name where actions have no names yet.
func (a *arms) find(text string, ids string) (at int, ok bool, _ *Error) {
	if a.names != nil {
		if i, ok := a.index[text]; ok {
			return i, true, nil
		}
	}
	n, whole := wholeNumber(text)
	if a.names != nil && whole {
		if i, ok := a.index[strconv.Itoa(n)]; ok {
			return i, true, nil
		}
	}
	if a.names != nil && !(a.places && whole) {
		return 0, false, bad("action", strconv.Quote(text), "one of %s, as %s", shortList(a.names), a.from)
	}
	if !whole {
		if a.number {
			return 0, false, bad("action", strconv.Quote(text),
				"a number, as in the rows before (--actions NAME,NAME,… lists the actions where all are names)")
		}
		return 0, false, nil
	}
	if a.number = true; ids == "1" {
		n--
	}
	return n, true, nil
}

// shortList joins at most ten names.
func shortList(names []string) string {
	if len(names) > 10 {
		return strings.Join(names[:10], ", ") + ", … (" + strconv.Itoa(len(names)) + " in all)"
	}
	return strings.Join(names, ", ")
}

// fill gives the event its actions, where they have names.
func (a *arms) fill(e *Event, k int) {
	if a.names == nil || len(e.Actions) > 0 {
		return
	}
	for _, n := range a.names {
		e.action().ID = n
	}
	for len(e.Actions) < k {
		e.action()
	}
}

// collect takes the names that a column has, sorted, for a table that lists its actions nowhere else. each calls see
// with every value and its line or row until it returns false.
func (a *arms) collect(r *Reader, each func(see func(text string, at int) bool) error) error {
	seen := map[string]bool{}
	var names []string
	number, where := "", 0
	err := each(func(text string, at int) bool {
		if seen[text] {
			return true
		}
		text = strings.Clone(text)
		if _, whole := wholeNumber(text); whole {
			number, where = text, at
			return false
		}
		seen[text] = true
		names = append(names, text)
		return len(names) <= MaxActions
	})
	if err != nil {
		return err
	}
	slices.Sort(names)
	k := r.o.Actions
	switch {
	case number != "":
		return bad("action", strconv.Quote(names[0])+" and, in line or row "+strconv.Itoa(where)+", "+
			strconv.Quote(number), "either numbers or names (--actions NAME,NAME,… lists the actions where all are names)")
	case len(names) > MaxActions:
		return bad("action", "more than "+strconv.Itoa(MaxActions)+" names", "at most %d", MaxActions)
	case k > 0 && len(names) > k:
		return bad("action", strconv.Itoa(len(names))+" names: "+shortList(names), "at most %d, as --actions says", k)
	case k == 0:
		r.warn("actions are the " + strconv.Itoa(len(names)) + " names that were played; --actions K says so where more " +
			"were offered")
	}
	a.set(names, "the column has them in alphabetical order")
	return nil
}

// asFault returns an error of collect as one of the row where the first name stands.
func asFault(err error) (*Error, error) {
	if fault, ok := err.(*Error); ok && fault.File == "" {
		fault.fatal = true
		return fault, nil
	}
	return nil, err
}

// armList is one field of K columns.
type armList struct {
	field   string
	columns []string // as the header has them
	ends    []string // what stands behind the prefix; nil where the caller listed the columns one by one
}

// order returns, for each list, which of its columns belongs to which action: order[i][k] is the column of action k.
// The number or the name at the end of a column decides, never its place.
func (a *arms) order(r *Reader, lists []armList) ([][]int, error) {
	out := make([][]int, len(lists))
	for i, l := range lists {
		var err error
		if l.ends == nil {
			for k := range l.columns {
				out[i] = append(out[i], k)
			}
			continue
		}
		if out[i], err = a.orderOf(r, l); err != nil {
			return nil, err
		}
	}
	for _, l := range lists {
		if l.ends == nil && a.names != nil && !a.places {
			return nil, &Error{Line: 1, Field: l.field, Found: "columns one by one beside columns with names of actions",
				Want: "--actions NAME,NAME,… with the names in the order of these columns", fatal: true}
		}
	}
	return out, nil
}

func (a *arms) orderOf(r *Reader, l armList) ([]int, error) {
	refuse := func(column int, found, want string) error {
		return &Error{Line: 1, Field: l.columns[column], Found: found, Want: want, fatal: true}
	}
	ends := make([]string, len(l.ends))
	numbers, firstName, firstNumber := make([]int, len(ends)), -1, -1
	for i, end := range bareEnds(l.ends) {
		ends[i] = end
		n, whole := wholeNumber(ends[i])
		if numbers[i] = n; !whole && firstName < 0 {
			firstName = i
		} else if whole && firstNumber < 0 {
			firstNumber = i
		}
		if whole {
			ends[i] = strconv.Itoa(n)
		}
	}
	at := make(map[string]int, len(ends))
	for i, end := range ends {
		if k, twice := at[end]; twice {
			return nil, refuse(i, "the column of action "+end+", as "+l.columns[k], "one column for each action")
		}
		at[end] = i
	}
	if firstName < 0 { // all are numbers
		low := slices.Min(numbers)
		if (low == 0 || low == 1) && slices.Max(numbers) == low+len(ends)-1 &&
			(a.names == nil || len(a.names) == len(ends) && a.places) {
			if low == 1 && r.o.IDs == "" {
				r.warn("columns " + l.columns[at["1"]] + " … count from 1 and actions from 0, so that column is of action " +
					"0; --ids 1 where actions count from 1 too")
			}
			order := make([]int, len(ends))
			for i, n := range numbers {
				order[n-low] = i
			}
			return order, nil
		}
	}
	if a.names == nil {
		if firstName >= 0 && firstNumber >= 0 {
			return nil, refuse(firstName, strconv.Quote(ends[firstName])+" is no action's number", "numbers at the end, as "+
				l.columns[firstNumber]+" has (--actions NAME,NAME,… lists the actions where all are names)")
		}
		names := slices.Clone(ends)
		if firstName < 0 {
			slices.SortFunc(names, func(x, y string) int { return numbers[at[x]] - numbers[at[y]] })
		}
		a.set(names, "the columns "+l.columns[0]+" … say")
	}
	order := make([]int, len(a.names))
	for k, name := range a.names {
		i, ok := at[name]
		if !ok {
			return nil, &Error{Line: 1, Field: l.field, Found: "no column of action " + strconv.Quote(name) + " among " +
				shortList(l.columns), Want: "one for each of " + shortList(a.names) + ", as " + a.from, fatal: true}
		}
		order[k] = i
	}
	for i, end := range ends {
		if _, ok := a.index[end]; !ok {
			return nil, refuse(i, strconv.Quote(end)+" is no action"+spec.Suggest(end, a.names), "one of "+
				shortList(a.names)+", as "+a.from)
		}
	}
	return order, nil
}

// bareEnds are the ends of columns without what parts them from the prefix. A hyphen parts them where all ends have one;
// otherwise it is the sign of a number.
func bareEnds(ends []string) []string {
	const marks = "_.: "
	out := make([]string, len(ends))
	hyphen := true
	for i, end := range ends {
		out[i] = strings.TrimLeft(end, marks)
		hyphen = hyphen && strings.HasPrefix(out[i], "-")
	}
	for i := range out {
		if hyphen {
			out[i] = strings.TrimLeft(out[i], "-"+marks)
		}
	}
	return out
}

// counted sorts columns whose ends are different whole numbers by these; others stay in the order of the header.
func counted(columns []int, ends []string) {
	numbers := map[int]int{}
	seen := map[int]bool{}
	for i, end := range bareEnds(ends) {
		n, whole := wholeNumber(end)
		if !whole || seen[n] {
			return
		}
		seen[n], numbers[columns[i]] = true, n
	}
	slices.SortFunc(columns, func(x, y int) int { return numbers[x] - numbers[y] })
}

// again opens the file a second time, unpacked, to look through it before it is read.
func (r *Reader) again() (*bufio.Reader, func() error, error) {
	info, err := os.Stat(r.name)
	if r.stream || err != nil || !info.Mode().IsRegular() {
		return nil, nil, bad("action", "a name, from a stream", "numbers, or --actions NAME,NAME,… with all names: a stream "+
			"cannot be looked through before it is read")
	}
	f, err := os.Open(r.name)
	if err != nil {
		return nil, nil, err
	}
	second := &Reader{name: r.name, o: r.o}
	second.closers = append(second.closers, f.Close)
	b := bufio.NewReaderSize(f, 1<<18)
	head, err := b.Peek(1 << 16)
	if err == nil || err == io.EOF {
		b, _, _, err = second.unpack(b, head)
	}
	if err != nil {
		second.Close()
		return nil, nil, err
	}
	return b, second.Close, nil
}

// armNamer is implemented by sources whose arms may have names.
type armNamer interface{ armNames() []string }

var (
	_ armNamer = (*csvSource)(nil)
	_ armNamer = (*jsonlSource)(nil)
	_ armNamer = (*parquetSource)(nil)
)

// Arms returns the names of actions, by their numbers, where the log itself numbers none: a table whose columns or
// values are names. Nil otherwise. Known once the first event was read.
func (r *Reader) Arms() []string {
	if n, ok := r.src.(armNamer); ok {
		return n.armNames()
	}
	return r.names
}

// offered looks for two actions with one id.
type offered struct {
	before []string // ids of the actions of an event before, which are different
	ids    idTable
}

// twice returns two actions of an event that have one id; b is −1 where there are none. Cost: K comparisons where the ids
// are those of the event before.
func (o *offered) twice(e *Event) (a, b int) {
	if len(e.Actions) < 2 {
		return 0, -1
	}
	if len(e.Slots) > 0 { // in a slate each slot has actions of its own
		for i := range e.Slots {
			s := &e.Slots[i]
			o.ids.begin(len(s.Allowed))
			for _, k := range s.Allowed {
				if k < 0 || k >= len(e.Actions) {
					continue
				}
				if l := o.ids.add(e.Actions, k); l != k {
					return l, k
				}
			}
		}
		return 0, -1
	}
	same := len(o.before) == len(e.Actions)
	for i := 0; same && i < len(e.Actions); i++ {
		same = o.before[i] == e.Actions[i].ID
	}
	if same {
		return 0, -1
	}
	o.before = o.before[:0]
	o.ids.begin(len(e.Actions))
	for k := range e.Actions {
		if l := o.ids.add(e.Actions, k); l != k {
			return l, k
		}
	}
	for i := range e.Actions {
		o.before = append(o.before, e.Actions[i].ID)
	}
	return 0, -1
}

// idTable finds actions by their ids: open addressing, at most half full. begin empties it without a pass over it: an
// entry of another turn is empty.
type idTable struct {
	seed maphash.Seed
	slot []struct{ turn, at uint32 }
	turn uint32
}

// begin empties the table and makes room for n ids.
func (t *idTable) begin(n int) {
	if t.turn++; 2*n > len(t.slot) || t.turn == 0 {
		if t.slot == nil {
			t.seed = maphash.MakeSeed()
		}
		t.slot = make([]struct{ turn, at uint32 }, max(len(t.slot), 1<<bits.Len(uint(2*n))))
		t.turn = 1
	}
}

// add returns the action that was added with the id of action k, otherwise it adds k and returns k. An action without an
// id is not added.
func (t *idTable) add(actions []Action, k int) int {
	id := actions[k].ID
	if id == "" {
		return k
	}
	mask := uint64(len(t.slot) - 1)
	for i := maphash.String(t.seed, id) & mask; ; i = (i + 1) & mask {
		s := &t.slot[i]
		if s.turn != t.turn {
			s.turn, s.at = t.turn, uint32(k)
			return k
		}
		if actions[s.at].ID == id {
			return int(s.at)
		}
	}
}

func sameID(e *Event, a, b int) *Error {
	err := bad("actions["+strconv.Itoa(b)+"].id", shown([]byte(e.Actions[b].ID)), "an id that no other action has, but "+
		"actions["+strconv.Itoa(a)+"] has it")
	err.Reason = "action id twice"
	return err
}
