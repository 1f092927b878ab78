package segment

import (
	"errors"
	"io"
	"os"
)

// FS is what a store needs of a file system. Paths are those of package path/filepath. A simulation has one of its own.
type FS interface {
	MkdirAll(dir string) error
	// Open opens a file with the flags of package os. A file that is not there is an error that wraps os.ErrNotExist.
	Open(name string, flag int) (File, error)
	// ReadDir returns the names in a directory, in any order.
	ReadDir(dir string) ([]string, error)
	Rename(from, to string) error
	Remove(name string) error
	RemoveAll(dir string) error
	// SyncDir makes the names in a directory durable.
	SyncDir(dir string) error
}

// File is an open file of an FS.
type File interface {
	io.ReaderAt
	io.WriterAt
	io.Closer
	Size() (int64, error)
	Truncate(size int64) error
	// Sync makes the file durable, SyncData its bytes and its length.
	Sync() error
	SyncData() error
	// Allocate makes room for n bytes from an offset on, which are read as zeros. It returns false where the file system
	// cannot, or has no room.
	Allocate(at, n int64) bool
}

// OS is the file system of this machine.
var OS FS = osFS{}

type osFS struct{}

func (osFS) MkdirAll(dir string) error    { return os.MkdirAll(dir, 0o700) }
func (osFS) Rename(from, to string) error { return os.Rename(from, to) }
func (osFS) Remove(name string) error     { return os.Remove(name) }
func (osFS) RemoveAll(dir string) error   { return os.RemoveAll(dir) }

func (osFS) Open(name string, flag int) (File, error) {
	f, err := os.OpenFile(name, flag, 0o600)
	if err != nil {
		return nil, err
	}
	return &osFile{f}, nil
}

func (osFS) ReadDir(dir string) ([]string, error) {
	files, err := os.ReadDir(dir)
	names := make([]string, len(files))
	for i, f := range files {
		names[i] = f.Name()
	}
	return names, err
}

func (osFS) SyncDir(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

type osFile struct{ f *os.File }

func (o *osFile) ReadAt(b []byte, at int64) (int, error)  { return o.f.ReadAt(b, at) }
func (o *osFile) WriteAt(b []byte, at int64) (int, error) { return o.f.WriteAt(b, at) }
func (o *osFile) Close() error                            { return o.f.Close() }
func (o *osFile) Truncate(size int64) error               { return o.f.Truncate(size) }
func (o *osFile) Sync() error                             { return o.f.Sync() }
func (o *osFile) SyncData() error                         { return datasync(o.f) }
func (o *osFile) Allocate(at, n int64) bool               { return allocate(o.f, at, n) }

func (o *osFile) Size() (int64, error) {
	st, err := o.f.Stat()
	if err != nil {
		return 0, err
	}
	return st.Size(), nil
}

// readFile returns the bytes of a file.
func readFile(fs FS, name string) ([]byte, error) {
	f, err := fs.Open(name, os.O_RDONLY)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	n, err := f.Size()
	if err != nil {
		return nil, err
	}
	b := make([]byte, n)
	got, err := f.ReadAt(b, 0)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return b[:got], err
}

// WriteFile makes a file that is there as a whole or not at all. Its name is durable after the sync of the directory.
func WriteFile(fs FS, name string, b []byte) error { return writeFile(fs, name, b, true) }

// ReadFile returns the bytes of a file.
func ReadFile(fs FS, name string) ([]byte, error) { return readFile(fs, name) }

// copyFile writes the bytes of a file to w.
func copyFile(w io.Writer, f File) error {
	n, err := f.Size()
	if err != nil {
		return err
	}
	_, err = io.Copy(w, io.NewSectionReader(f, 0, n))
	return err
}
