package joined

import (
	"encoding/json"
	"fmt"

	"troupe/feature"
	"troupe/serve/candidates"
)

// Hash is the hash of a hashed feature: a 64-bit number in Parquet, 16 hexadecimal digits in JSON, where large numbers
// lose their last digits.
type Hash uint64

// MarshalText implements encoding.TextMarshaler.
func (h Hash) MarshalText() ([]byte, error) { return fmt.Appendf(nil, "%016x", uint64(h)), nil }

// Dense is the vector of a candidate. In Parquet it is a list in a list with a name, which every reader takes; in JSON
// the vector itself.
type Dense struct {
	X []float64 `parquet:"x,list" doc:"numbers of one candidate"`
}

// MarshalJSON implements json.Marshaler.
func (r Dense) MarshalJSON() ([]byte, error) { return json.Marshal(r.X) }

// Sparse is the hashed features of a decision in coordinate form: of the context, Row −1, and of each candidate, Row
// its place among those that were available. All slices have one length.
type Sparse struct {
	Row   []int32
	Hash  []Hash
	Value []float64
}

// Candidates reads what the record of a decision keeps of its candidates: vectors, or hashed features, or neither; and
// the place of each among the candidates of the request, nil when all were available.
func Candidates(full []byte) (dense []Dense, sparse Sparse, places []int, err error) {
	set, err := candidates.Parse(full)
	if err != nil {
		return nil, sparse, nil, err
	}
	if set.D > 0 {
		for i := range set.K {
			dense = append(dense, Dense{set.X[i*set.D : (i+1)*set.D : (i+1)*set.D]})
		}
	}
	add := func(row int, atoms []feature.Atom) {
		for _, a := range atoms {
			sparse.Row, sparse.Hash, sparse.Value = append(sparse.Row, int32(row)), append(sparse.Hash, Hash(a.Hash)),
				append(sparse.Value, a.Value)
		}
	}
	if set.Actions != nil {
		add(-1, set.Context)
	}
	for i, a := range set.Actions {
		add(i, a)
	}
	if set.Grid != nil { // the candidates are cells of the actions
		places = make([]int, len(set.Of))
		for i := range places {
			if places[i], err = set.Place(i); err != nil {
				return nil, sparse, nil, err
			}
		}
		return dense, sparse, places, nil
	}
	return dense, sparse, set.Places, nil
}
