package effects

import "slices"

// sketch remembers which values were seen, as hashes at places of their own: the newest of each place. It has up to
// 8,192 places.
type sketch struct {
	keys []uint64
	used int

	shared *share
}

const maxSketch = 8192

// seenBefore reports whether a key was seen before, and notes it.
func (s *sketch) seenBefore(key uint64) bool {
	if len(s.keys) == 0 {
		s.keys = make([]uint64, 64)
	}
	at := &s.keys[key&uint64(len(s.keys)-1)]
	if *at == key {
		return true
	}
	if s.shared != nil {
		s.keys, s.shared = slices.Clone(s.keys), nil
		at = &s.keys[key&uint64(len(s.keys)-1)]
	}
	if *at == 0 {
		s.used++
	}
	*at = key
	if s.used > len(s.keys)/2 && len(s.keys) < maxSketch {
		old := s.keys
		s.keys, s.used = make([]uint64, 2*len(old)), 0
		for _, k := range old {
			if k == 0 {
				continue
			}
			s.keys[k&uint64(len(s.keys)-1)] = k
			s.used++
		}
	}
	return false
}
