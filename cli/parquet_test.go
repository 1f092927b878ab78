package cli

import (
	"bytes"
	"encoding/csv"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/parquet-go/parquet-go"
	"github.com/rogpeppe/go-internal/testscript"
)

// parquetRows checks the columns of a Parquet file, and each row against the results.csv beside it and the
// names of its policies: parquetrows FILE COLUMN,COLUMN,….
func parquetRows(ts *testscript.TestScript, neg bool, args []string) {
	name := ts.MkAbs(args[0])
	data, err := os.ReadFile(name)
	ts.Check(err)
	file, err := parquet.OpenFile(bytes.NewReader(data), int64(len(data)))
	ts.Check(err)
	var columns []string
	for _, c := range file.Root().Columns() {
		columns = append(columns, c.Name())
	}
	if got := strings.Join(columns, ","); got != args[1] {
		ts.Fatalf("columns %s, want %s", got, args[1])
	}
	text, err := os.ReadFile(filepath.Join(filepath.Dir(name), "results.csv"))
	ts.Check(err)
	lines, err := csv.NewReader(bytes.NewReader(text)).ReadAll()
	ts.Check(err)
	lines = lines[1:]
	if file.NumRows() != int64(len(lines)) {
		ts.Fatalf("%d rows, want %d", file.NumRows(), len(lines))
	}
	n := 0
	for _, group := range file.RowGroups() {
		rows := group.Rows()
		buf := make([]parquet.Row, 1)
		for range group.NumRows() {
			if k, err := rows.ReadRows(buf); k != 1 {
				ts.Fatalf("row %d: %v", n, err)
			}
			row, line := buf[0], lines[n]
			n++
			for i, v := range row {
				switch {
				case i < 4:
					if v.String() != line[i] {
						ts.Fatalf("row %d, %s is %s, want %s", n, columns[i], v, line[i])
					}
				case i < 6:
					if want, err := strconv.ParseFloat(line[i], 64); err != nil || v.Double() != want {
						ts.Fatalf("row %d, %s is %v, want %v", n, columns[i], v, line[i])
					}
				case v.IsNull():
					if strings.Contains(line[1], "=") {
						ts.Fatalf("row %d, %s is null for %s", n, columns[i], line[1])
					}
				default: // m=8, scale=0.5β
					short := strings.Split(columns[i], "_")[1] + "=" + strconv.FormatFloat(v.Double(), 'g', -1, 64)
					if !strings.Contains(line[0]+line[1], short) {
						ts.Fatalf("row %d, %s is %v for %s, %s", n, columns[i], v, line[0], line[1])
					}
				}
			}
		}
		ts.Check(rows.Close())
	}
}
