package dataset

import "strings"

// parseARFF reads the attribute-relation file format of Weka.
func parseARFF(data []byte, o Options) (*Table, error) {
	lines := scanner{rest: data}
	columns, err := arffHeader(&lines)
	if err != nil {
		return nil, err
	}
	header := columnNames(columns)
	seen := make(map[string]bool)
	for _, n := range header {
		if seen[n] {
			return nil, place{lines.line, 1}.errorf("two attributes have the name %s", show(n))
		}
		seen[n] = true
	}
	class, err := classColumn(header, o)
	if err != nil {
		return nil, err
	}
	if c := &columns[class]; c.kind != nominal {
		c.kind = codes
	}
	columns[class].class = true
	rows, err := arffRows(&lines, columns)
	if err != nil {
		return nil, err
	}
	return table(columns, class, rows)
}

// arffHeader reads the attributes, up to @data.
func arffHeader(lines *scanner) ([]builder, error) {
	var columns []builder
	relation, inData := false, false
	for !inData && lines.next() {
		l := lexer{s: lines.text, line: lines.line}
		l.blanks()
		if l.done() {
			continue
		}
		at := l.at()
		word := l.word()
		switch strings.ToLower(word) {
		case "@relation":
			if relation {
				return nil, at.errorf("a second @relation")
			}
			relation = true // its name has no use here
		case "@attribute":
			b, err := l.attribute()
			if err != nil {
				return nil, err
			}
			if err := checkSize(at, 1, len(columns)+1); err != nil {
				return nil, err
			}
			columns = append(columns, b)
		case "@data":
			inData = true
		default:
			return nil, at.errorf("%s, expected @relation, @attribute, @data or a comment", show(word))
		}
	}
	if !inData {
		return nil, place{max(lines.line, 1), 1}.errorf("the file ends before @data")
	}
	if len(columns) < 2 {
		return nil, place{lines.line, 1}.errorf("%d attributes, expected at least a feature and a class", len(columns))
	}
	return columns, nil
}

// arffRows reads the rows behind @data into the columns.
func arffRows(lines *scanner, columns []builder) (int, error) {
	rows := 0
	var fields []field
	var err error
	for lines.next() {
		l := lexer{s: lines.text, line: lines.line}
		l.blanks()
		if l.done() {
			continue
		}
		if l.s[l.i] == '{' {
			return 0, l.at().errorf("a sparse row, which is not supported; write out the zeros")
		}
		if fields, err = l.row(fields[:0]); err != nil {
			return 0, err
		}
		if len(fields) != len(columns) {
			return 0, fields[0].at.errorf("%d fields, expected %d", len(fields), len(columns))
		}
		rows++
		if err := checkSize(fields[0].at, rows, len(columns)); err != nil {
			return 0, err
		}
		for i, f := range fields {
			if f.text == "" && !f.quoted {
				return 0, f.at.errorf("column %s: the value is empty, expected ? for a missing value",
					show(columns[i].name))
			}
			if err := columns[i].add(f); err != nil {
				return 0, err
			}
		}
	}
	return rows, nil
}

// lexer reads one line of an ARFF file.
type lexer struct {
	s    string
	i    int
	line int
}

func (l *lexer) at() place { return place{l.line, l.i + 1} }

// done reports whether nothing or a comment is left.
func (l *lexer) done() bool { return l.i == len(l.s) || l.s[l.i] == '%' }

func (l *lexer) blanks() {
	for l.i < len(l.s) && (l.s[l.i] == ' ' || l.s[l.i] == '\t' || l.s[l.i] == '\r') {
		l.i++
	}
}

// word reads up to a blank, a comment or a brace.
func (l *lexer) word() string {
	begin := l.i
	for l.i < len(l.s) && !strings.ContainsRune(" \t\r%{", rune(l.s[l.i])) {
		l.i++
	}
	return l.s[begin:l.i]
}

