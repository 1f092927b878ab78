package spec

import "strings"

// ZipKey is the key of a table that says which of its sweeps go together.
const ZipKey = "zip"

// Zip resolves the key zip of a table found at path: the sweeps that it names have their first values together, then
// their second ones, and so on, in place of every combination.
//
//	m   = [4, 16, 64]
//	scale = { kind = "constant", value = [0.5, 0.7, 1.0] }
//	zip = ["m", "scale.value"]
//
// A list of lists is several groups, which multiply out. The tables that it returns have no key zip; what it chose is
// in Swept. A table without the key gives itself alone. A name that is no list, lists of different lengths, and a name
// that stands twice are errors.
func Zip(raw Raw, path string) ([]Choice, error) {
	v, ok := raw[ZipKey]
	if !ok {
		return []Choice{{Value: raw}}, nil
	}
	at := Join(path, ZipKey)
	groups, err := zipGroups(v, at)
	if err != nil {
		return nil, err
	}
	rest := Raw{}
	for k, v := range raw {
		if k != ZipKey {
			rest[k] = v
		}
	}
	choices := []Choice{{Value: rest}}
	seen := map[string]bool{}
	for g, keys := range groups {
		n := 0
		for i, key := range keys {
			list, where := zipList(rest, key)
			place := Element(at, i)
			if len(groups) > 1 {
				place = Element(Element(at, g), i)
			}
			switch {
			case seen[key]:
				return nil, Errorf(place, "is %q, which stands in zip already", key)
			case list == nil:
				return nil, Errorf(place, "is %q, which is no sweep of this table: expected the path of a list "+
					"with values%s", key,
					Suggest(key, sweepsIn(rest, "")))
			case i > 0 && len(list) != n:
				return nil, Errorf(Join(path, where), "has %d values, and %s has %d: sweeps in zip have the same "+
					"number", len(list),
					keys[0], n)
			}
			seen[key], n = true, len(list)
		}
		var next []Choice
		for _, c := range choices {
			for i := range n {
				table := c.Value.(Raw)
				swept := append([]Setting(nil), c.Swept...)
				for _, key := range keys {
					list, _ := zipList(rest, key)
					table = with(table, strings.Split(key, "."), list[i])
					swept = append(swept, Setting{Key: key, Value: list[i]})
				}
				if next = append(next, Choice{Value: table, Swept: swept}); len(next) > MaxChoices {
					return next, nil
				}
			}
		}
		choices = next
	}
	return choices, nil
}

// zipGroups reads the value of zip: a list of names, or of lists of names.
func zipGroups(v any, at string) ([][]string, error) {
	list, ok := v.([]any)
	if !ok || len(list) == 0 {
		return nil, Errorf(at, "is %s, expected a list of sweeps such as [\"m\", \"scale.value\"]", Show(v))
	}
	if _, nested := list[0].([]any); !nested {
		list = []any{list}
	}
	var groups [][]string
	for g, v := range list {
		names, ok := v.([]any)
		place := at
		if len(list) > 1 {
			place = Element(at, g)
		}
		if !ok || len(names) < 2 {
			return nil, Errorf(place, "is %s, expected a list of two sweeps or more", Show(v))
		}
		var keys []string
		for i, n := range names {
			key, ok := n.(string)
			if !ok {
				return nil, Errorf(Element(place, i), "is %s, expected the name of a sweep", Show(n))
			}
			keys = append(keys, key)
		}
		groups = append(groups, keys)
	}
	return groups, nil
}

// zipList returns the list at a path of a table, nil where there is none, and the path.
func zipList(raw Raw, key string) ([]any, string) {
	var v any = raw
	for part := range strings.SplitSeq(key, ".") {
		table, ok := v.(Raw)
		if !ok {
			return nil, key
		}
		v = table[part]
	}
	list, _ := v.([]any)
	if len(list) == 0 {
		return nil, key
	}
	return list, key
}

// sweepsIn lists the paths of lists.
func sweepsIn(raw Raw, under string) (names []string) {
	for _, k := range sortedKeys(raw) {
		switch v := raw[k].(type) {
		case Raw:
			names = append(names, sweepsIn(v, Join(under, k))...)
		case []any:
			names = append(names, Join(under, k))
		}
	}
	return names
}

// with returns a copy of a table with another value at a path.
func with(table Raw, path []string, value any) Raw {
	out := Raw{}
	for k, v := range table {
		out[k] = v
	}
	if len(path) > 1 {
		value = with(table[path[0]].(Raw), path[1:], value)
	}
	out[path[0]] = value
	return out
}
