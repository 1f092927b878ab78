package paged

// Longest returns how many slots the longest search for a touched coordinate looks at.
func (t *Table) Longest() (n uint32) {
	t.Each(func(i uint32, _, _, _ float64) {
		slot, _ := t.slot(i)
		n = max(n, (slot-t.home(i))&t.slots+1)
	})
	return n
}
