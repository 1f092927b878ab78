package dataset_test

import (
	"fmt"

	"troupe/dataset"
)

// A labelled table becomes rows in the unit ball. A damaged one is an error with line and column.
func Example() {
	const text = "colour,size,class\nred,1,eat\nblue,3,leave\nred,2,eat\n"
	table, err := dataset.Parse("berries.csv", []byte(text), dataset.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(table.Class.Levels, table.ClassCounts())
	rows, err := table.Encode(dataset.Encoding{Standardise: true, Intercept: true})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(rows.Names)
	_, err = dataset.Parse("berries.csv", []byte("colour,size,class\nred,1,eat\nblue,tree,leave\n"), dataset.Options{})
	fmt.Println(err)
	// Output:
	// [eat leave] [2 1]
	// [colour=blue colour=red size intercept]
	// berries.csv:3:6: column "size": the value is "tree", expected a number like the values above it (if the column holds names, list it as categorical; if this marks a missing value, --gap "tree" or gaps = ["tree"])
}
