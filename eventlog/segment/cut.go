package segment

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sort"
)

// Cut removes the entries behind one, synced or not. A crash in between leaves some or all of them. The caller has lowered
// the acknowledged end before. After an error nothing is known about the entries behind last, and Cut may be called again
// unless it is a *SyncError.
//
// Files go first, newest first, each after its end file; then the newest one that is left is shortened. So the files
// that are there always join.
func (s *Store) Cut(last uint64) error {
	if first := s.Oldest(); last+1 < first {
		return fmt.Errorf("segment: cut behind entry %d, the oldest one is %d", last, first)
	}
	s.mu.RLock()
	keep := sort.Search(len(s.pieces), func(i int) bool { return s.pieces[i].first > last+1 }) - 1
	n := len(s.pieces)
	p := s.pieces[keep]
	unchanged := keep == n-1 && p.last <= last
	s.mu.RUnlock()
	if unchanged { // only what is not synced goes
		return s.dropPending()
	}
	name := segmentName(p.first)
	f, err := s.opt.FS.Open(filepath.Join(s.opt.Dir, name), os.O_RDWR)
	if err != nil {
		return err
	}
	size := int64(headerSize)
	if last >= p.first {
		// Readers find the entries that stay without the end file, which goes.
		w, err := walk(f, p.size, p.header, nil)
		if err == nil && w.last < last {
			err = damage(name, w.size, w.last+1, last, "bytes %d to %d are not readable", w.size, p.size)
		}
		if err != nil {
			return errors.Join(err, f.Close())
		}
		size = w.size
		if k := last + 1 - p.first; k < uint64(len(w.offsets)) {
			size = int64(w.offsets[k])
		}
		s.mu.Lock()
		p.offsets, p.heads = w.offsets, &w.heads
		s.mu.Unlock()
	}
	for i := n - 1; i >= keep; i-- {
		first := s.pieces[i].first
		names := []string{endName(first)}
		if i > keep {
			names = append(names, segmentName(first))
		}
		for _, name := range names {
			s.handles.drop(name)
			if err := s.opt.FS.Remove(filepath.Join(s.opt.Dir, name)); err != nil && !errors.Is(err, os.ErrNotExist) {
				return errors.Join(err, f.Close())
			}
		}
	}
	if err := s.syncDir(); err != nil {
		return errors.Join(err, f.Close())
	}
	if err := f.Truncate(size); err != nil {
		return errors.Join(err, f.Close())
	}
	if !s.opt.NoSync {
		if err := f.Sync(); err != nil {
			return errors.Join(&SyncError{err}, f.Close())
		}
	}
	w, err := walk(f, size, p.header, s.sum)
	if err == nil && (w.size != size || w.last != last) {
		err = damage(name, w.size, w.last+1, last, "bytes %d to %d are not readable", w.size, size)
	}
	if err != nil {
		return errors.Join(err, f.Close())
	}
	_ = s.f.Close()
	s.f, s.size, s.room, s.pending, s.noRoom, s.full = f, size, size, s.pending[:0], false, false
	s.link, s.batches = w.link, w.batches
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pieces = s.pieces[:keep+1]
	p.take(w)
	p.sealed, p.sum = false, nil
	return nil
}

// dropPending removes the entries that were written and not synced.
func (s *Store) dropPending() error {
	if len(s.pending) == 0 {
		return nil
	}
	p := s.newest()
	if err := s.f.Truncate(p.size); err != nil {
		return err
	}
	w, err := walk(s.f, p.size, p.header, s.sum)
	if err == nil && w.last != p.last {
		err = damage(segmentName(p.first), w.size, w.last+1, p.last, "bytes %d to %d are not readable", w.size, p.size)
	}
	if err != nil {
		return err
	}
	s.size, s.room, s.link, s.batches, s.pending = p.size, p.size, p.link, w.batches, s.pending[:0]
	return nil
}
