// Command troupe runs linear ensemble sampling: experiments, their reports, what theory plans, the checks of
// the paper, and a decision server. Its commands are package cli.
package main

import (
	"troupe/cli"
	"troupe/sim"
)

func main() { cli.Main(sim.Kinds()) }
