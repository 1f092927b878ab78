// Command wasm is the program of the playground's page, compiled for a browser: it hands the page's script an object
// "troupe" with which it plays and draws. Compiled for the machine itself it is the command that builds that program
// into playground/page:
//
//	go run ./playground/wasm
package main

import (
	"syscall/js"

	"troupe/playground"
)

// player is what the page shows.
type player struct {
	game  *playground.Game
	state playground.State
}

func main() {
	p := &player{}
	api := js.Global().Get("Object").New()
	for name, f := range map[string]func(args []js.Value) any{
		"open": p.open, "to": p.to, "look": p.look, "view": p.view, "trace": p.trace,
	} {
		api.Set(name, js.FuncOf(func(_ js.Value, args []js.Value) any { return f(args) }))
	}
	api.Set("kinds", kinds())
	js.Global().Set("troupe", api)
	select {} // the page calls from now on
}

func kinds() js.Value {
	var all []any
	for _, k := range playground.Kinds() {
		members, scale, restarts := playground.Abilities(k)
		all = append(all, map[string]any{"name": k, "m": members, "scale": scale, "change": restarts})
	}
	return js.ValueOf(all)
}

// open(link) plays what a link says, and returns "" or what is wrong with it. Then everything is as it was.
func (p *player) open(args []js.Value) any {
	state, err := playground.ParseLink(args[0].String())
	if err != nil {
		return err.Error()
	}
	game, err := playground.Play(state.Setup, state.At)
	if err != nil {
		return err.Error()
	}
	p.game, p.state = game, state
	return ""
}

// to(round) goes to a round, forwards or back, and returns "" or what failed.
func (p *player) to(args []js.Value) any {
	round := min(max(args[0].Int(), 1), p.state.Rounds)
	var err error
	if round < p.game.T() {
		var game *playground.Game
		if game, err = playground.Play(p.state.Setup, round); err == nil {
			p.game = game
		}
	}
	for err == nil && p.game.T() < round {
		err = p.game.Step()
	}
	if err != nil {
		return err.Error()
	}
	p.state.At = round
	return ""
}

// look(i) looks at another policy, from 0.
func (p *player) look(args []js.Value) any {
	p.state.Look = min(max(args[0].Int(), 0), len(p.state.Players)-1)
	return ""
}

// view(plane, width, height) draws: the plane as a square of so many pixels, the regret as wide and high as said.
func (p *player) view(args []js.Value) any {
	var names []any
	for _, one := range p.state.Players {
		names = append(names, one.Name())
	}
	theta := p.game.Theta()
	return map[string]any{
		"plane": p.game.Plane(p.state.Look, args[0].Int()), "half": p.game.Half(p.state.Look),
		"arms": p.game.Arms(p.state.Look), "regret": p.game.Regret(p.state.Look, args[1].Int(), args[2].Int()),
		"words": p.game.Words(p.state.Look), "link": p.state.Link(), "spec": p.state.Spec(), "names": names,
		"t": p.state.At, "rounds": p.state.Rounds, "look": p.state.Look, "theta": []any{theta[0], theta[1]},
		"later": p.state.From > 0 && p.state.At >= p.state.From,
	}
}

// trace() returns the round as text, see playground.Game.Trace.
func (p *player) trace([]js.Value) any { return p.game.Trace() }
