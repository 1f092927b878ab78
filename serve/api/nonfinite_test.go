package api

import (
	"fmt"
	"math"
	"reflect"
)

// notFinite lists the paths of the numbers in v that JSON cannot hold.
func notFinite(v any) (out []string) {
	var walk func(path string, v reflect.Value)
	walk = func(path string, v reflect.Value) {
		switch v.Kind() {
		case reflect.Float64, reflect.Float32:
			if x := v.Float(); math.IsNaN(x) || math.IsInf(x, 0) {
				out = append(out, fmt.Sprintf("%s is %v", path, x))
			}
		case reflect.Pointer, reflect.Interface:
			if !v.IsNil() {
				walk(path, v.Elem())
			}
		case reflect.Struct:
			for i := range v.NumField() {
				if f := v.Type().Field(i); f.Type.Kind() == reflect.Interface && f.Tag.Get("json") == "-" {
					continue // what answers questions about the model: all of the server is behind it
				}
				walk(path+"."+v.Type().Field(i).Name, v.Field(i))
			}
		case reflect.Slice, reflect.Array:
			for i := range v.Len() {
				walk(fmt.Sprintf("%s[%d]", path, i), v.Index(i))
			}
		case reflect.Map:
			for _, k := range v.MapKeys() {
				walk(fmt.Sprintf("%s[%v]", path, k), v.MapIndex(k))
			}
		}
	}
	walk("", reflect.ValueOf(v))
	return out
}
