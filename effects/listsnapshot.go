package effects

import "errors"

func (l *scales) code(c *codec) {
	for i := range l.e {
		for _, x := range []*float64{&l.e[i], &l.s2[i], &l.n[i], &l.prec[i]} {
			c.float(x)
		}
		if !(l.s2[i] > 0) || l.e[i] < 0 {
			c.fail("a place of lists has no scale")
		}
	}
	c.bool(&l.open)
	c.float(&l.gain)
	c.bool(&l.any)
}

func (p *placed) code(c *codec) {
	for _, x := range []*float64{&p.n, &p.sy, &p.syy, &p.rest} {
		c.float(x)
	}
	c.floats(&p.a)
	c.floats(&p.v)
}

// checkPlaces refuses sums of places that do not fit the block.
func (b *block) checkPlaces(d int, lists bool) error {
	if len(b.placed) != 0 && (len(b.placed) != places || !lists) {
		return errors.New("a block has another number of places")
	}
	for _, p := range b.placed {
		if p != nil && (len(p.v) > d || len(p.a) != triangle(len(p.v))) {
			return errors.New("a place has another size")
		}
	}
	return nil
}

func (x *listExpected) code(c *codec) {
	for _, e := range append([]*expectedAt{&x.main}, &x.copies[0], &x.copies[1], &x.copies[2], &x.copies[3]) {
		for i := range e.z {
			c.float(&e.z[i])
		}
		c.float(&e.q)
	}
}
