package numbers_test

import (
	"fmt"

	"troupe/serve/numbers"
)

// A price in steps of a half and a bid of any size: a request narrows the price.
func ExampleAsked() {
	model := []numbers.Range{{Name: "price", Min: 1, Max: 20, Step: .5}, {Name: "bid", Min: 0, Max: 1}}
	least := 19.
	g, err := numbers.Asked(model, []numbers.Ask{{Name: "price", Min: &least}})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(g.Cells(0b01), "prices,", g.Cells(0b10), "cells of the bid,", g.Cells(0b11), "of both")
	fmt.Println(g.Of(nil, 0b11, 17))
	// Output:
	// 3 prices, 16 cells of the bid, 48 of both
	// [{0 19.5 19.5} {1 0.0625 0.125}]
}
