package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unicode"

	"github.com/spf13/cobra"

	"troupe/backup"
	"troupe/cli/source"
	"troupe/cli/term"
	"troupe/eventlog"
	"troupe/serve"
	"troupe/serve/fold"
)

// sealBytes is how many bytes of entries one part of a backup gets.
const sealBytes = 32 << 20

// backupFlags are the flags of `troupe backup`.
type backupFlags struct {
	at          clusterFlags
	to, keys    string
	withoutKeys bool
	follow      bool
	every       time.Duration
}

func backupCommand() *cobra.Command {
	var f backupFlags
	c := &cobra.Command{
		Use:   "backup",
		Short: "Ship what a running server, or a cluster, has recorded to a directory, piece by piece",
		Long: `Copies the entries of the log that the backup in DIR does not have yet, as parts with hashes, while
the servers run. The first call begins the backup, with the base of a log that was trimmed; each further
call adds what is new, and --follow goes on until it is stopped. What is killed goes on with the same
command. troupe restore makes a data directory of any moment of it.

keys.json is in the backup, so keep it secret; without the file no event id is recognised after a restore.
A cluster has it beside cluster.toml; of a single machine name it with --keys-file, or leave it out with
--without-keys. Where the servers have --keys, TROUPE_KEY has a key with the scope backup.`,
		Example: `  troupe backup --url http://127.0.0.1:8080 --keys-file troupe-data/keys.json --to /backup/troupe
  troupe backup --cluster /etc/troupe/cluster.toml --to /backup/troupe --follow`,
		Args: term.Arguments(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if f.to == "" {
				return term.Misuse(errors.New("--to is missing: say in which directory the backup is"))
			}
			if f.every < time.Second || f.every > 24*time.Hour {
				return term.Misuse(fmt.Errorf("--every %v: expected 1s to 24h", f.every))
			}
			if f.withoutKeys && f.keys != "" {
				return term.Misuse(errors.New("--without-keys does not go with --keys-file"))
			}
			ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
			defer stop()
			config, err := f.at.read(ctx)
			if err != nil {
				return err
			}
			s := &shipper{f: f, from: &entrySource{config: config, key: os.Getenv("TROUPE_KEY")},
				out: cmd.OutOrStdout(), errs: cmd.ErrOrStderr()}
			return s.run(ctx)
		},
	}
	f.at.flags(c.Flags())
	c.Flags().StringVar(&f.to, "to", "", "directory of the backup, empty or not there for a new one")
	c.Flags().StringVar(&f.keys, "keys-file", "", "the keys.json of the servers; a cluster has it beside cluster.toml")
	c.Flags().BoolVar(&f.withoutKeys, "without-keys", false, "leave keys.json out of the backup")
	c.Flags().BoolVar(&f.follow, "follow", false, "go on until Ctrl-C or SIGTERM")
	c.Flags().DurationVar(&f.every, "every", 10*time.Second, "with --follow: how often what is new becomes a part")
	return c
}

// shipper brings entries from servers to a backup.
type shipper struct {
	f         backupFlags
	from      *entrySource
	to        *backup.Dir
	out, errs io.Writer
}

// run ships what is new, once or for ever.
func (s *shipper) run(ctx context.Context) (err error) {
	if s.f.follow {
		s.from.follower = followerName(s.f.to)
	}
	if err := s.open(ctx); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.to.Close()) }()
	silent := false // the servers did not answer in the round before
	for {
		parts := len(s.to.Parts())
		err := s.ship(ctx)
		if n := len(s.to.Parts()); n > parts || !s.f.follow && err == nil {
			s.tell(parts)
		}
		var refused *refusedError
		switch {
		case ctx.Err() != nil && s.f.follow:
			return nil
		case err != nil && (!s.f.follow || errors.As(err, &refused) || errors.As(err, new(*backup.GapError))):
			return err
		case err != nil && !silent:
			fmt.Fprintf(s.errs, "troupe: %v; asking again every %v\n", err, s.f.every)
		case err == nil && !s.f.follow:
			return nil
		}
		silent = err != nil
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(s.f.every):
		}
	}
}

// followerName names a backup for the servers, which do not trim what it does not have: the host and the directory.
func followerName(dir string) string {
	if abs, err := filepath.Abs(dir); err == nil {
		dir = abs
	}
	host, _ := os.Hostname()
	name := strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return '?'
		}
		return r
	}, host+":"+dir)
	return strings.ToValidUTF8(name[max(0, len(name)-200):], "")
}

