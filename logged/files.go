package logged

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// mostFiles bounds the files of one log.
const mostFiles = 100_000

// filesOf lists the files of a log with several, nil for one that is a file or stdin. Names that begin with a dot or with _ are those of
// tools that wrote the table.
func filesOf(name string) (files []string, err error) {
	info, failed := os.Stat(name)
	switch {
	case name == "-":
		return nil, nil
	case failed == nil && info.IsDir():
		files, err = IsTable(name)
		if err == nil && files == nil {
			return nil, nil // Open says that it is a directory
		}
	case failed != nil && strings.ContainsAny(name, "*?["):
		if files, err = filepath.Glob(name); err != nil {
			return nil, &Error{File: name, Found: err.Error(), Want: "a pattern such as logs/*.parquet", fatal: true}
		}
		files = slices.DeleteFunc(files, func(file string) bool {
			info, err := os.Stat(file)
			return err != nil || info.IsDir()
		})
		if len(files) == 0 {
			return nil, &Error{File: name, Found: "no file", Want: "files that the pattern fits", fatal: true}
		}
	default:
		return nil, nil
	}
	if err == nil && len(files) > mostFiles {
		err = &Error{File: name, Found: fmt.Sprintf("%d files", len(files)), Want: fmt.Sprintf("at most %d", mostFiles), fatal: true}
	}
	return files, err
}

// IsTable returns the Parquet files of a directory and of those in it, in the order of their names; nil where the first file is no Parquet
// file, as in the data directory of a server.
func IsTable(dir string) (files []string, err error) {
	none := errors.New("no table")
	err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		hidden := path != dir && (strings.HasPrefix(d.Name(), ".") || strings.HasPrefix(d.Name(), "_"))
		switch {
		case err != nil:
			return err
		case hidden && d.IsDir():
			return fs.SkipDir
		case hidden, d.IsDir():
			return nil
		case !d.Type().IsRegular():
			return nil
		case len(files) == 0 && !isParquet(path):
			return none
		}
		if files = append(files, path); len(files) > mostFiles {
			return fs.SkipAll
		}
		return nil
	})
	if errors.Is(err, none) {
		return nil, nil
	}
	slices.Sort(files)
	return files, err
}

// isParquet looks at the first bytes of a file.
func isParquet(name string) bool {
	f, err := os.Open(name)
	if err != nil {
		return false
	}
	defer f.Close()
	var b [4]byte
	n, _ := io.ReadFull(f, b[:])
	return string(b[:n]) == "PAR1"
}

// nextFile goes on with the next file of the log. Its format and the names of its actions are those of the first one.
func (r *Reader) nextFile() error {
	if names := r.Arms(); names != nil {
		r.o.Names, r.o.Actions = slices.Clone(names), 0
	}
	if err := r.closeFile(); err != nil {
		return err
	}
	format := r.format
	r.name, r.more, r.src = r.more[0], r.more[1:], nil
	if _, err := r.openNamed(); err != nil {
		return err
	}
	if r.format != format {
		return &Error{File: r.name, Found: titles[r.format], Want: titles[format] + ", as the files before", fatal: true}
	}
	return nil
}

// closeFile ends the reading of one file.
func (r *Reader) closeFile() (err error) {
	if r.src != nil {
		err = r.src.close()
	}
	for _, c := range slices.Backward(r.closers) {
		err = errors.Join(err, c())
	}
	r.closers = nil
	return err
}

// spool copies a stream to a file that is removed when the reader is closed: some formats are read at several places at once.
func (r *Reader) spool(b *bufio.Reader) (*os.File, error) {
	f, err := os.CreateTemp("", "troupe-stdin-*")
	if err != nil {
		return nil, err
	}
	r.closers = append(r.closers, func() error { return errors.Join(f.Close(), os.Remove(f.Name())) })
	if _, err := io.Copy(f, b); err != nil {
		return nil, err
	}
	_, err = f.Seek(0, io.SeekStart)
	return f, err
}
