// Package worlds is the measuring ground of the default learner: streams of decisions whose means are known, clients
// that send rewards as real ones do, a player interface, and rivals that a careful engineer could write.
//
//	w, err := worlds.New("segments", 7, 2000)  // the same bytes for the same three arguments
//	c, err := worlds.ClientOf(w.Client)        // or now, late, ones, bursts, random, zeros-first, some, batch, wild
//	r, err := worlds.Play(w, c, worlds.NewTable(w, 7))
//	r.Share(0, 1000)                           // (got − uniform)/(best − uniform), by the means
//
// A world has for every decision a context, candidates, the mean of each candidate and the reward that it would pay.
// So all players meet the same world, and what one of them plays does not move what another one is paid. A world of
// fewer decisions is the beginning of a longer one, except in the kinds whose change depends on the length.
//
// Five families: Base are the kinds on which constants may be chosen, on some seeds; Wide have many numbers, many
// actions or items that come and go; Change have means that move; Held are kinds for the last measurement, on which
// nothing may be chosen, and Later those that were written after the model stood. Parameters of a world are drawn from its seed: means, scales, peaks, tastes.
//
// Nothing here is used by a server. The package is safe for concurrent use; a World is not changed after New, and a
// player belongs to one goroutine.
package worlds