// tell says what is new since the backup had so many parts.
func (s *shipper) tell(parts int) {
	all := s.to.Parts()
	if len(all) == parts {
		fmt.Fprintf(s.out, "%s: entries %d to %d, nothing is new\n", s.f.to, s.to.First(), s.to.Last())
		return
	}
	bytes := int64(0)
	for _, p := range all[parts:] {
		bytes += p.Bytes
	}
	fmt.Fprintf(s.out, "%s: entries %d to %d; new: %s, in %s of %s bytes, until %s\n", s.f.to, s.to.First(),
		s.to.Last(),
		term.Grouped(int64(s.to.Last()-all[parts].First+1)), term.Many(len(all)-parts, "part"), term.Grouped(bytes),
		all[len(all)-1].To.Format(time.RFC3339))
}

// open opens the backup, or begins one, and checks that the log goes on from it.
func (s *shipper) open(ctx context.Context) (err error) {
	first, err := s.from.begin(ctx)
	if err != nil {
		return err
	}
	if s.to, err = backup.Open(s.f.to); err == nil {
		return s.goesOn(ctx, first)
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	keys, err := s.keys()
	if err != nil {
		return err
	}
	var seq uint64
	var state []byte
	if first > 1 {
		if seq, state, err = s.from.runningBase(ctx); err != nil {
			return err
		}
	}
	if err := backup.Begin(s.f.to, first, seq, state, keys); err != nil {
		return term.Misuse(fmt.Errorf("--to: %w", err))
	}
	s.to, err = backup.Open(s.f.to)
	return err
}

// keys returns the text of keys.json for a new backup, nil to leave it out.
func (s *shipper) keys() ([]byte, error) {
	file := s.f.keys
	if s.f.withoutKeys {
		return nil, nil
	}
	if file == "" && s.from.config.file != "" {
		file = filepath.Join(s.from.config.folder(), serve.KeyFile)
	}
	if file == "" {
		return nil, term.Misuse(errors.New("--keys-file is missing: name the keys.json of the server, in its data " +
			"directory, or leave it out of the backup with --without-keys"))
	}
	if _, err := readKeyFile(file); err != nil {
		return nil, term.Misuse(fmt.Errorf("--keys-file: %w", err))
	}
	return os.ReadFile(file)
}

// readKeyFile reads a keys.json of any directory.
func readKeyFile(file string) (eventlog.IDKeys, error) {
	if filepath.Base(file) != serve.KeyFile {
		return eventlog.IDKeys{}, fmt.Errorf("%s: expected a file with the name %s", file, serve.KeyFile)
	}
	return serve.ReadKeys(filepath.Dir(file))
}

// goesOn refuses a log that is not that of the backup, or has lost what would follow it.
func (s *shipper) goesOn(ctx context.Context, first uint64) error {
	last := s.to.Last()
	switch {
	case first > last+1:
		return term.Misuse(fmt.Errorf("--to %s: %w; begin another backup in another directory", s.f.to,
			&backup.GapError{Last: last, First: first}))
	case s.from.last < last:
		return term.Misuse(fmt.Errorf("--to %s: the backup has the entries %d to %d and the log ends with entry %d: "+
			"it is the backup of another "+
			"log, or of a later time of this one", s.f.to, s.to.First(), last, s.from.last))
	case first > last || last < s.to.First():
		return nil
	}
	theirs, _, _, err := s.from.page(ctx, last)
	if err != nil {
		return err
	}
	for ours, err := range s.to.Entries(last, last) {
		if err != nil {
			return err
		}
		if len(theirs) == 0 || theirs[0].Seq != ours.Seq || !bytes.Equal(theirs[0].Data, ours.Data) {
			return term.Misuse(fmt.Errorf("--to %s: entry %d of the backup is not that of the log: it is the backup "+
				"of another log", s.f.to, last))
		}
	}
	return nil
}

// ship seals what is new now.
func (s *shipper) ship(ctx context.Context) error {
	var batch []eventlog.Entry
	size := 0
	seal := func() error {
		err := s.to.Seal(batch)
		batch, size = nil, 0
		return err
	}
	s.from.last = 0 // a node that has nothing new is an answer
	for next := s.to.Last() + 1; ; {
		entries, first, applied, err := s.from.page(ctx, next)
		if refused := (*refusedError)(nil); errors.As(err, &refused) && refused.status == http.StatusGone ||
			err == nil && first > next {
			return errors.Join(seal(), &backup.GapError{Last: next - 1, First: first})
		}
		if err != nil {
			return errors.Join(seal(), err)
		}
		for _, e := range entries {
			batch, size, next = append(batch, e), size+len(e.Data), e.Seq+1
		}
		if size >= sealBytes || next > applied {
			if err := seal(); err != nil {
				return err
			}
		}
		if next > applied || len(entries) == 0 {
			return nil
		}
	}
}

// restoreFlags are the flags of `troupe restore`.
type restoreFlags struct {
	from, at, data, keys string
	check                bool
}

func restoreCommand() *cobra.Command {
	var f restoreFlags
	c := &cobra.Command{
		Use:   "restore",
		Short: "Make a data directory of a moment that a backup has",
		Long: `Makes DIR, the data directory of a single machine, with the log as it was: up to an entry, or up to a
time by the clocks of the servers. Every part is compared with its hash, and every entry with the chain
of the log. troupe serve --data DIR goes on with it; troupe cluster init --import DIR and troupe cluster
import DIR make a new cluster of it. DIR is there when it is whole.

--check reads and checks the backup, and writes nothing.`,
		Example: `  troupe restore --from /backup/troupe --data restored
  troupe restore --from /backup/troupe --at 2026-11-24T18:00:00Z --data tuesday
  troupe restore --from /backup/troupe --at 41200 --data restored
  troupe restore --from /backup/troupe --check`,
		Args: term.Arguments(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
			defer stop()
			return f.run(ctx, cmd.OutOrStdout())
		},
	}
	c.Flags().StringVar(&f.from, "from", "", "directory of the backup")
	c.Flags().StringVar(&f.at, "at", "", "the moment: an entry, or a time such as 2026-11-24T18:00:00Z; without it all")
	c.Flags().StringVar(&f.data, "data", "", "data directory to make, empty or not there")
	c.Flags().StringVar(&f.keys, "keys-file", "", "keys.json, where the backup was made without it")
	c.Flags().BoolVar(&f.check, "check", false, "check the backup and write nothing")
	return c
}

// run restores, or checks.
func (f *restoreFlags) run(ctx context.Context, out io.Writer) error {
	switch {
	case f.from == "":
		return term.Misuse(errors.New("--from is missing: say in which directory the backup is"))
	case f.check == (f.data != ""):
		return term.Misuse(errors.New("expected one of --data, the directory to make, and --check"))
	}
	d, err := backup.Open(f.from)
	if errors.Is(err, fs.ErrNotExist) {
		return term.Misuse(fmt.Errorf("--from: there is no backup in %s", f.from))
	}
	if err != nil {
		return err
	}
	if d.Last() < d.First() {
		return term.Misuse(fmt.Errorf("--from: the backup in %s has no entries yet", f.from))
	}
	until, err := f.moment(d)
	if err != nil {
		return err
	}
	text, keys, err := f.secrets(d)
	if err != nil {
		return err
	}
	if f.check {
		return f.verify(d, keys, until, out)
	}
	if files, err := os.ReadDir(f.data); err == nil && len(files) > 0 {
		return term.Misuse(fmt.Errorf("--data: %s is not empty (%s)", f.data, files[0].Name()))
	} else if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return term.Misuse(fmt.Errorf("--data: %w", err))
	}
	return f.build(ctx, d, text, keys, until, out)
}

