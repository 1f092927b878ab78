package spec

import (
	"maps"
	"reflect"
)

// Kinds are the registries of a catalogue, by what they hold: where a nested table, such as the base of a
// wrapper or the set of an environment, looks its kind up. A nil *Kinds has no registry.
type Kinds struct {
	registries map[reflect.Type]any // Registry[T] by T
}

// Binder is a Decoder whose kinds a catalogue may extend. BindKinds is called on the zero value or a default,
// before DecodeSpec and ExpandSpec.
type Binder interface {
	Decoder
	BindKinds(*Kinds)
}

// Bind adds a copy of a registry to kinds and returns the copy. Options that the copy makes look the kinds of
// their nested tables up in kinds, also in registries that are added later. kinds may not be shared before
// the last call of Bind.
func Bind[T any](kinds *Kinds, reg Registry[T]) Registry[T] {
	bound := maps.Clone(reg)
	for name, mk := range reg {
		bound[name] = func() T {
			options := mk()
			kinds.bind(options)
			return options
		}
	}
	if kinds.registries == nil {
		kinds.registries = make(map[reflect.Type]any)
	}
	kinds.registries[reflect.TypeFor[T]()] = bound
	return bound
}

// In returns the registry of T in kinds, and the one given where kinds has none.
func In[T any](kinds *Kinds, otherwise Registry[T]) Registry[T] {
	if kinds != nil {
		if reg, ok := kinds.registries[reflect.TypeFor[T]()]; ok {
			return reg.(Registry[T])
		}
	}
	return otherwise
}

// bind hands kinds to the nested tables of an options struct.
func (k *Kinds) bind(options any) {
	v := reflect.ValueOf(options)
	if v.Kind() != reflect.Pointer || v.Elem().Kind() != reflect.Struct {
		return
	}
	v = v.Elem()
	for i := range v.NumField() {
		if v.Type().Field(i).Tag.Get("key") == "" {
			continue
		}
		if b, ok := v.Field(i).Addr().Interface().(Binder); ok {
			b.BindKinds(k)
		}
	}
}
