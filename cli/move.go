package cli

import (
	"cmp"
	"fmt"
	"net/url"
	"os"
	"os/signal"
	"time"

	"github.com/spf13/cobra"

	"troupe/cli/move"
	"troupe/cli/term"
)

func moveCommand() *cobra.Command {
	var m move.Mover
	var undo bool
	c := &cobra.Command{
		Use:   "move MODEL --from URL --to URL",
		Short: "Move a model to another server, with all that it has",
		Long: `Moves a model from one server to another: what it has learned, its open windows, the idempotency
keys that are remembered, its budget and its counts. The model is closed for about a second.
Afterwards the old server answers calls for it and for its events with the new address (307), which
the clients of troupe follow and remember.

A command that was interrupted is repeated: it goes on where it was. Until the other server has the
model, --undo opens it again where it was.

Single servers only. Where the servers have --keys, set TROUPE_KEY to a key with the scope admin and
without patterns, and TROUPE_KEY_TO if the other server has another one. See docs/guide/cells.md.`,
		Example: `  troupe move news --from http://127.0.0.1:8080 --to http://127.0.0.1:8081
  troupe move news --from http://127.0.0.1:8080 --to http://127.0.0.1:8081 --undo`,
		Args: term.Arguments(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			for _, x := range []struct {
				flag, url string
				optional  bool
			}{{"from", m.From.URL, false}, {"to", m.To.URL, false}, {"address", m.Address, true}} {
				if x.url == "" && x.optional {
					continue
				}
				if u, err := url.Parse(x.url); err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
					return term.Misuse(wrong(x.flag, "%q: expected http://HOST:PORT or https://HOST:PORT", x.url))
				}
			}
			ctx, stop := signal.NotifyContext(cmd.Context(), ending...)
			defer stop()
			m.From.Key = os.Getenv("TROUPE_KEY")
			m.To.Key = cmp.Or(os.Getenv("TROUPE_KEY_TO"), m.From.Key)
			w := cmd.OutOrStdout()
			if undo {
				if err := m.Undo(ctx, args[0]); err != nil {
					return err
				}
				fmt.Fprintf(w, "%s is open at %s again\n", args[0], m.From.URL)
				return nil
			}
			r, err := m.Move(ctx, args[0])
			switch {
			case err != nil:
				return err
			case r.Already:
				fmt.Fprintf(w, "%s is at %s already\n", args[0], m.To.URL)
				return nil
			}
			windows := "windows"
			if r.Open == 1 {
				windows = "window"
			}
			fmt.Fprintf(w, "%s is at %s: %d open %s, digest %s", args[0], m.To.URL, r.Open, windows, r.Digest)
			if r.Paused > 0 {
				fmt.Fprintf(w, ", %d bytes, closed for %v", r.Bytes, r.Paused.Round(time.Millisecond))
			}
			fmt.Fprintln(w)
			return nil
		},
	}
	c.Flags().StringVar(&m.From.URL, "from", "", "server that has the model")
	c.Flags().StringVar(&m.To.URL, "to", "", "server that gets it")
	c.Flags().StringVar(&m.Address, "address", "", "address of --to as clients reach it, where that is another one")
	c.Flags().BoolVar(&undo, "undo", false, "take back a move that has not arrived")
	return c
}
