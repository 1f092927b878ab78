package chart

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"sync"

	"codeberg.org/go-fonts/liberation/liberationsansregular"
	"golang.org/x/image/font/opentype"
	"golang.org/x/image/font/sfnt"
)

// vgpdf embeds the whole font in every PDF: 200 kB for a figure of 15. The figures write in the code
// page Windows 1252, so the font that is embedded keeps only its letters.

// pdfFont is Liberation Sans with the letters of Windows 1252, for embedding.
var pdfFont = sync.OnceValue(func() *opentype.Font {
	small, err := subset(liberationsansregular.TTF, codePageRunes())
	if err != nil {
		panic("report: " + err.Error())
	}
	f, err := opentype.Parse(small)
	if err != nil {
		panic("report: the subset of the font does not parse: " + err.Error())
	}
	return f
})

// codePageRunes lists the characters that pdfCanvas can write.
func codePageRunes() []rune {
	var runes []rune
	for r := rune(0x20); r < 0x7f; r++ {
		runes = append(runes, r)
	}
	for r := rune(0xa0); r <= 0xff; r++ {
		runes = append(runes, r)
	}
	for r := range codePage {
		runes = append(runes, r)
	}
	slices.Sort(runes)
	return runes
}

// subset returns a TrueType font with the outlines of the given characters alone. Glyphs keep their
// numbers, so cmap and hmtx stay as they are; the others are empty, and tables that a PDF does not
// use are left out.
func subset(ttf []byte, runes []rune) ([]byte, error) {
	be := binary.BigEndian
	tables := map[string][]byte{}
	for i := range int(be.Uint16(ttf[4:])) {
		e := ttf[12+16*i:]
		tables[string(e[:4])] = ttf[be.Uint32(e[8:]):][:be.Uint32(e[12:])]
	}
	for _, name := range []string{"head", "maxp", "loca", "glyf"} {
		if tables[name] == nil {
			return nil, fmt.Errorf("the font has no table %s", name)
		}
	}
	head, loca, glyf := slices.Clone(tables["head"]), tables["loca"], tables["glyf"]
	n := int(be.Uint16(tables["maxp"][4:]))
	long := be.Uint16(head[50:]) == 1
	at := func(g int) int {
		if long {
			return int(be.Uint32(loca[4*g:]))
		}
		return 2 * int(be.Uint16(loca[2*g:]))
	}

	f, err := sfnt.Parse(ttf)
	if err != nil {
		return nil, err
	}
	keep := map[int]bool{}
	var add func(g int)
	add = func(g int) {
		if keep[g] || g >= n {
			return
		}
		keep[g] = true
		data := glyf[at(g):at(g+1)]
		if len(data) < 10 || int16(be.Uint16(data)) >= 0 {
			return
		}
		const words, more, scale, xy, matrix = 1, 1 << 5, 1 << 3, 1 << 6, 1 << 7
		for p := 10; ; { // a composite: its parts are needed too
			flags, part := be.Uint16(data[p:]), int(be.Uint16(data[p+2:]))
			add(part)
			p += 6
			if flags&words != 0 {
				p += 2
			}
			switch {
			case flags&scale != 0:
				p += 2
			case flags&xy != 0:
				p += 4
			case flags&matrix != 0:
				p += 8
			}
			if flags&more == 0 {
				return
			}
		}
	}
	add(0) // the box for what is missing
	var buf sfnt.Buffer
	for _, r := range runes {
		g, err := f.GlyphIndex(&buf, r)
		if err != nil {
			return nil, err
		}
		if g == 0 {
			return nil, fmt.Errorf("the font has no %q", r)
		}
		add(int(g))
	}

	var outlines bytes.Buffer
	places := make([]byte, 4*(n+1))
	for g := range n {
		be.PutUint32(places[4*g:], uint32(outlines.Len()))
		if keep[g] {
			outlines.Write(glyf[at(g):at(g+1)])
			for outlines.Len()%4 != 0 {
				outlines.WriteByte(0)
			}
		}
	}
	be.PutUint32(places[4*n:], uint32(outlines.Len()))
	be.PutUint16(head[50:], 1)
	be.PutUint32(head[8:], 0) // checkSumAdjustment, set below

	out := map[string][]byte{"head": head, "loca": places, "glyf": outlines.Bytes()}
	for _, name := range []string{"OS/2", "cmap", "cvt ", "fpgm", "hhea", "hmtx", "maxp", "name", "post", "prep"} {
		if t := tables[name]; t != nil {
			out[name] = t
		}
	}
	if post := out["post"]; len(post) >= 32 { // version 3: without the names of the glyphs
		out["post"] = append([]byte{0, 3, 0, 0}, post[4:32]...)
	}
	names := make([]string, 0, len(out))
	for name := range out {
		names = append(names, name)
	}
	slices.Sort(names)
	k := int(math.Log2(float64(len(names))))
	file := be.AppendUint32(nil, 0x00010000)
	for _, v := range []int{len(names), 16 << k, k, 16*len(names) - 16<<k} {
		file = be.AppendUint16(file, uint16(v))
	}
	offset := 12 + 16*len(names)
	for _, name := range names {
		file = append(file, name...)
		file = be.AppendUint32(file, checksum(out[name]))
		file = be.AppendUint32(file, uint32(offset))
		file = be.AppendUint32(file, uint32(len(out[name])))
		offset += (len(out[name]) + 3) &^ 3
	}
	adjust := 0
	for _, name := range names {
		if name == "head" {
			adjust = len(file) + 8
		}
		file = append(file, out[name]...)
		for len(file)%4 != 0 {
			file = append(file, 0)
		}
	}
	be.PutUint32(file[adjust:], 0xb1b0afba-checksum(file))
	return file, nil
}

// checksum is the sum of a table's words.
func checksum(data []byte) (sum uint32) {
	for len(data) >= 4 {
		sum += binary.BigEndian.Uint32(data)
		data = data[4:]
	}
	var last [4]byte
	copy(last[:], data)
	return sum + binary.BigEndian.Uint32(last[:])
}