// moment returns the last entry of the moment.
func (f *restoreFlags) moment(d *backup.Dir) (uint64, error) {
	oldest := d.First()
	base, _, err := d.Base()
	if err != nil {
		return 0, err
	}
	oldest = max(oldest, base)
	if f.at == "" {
		return d.Last(), nil
	}
	if n, err := strconv.ParseUint(f.at, 10, 64); err == nil {
		if n < oldest || n > d.Last() {
			return 0, term.Misuse(fmt.Errorf("--at %s: the backup has the moments after the entries %d to %d", f.at,
				oldest, d.Last()))
		}
		return n, nil
	}
	at, err := time.Parse(time.RFC3339, f.at)
	if err != nil {
		return 0, term.Misuse(fmt.Errorf("--at %q: expected an entry, or a time such as 2026-11-24T18:00:00Z", f.at))
	}
	until := d.First() - 1
	for _, p := range d.Parts() {
		if !p.To.After(at) {
			until = p.Last
			continue
		}
		for e, err := range d.Entries(p.First, p.Last) {
			if err != nil {
				return 0, err
			}
			h, err := eventlog.ParseHeader(e.Data)
			if err == nil && time.Unix(0, h.Time).After(at) {
				break
			}
			until = e.Seq
		}
		break
	}
	if until < oldest {
		return 0, term.Misuse(fmt.Errorf("--at %s: the oldest moment of the backup is after entry %d, of %s", f.at,
			oldest, d.Parts()[0].From.Format(time.RFC3339)))
	}
	return until, nil
}

