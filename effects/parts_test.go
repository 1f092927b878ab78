package effects

import "fmt"

func (m *Model) parts() string {
	s := fmt.Sprintf("h %v\nevents %d n %d next %d t %d offset %v coords %d groups %d fields %v\n", m.h, m.events, m.n, m.next, m.t, m.offset, len(m.lay.coords), len(m.lay.groups), m.lay.fields)
	for _, x := range append([]*sums{m.main}, m.copies...) {
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
	if m.fit != nil {
		s += fmt.Sprintf("fit %+v\n", *m.fit)
	}
	return s + fmt.Sprint("numbers ", m.numbers, " seen ", m.seen.used, len(m.seen.keys))
}
