package cli

import (
	"bytes"
	"encoding/csv"
	"errors"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"

	"github.com/parquet-go/parquet-go"

	"troupe/sim"
)

// parquetFile is the name of the results as Parquet.
const parquetFile = "results.parquet"

// sweptColumn is a column of a swept option: numbers where every value is one, text otherwise.
type sweptColumn struct {
	name    string
	numbers bool
	of      map[string]any // by the name of the policy or the environment
}

// sweptColumns lists the columns environment_d, policy_m, policy_scale_value, ….
func sweptColumns(x *sim.Experiment) (environments, policies []sweptColumn) {
	byEnvironment, byPolicy := x.SweptKeys()
	for _, k := range byEnvironment {
		c := newSweptColumn("environment", k)
		for i := range x.Environments {
			c.add(x.Environments[i].Name, &x.Environments[i])
		}
		environments = append(environments, c.sweptColumn)
	}
	for _, k := range byPolicy {
		c := newSweptColumn("policy", k)
		for i := range x.Policies {
			c.add(x.Policies[i].Name, &x.Policies[i])
		}
		policies = append(policies, c.sweptColumn)
	}
	return environments, policies
}

type columnMaker struct {
	sweptColumn
	key string
}

func newSweptColumn(table, key string) *columnMaker {
	return &columnMaker{sweptColumn{table + "_" + strings.ReplaceAll(key, ".", "_"), true, map[string]any{}}, key}
}

func (c *columnMaker) add(name string, from interface{ Setting(string) (any, bool) }) {
	v, ok := from.Setting(c.key)
	if !ok {
		return
	}
	_, number := number(v)
	c.numbers = c.numbers && number
	c.of[name] = v
}

// writeParquet writes the rows of results.csv, and the swept options as columns of their own, which are null where
// a policy or an environment has none.
func writeParquet(name string, x *sim.Experiment, results []byte) error {
	environments, policies := sweptColumns(x)
	all := append(environments[:len(environments):len(environments)], policies...)
	row := reflect.New(rowType(all)).Elem()
	f, err := os.CreateTemp(filepath.Dir(name), "."+filepath.Base(name)+".*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) // after the rename there is nothing left to remove
	w := parquet.NewWriter(f, parquet.SchemaOf(row.Addr().Interface()), parquet.Compression(&parquet.Zstd),
		parquet.MaxRowsPerRowGroup(1<<20))
	in := csv.NewReader(bytes.NewReader(results))
	in.ReuseRecord = true
	if _, err = in.Read(); err != nil {
		return errors.Join(err, f.Close())
	}
	for {
		rec, err := in.Read()
		if err == io.EOF {
			break
		}
		if err == nil {
			err = fill(row, rec)
		}
		if err == nil {
			for i, c := range all {
				key := rec[1]
				if i < len(environments) {
					key = rec[0]
				}
				row.Field(6 + i).Set(c.value(strings.Clone(key)))
			}
			err = w.Write(row.Addr().Interface())
		}
		if err != nil {
			return errors.Join(err, f.Close())
		}
	}
	if err := errors.Join(w.Close(), f.Chmod(0o644), f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), name)
}

// rowType is the struct of a row: the columns of results.csv and the swept ones.
func rowType(swept []sweptColumn) reflect.Type {
	fieldOf := func(i int, column string, t reflect.Type, option string) reflect.StructField {
		return reflect.StructField{Name: "F" + strconv.Itoa(i), Type: t, Tag: reflect.StructTag(`parquet:"` + column + option + `"`)}
	}
	text, whole, number := reflect.TypeFor[string](), reflect.TypeFor[int64](), reflect.TypeFor[float64]()
	fields := []reflect.StructField{
		fieldOf(0, "environment", text, ",dict"), fieldOf(1, "policy", text, ",dict"),
		fieldOf(2, "replication", whole, ""),
		fieldOf(3, "round", whole, ""), fieldOf(4, "regret", number, ""), fieldOf(5, "reward", number, ""),
	}
	for i, c := range swept {
		t := reflect.TypeFor[*string]()
		if c.numbers {
			t = reflect.TypeFor[*float64]()
		}
		fields = append(fields, fieldOf(6+i, c.name, t, ",optional"))
	}
	return reflect.StructOf(fields)
}

// fill stores the fields of a line of results.csv in the first columns of a row.
func fill(row reflect.Value, rec []string) error {
	for i, text := range rec {
		switch {
		case i < 2:
			row.Field(i).SetString(strings.Clone(text))
		case i < 4:
			n, err := strconv.ParseInt(text, 10, 64)
			if err != nil {
				return err
			}
			row.Field(i).SetInt(n)
		default:
			v, err := strconv.ParseFloat(text, 64)
			if err != nil {
				return err
			}
			row.Field(i).SetFloat(v)
		}
	}
	return nil
}

// number returns the value of an option that is a number.
func number(v any) (float64, bool) {
	switch r := reflect.ValueOf(v); {
	case r.CanInt():
		return float64(r.Int()), true
	case r.CanFloat():
		return r.Float(), true
	}
	return 0, false
}

// value is the column's value of a policy or an environment, a nil pointer where it has none.
func (c *sweptColumn) value(name string) reflect.Value {
	v, ok := c.of[name]
	if c.numbers {
		if !ok {
			return reflect.Zero(reflect.TypeFor[*float64]())
		}
		f, _ := number(v)
		return reflect.ValueOf(&f)
	}
	if !ok {
		return reflect.Zero(reflect.TypeFor[*string]())
	}
	text := sim.SettingText(v)
	return reflect.ValueOf(&text)
}