// value reads a quoted value, or an unquoted one that ends before one of the bytes in stop.
func (l *lexer) value(stop string) (field, error) {
	l.blanks()
	f := field{at: l.at()}
	if l.i < len(l.s) && (l.s[l.i] == '\'' || l.s[l.i] == '"') {
		quote := l.s[l.i]
		var b strings.Builder
		for l.i++; l.i < len(l.s); l.i++ {
			c := l.s[l.i]
			if c == quote {
				l.i++
				l.blanks()
				f.text, f.quoted = b.String(), true
				return f, nil
			}
			if c == '\\' && l.i+1 < len(l.s) {
				l.i++
				switch c = l.s[l.i]; c {
				case 'n':
					c = '\n'
				case 't':
					c = '\t'
				case 'r':
					c = '\r'
				}
			}
			b.WriteByte(c)
		}
		return f, f.at.errorf("a quoted value that does not end")
	}
	begin := l.i
	for l.i < len(l.s) && l.s[l.i] != '%' && strings.IndexByte(stop, l.s[l.i]) < 0 {
		if c := l.s[l.i]; c == '\'' || c == '"' {
			return f, l.at().errorf("a quote inside a value that does not begin with one")
		}
		l.i++
	}
	f.text = strings.TrimRight(l.s[begin:l.i], " \t\r")
	return f, nil
}

// attribute reads a name and a type.
func (l *lexer) attribute() (builder, error) {
	name, err := l.value(" \t\r{")
	if err != nil {
		return builder{}, err
	}
	if name.text == "" {
		return builder{}, name.at.errorf("an attribute without a name")
	}
	b := builder{name: name.text}
	l.blanks()
	at := l.at()
	if !l.done() && l.s[l.i] == '{' {
		l.i++
		b.kind = nominal
		err = l.levels(&b)
	} else {
		t := l.word()
		switch strings.ToLower(t) {
		case "numeric", "real":
			b.kind = numeric
		case "integer":
			b.kind = whole
		case "string", "date", "relational":
			return b, at.errorf("attribute %s: the type %s is not supported; expected numeric, integer, real or "+
				"{levels}", show(b.name), strings.ToLower(t))
		default:
			return b, at.errorf("attribute %s: the type is %s, expected numeric, integer, real or {levels}",
				show(b.name), show(t))
		}
	}
	if err != nil {
		return b, err
	}
	if l.blanks(); !l.done() {
		return b, l.at().errorf("attribute %s: %s after the type", show(b.name), show(l.s[l.i:]))
	}
	return b, nil
}

// levels reads the levels of a nominal attribute after its opening brace.
func (l *lexer) levels(b *builder) error {
	b.levels = []string{}
	b.index = make(map[string]int32)
	for {
		f, err := l.value(",}")
		if err != nil {
			return err
		}
		if l.done() {
			return l.at().errorf("attribute %s: the list of levels does not end with a brace", show(b.name))
		}
		c := l.s[l.i]
		if f.text == "" && !f.quoted {
			return f.at.errorf("attribute %s: an empty level", show(b.name))
		}
		if _, ok := b.index[f.text]; ok {
			return f.at.errorf("attribute %s: the level %s is declared twice", show(b.name), show(f.text))
		}
		if c != ',' && c != '}' {
			return l.at().errorf("attribute %s: %s after a level, expected a comma or a closing brace", show(b.name),
				show(l.s[l.i:]))
		}
		b.code(f.text)
		l.i++
		if c == '}' {
			return nil
		}
	}
}

// row appends the values of a row of data.
func (l *lexer) row(dst []field) ([]field, error) {
	for {
		f, err := l.value(",")
		if err != nil {
			return dst, err
		}
		dst = append(dst, f)
		if l.done() {
			return dst, nil
		}
		if l.s[l.i] != ',' {
			return dst, l.at().errorf("%s after a quoted value, expected a comma", show(l.s[l.i:]))
		}
		l.i++
	}
}
