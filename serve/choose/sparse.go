package choose

import "troupe/feature"

// sparse are the candidates with hashed features. What it holds belongs to a batch, or to a record.
type sparse struct {
	context []feature.Atom
	actions [][]feature.Atom // of each candidate
	at      [][]uint32
	x       [][]float64
}

func (s *sparse) clear() {
	s.actions, s.at, s.x = s.actions[:0], s.at[:0], s.x[:0]
}

// read takes the actions of a batch at these places.
func (s *sparse) read(b *feature.AtomBatch, places []int) {
	s.clear()
	s.context = b.Context()
	for _, i := range places {
		at, x := b.Nonzeros(i)
		s.actions, s.at, s.x = append(s.actions, b.Action(i)), append(s.at, at), append(s.x, x)
	}
}