// secrets returns keys.json, as text and as what checks the batches of a cluster.
func (f *restoreFlags) secrets(d *backup.Dir) (text []byte, keys *eventlog.BatchKeys, err error) {
	if text, err = d.Keys(); err != nil {
		return nil, nil, err
	}
	file := f.keys
	if file == "" {
		if text == nil {
			return nil, nil, term.Misuse(errors.New("--keys-file is missing: the backup was made without keys.json"))
		}
		file = filepath.Join(f.from, serve.KeyFile)
	} else if text, err = os.ReadFile(file); err != nil {
		return nil, nil, term.Misuse(fmt.Errorf("--keys-file: %w", err))
	}
	secrets, err := readKeyFile(file)
	if err != nil {
		return nil, nil, term.Misuse(err)
	}
	return text, secrets.Batches(), nil
}

// verify reads all parts and follows the chain.
func (f *restoreFlags) verify(d *backup.Dir, keys *eventlog.BatchKeys, until uint64, out io.Writer) error {
	if _, _, err := d.Base(); err != nil {
		return err
	}
	chain := eventlog.NewChain(0, d.First()).Trust(keys)
	for e, err := range d.Entries(d.First(), until) {
		if err != nil {
			return err
		}
		if _, _, err := chain.Next(e); err != nil {
			return fmt.Errorf("entry %d: %w", e.Seq, err)
		}
	}
	_, err := fmt.Fprintf(out, "%s: entries %d to %d in %s; it is whole\n", f.from, d.First(), until,
		term.Many(len(d.Parts()), "part"))
	return err
}

// build makes the data directory beside its place and moves it there when it is whole.
func (f *restoreFlags) build(ctx context.Context, d *backup.Dir, text []byte, keys *eventlog.BatchKeys, until uint64,
	out io.Writer) error {
	parent := filepath.Dir(filepath.Clean(f.data))
	if err := os.MkdirAll(parent, 0o700); err != nil {
		return term.Misuse(fmt.Errorf("--data: %w", err))
	}
	work, err := os.MkdirTemp(parent, ".restore-")
	if err != nil {
		return term.Misuse(fmt.Errorf("--data: %w", err))
	}
	defer os.RemoveAll(work)
	seq, state, err := d.Base()
	if err != nil {
		return err
	}
	if seq > 0 {
		into := fold.Files(filepath.Join(work, snapshotDir))
		if err := into.Write(seq, bytes.NewReader(state)); err != nil {
			return err
		}
		if _, _, err := into.Load(seq, d.First(), nil); err != nil {
			return fmt.Errorf("the base of the backup: %w", err)
		}
	}
	logDir := filepath.Join(work, "log")
	b, err := eventlog.OpenBuilder(ctx, logDir, keys, d.First())
	if err != nil {
		return source.OpenError(work, err)
	}
	for e, err := range d.Entries(d.First(), until) {
		if err == nil {
			err = b.Add(ctx, e)
		}
		if err != nil {
			return errors.Join(err, b.Close())
		}
	}
	err = fold.WriteDurable(work, serve.KeyFile, bytes.NewReader(text))
	if err == nil {
		err = b.Finish(ctx)
	}
	if err = errors.Join(err, b.Close()); err != nil {
		return err
	}
	r, err := eventlog.Verify(logDir, keys)
	if err == nil && !r.OK() {
		err = &eventlog.DamagedError{Report: r}
	}
	if err != nil {
		return err
	}
	if _, err := serve.Base(work, d.First()); err != nil {
		return err
	}
	if err := os.Remove(f.data); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := os.Rename(work, f.data); err != nil {
		return err
	}
	s := r.Shards[0]
	_, err = fmt.Fprintf(out, "%s: entries %d to %d, %s events; it is whole: troupe serve --data %s\n", f.data, s.First,
		s.Last, term.Grouped(int64(s.Events)), f.data)
	return err
}
