package effects

import "fmt"

func (m *Model) parts() string {
	s := fmt.Sprintf("h %v\nevents %d n %d next %d t %d offset %v coords %d groups %d fields %v\n", m.s.h, m.s.events, m.s.n, m.s.next, m.s.t, m.s.offset, len(m.s.lay.coords), len(m.s.lay.groups), m.s.lay.fields)
	for _, x := range append([]*sums{m.s.main}, m.s.copies...) {
		s += fmt.Sprint("born ", x.born, " slot ", x.slot, " weigh ", x.weigh, " tail ", x.tail.used, x.tail.sum)
		for _, b := range x.blocks {
			if b != nil {
				s += fmt.Sprintf(" [%v %x]", b.n, b.sum)
			} else {
				s += " -"
			}
		}
		s += "\n"
	}
	if m.s.fit != nil {
		s += fmt.Sprintf("fit %+v\n", *m.s.fit)
	}
	return s + fmt.Sprint("numbers ", m.s.numbers, " seen ", m.s.seen.used, len(m.s.seen.keys))
}
