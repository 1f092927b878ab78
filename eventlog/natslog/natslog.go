// Package natslog is the log of a decision server on a NATS cluster that is there. Its servers belong to others, so it
// watches them: each must report that it syncs always, or somebody vouches for them, and the stream must stay the one
// that it was.
package natslog

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nkeys"

	"troupe/eventlog"
	"troupe/internal/secret"
	"troupe/timing"
)

// Options configure Open.
type Options struct {
	// Dir holds what this process knows of the log, made if need be; the log is at the servers. Node is this process's
	// name.
	Dir, Node string
	// URLs are the servers, all tls:// or, on loopback, nats://. The user and password of callers may stand in each.
	URLs []string
	// Credentials is a file with what the account of the log is entered with: a .creds file, the seed of an nkey, or
	// one line USER:PASSWORD; empty for none. It is read again at each connection, but the nkey must stay the same.
	Credentials string
	// Attest is such a file for the servers' system account. VouchedBy is who vouches for the servers instead. One of
	// them is needed.
	Attest, VouchedBy string
	// CA has the authorities of the servers' certificates, those of the system when empty; Cert and Key are this
	// client's certificate.
	CA, Cert, Key string
	// Create allows to make a log where there is none, at the first start with Dir.
	Create bool
	// Replicas is how many servers have the log, MaxBytes its limit. 0 is what a log that is there has, and of a new
	// one 1 and 64 GiB.
	Replicas int
	MaxBytes int64
	// Every is how often the servers are asked for their reports, default 1 minute.
	Every time.Duration
	// Logf gets what the operator should know. It may be nil.
	Logf func(format string, a ...any)
	// Clock is the machine's when it is not set.
	Clock timing.Clock
}

// Log is the log on a NATS cluster that is there. Its servers belong to others, so it watches them: each must report
// that it syncs always, and the stream must stay the one that it was.
type Log struct {
	opt    Options
	lock   io.Closer
	nc     *nats.Conn
	stream *eventlog.Stream
	id     string // of the log
	want   jetstream.StreamConfig

	mu      sync.Mutex
	system  *nats.Conn      // of the system account; nil before the first attestation, and with VouchedBy
	due     bool            // an attestation, before its time
	servers map[string]bool // that were heard of
	verdict error
	denied  context.CancelCauseFunc // ends an Open whose user may not do what it needs
	// systemDenied is what the user of the system account may not do, empty for nothing that is known.
	systemDenied string
	good         timing.Instant // of the newest attestation
	stop         context.CancelFunc
	done         chan struct{}
}

const (
	logName = "troupe-log" // in the stream's description: id of the log

	attestEvery = time.Minute
	watchEvery  = time.Second
	mostSilent  = 3                // silent attestations before the log is not trusted
	startWait   = 30 * time.Second // how long a start waits for reports
	dialWait    = 2 * time.Second
	answerWait  = 5 * time.Second // for an answer of a server
	retryEvery  = 50 * time.Millisecond
)

// NoLogError is the error of a first start without Options.Create where there is no log.
type NoLogError struct{ Stream string }

// Error says in one line what is wrong.
func (e *NoLogError) Error() string {
	return fmt.Sprintf("the account has no stream %s, and this is the first start with this directory", e.Stream)
}

// Check returns what is wrong with options, without asking a server.
func Check(o Options) error {
	_, err := o.dial()
	return err
}

// dialing is how a connection is made, but for the credentials.
type dialing struct {
	servers string
	user    *url.Userinfo
	options []nats.Option
	clock   timing.Clock
}

func (o *Options) dial() (d dialing, err error) {
	d.clock = o.Clock
	if len(o.URLs) == 0 {
		return d, errors.New("no server is named, expected tls://HOST:PORT,…")
	}
	var servers []string
	secure := false
	for i, text := range o.URLs {
		u, err := url.Parse(strings.TrimSpace(text))
		if err != nil { // its text may have a password
			return d, fmt.Errorf("server %d is not readable, expected tls://HOST:PORT", i+1)
		}
		shown := (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}).String()
		switch {
		case u.Scheme != "tls" && u.Scheme != "nats" || u.Hostname() == "" || u.Path != "" || u.RawQuery != "":
			return d, fmt.Errorf("server %d is %s, expected tls://HOST or tls://HOST:PORT", i+1, shown)
		case u.Scheme == "nats" && !loopbackHost(u.Hostname()):
			return d, fmt.Errorf("server %d is %s: without TLS credentials and events go over the network in the "+
				"clear; expected tls://%s", i+1, shown, u.Host)
		case i > 0 && secure != (u.Scheme == "tls"):
			return d, fmt.Errorf("server %d is %s, the first one has another scheme; expected one for all", i+1, shown)
		case i > 0 && u.User.String() != d.user.String():
			return d, fmt.Errorf("server %d is %s with other credentials than the first one", i+1, shown)
		}
		secure, d.user = u.Scheme == "tls", u.User
		servers = append(servers, (&url.URL{Scheme: u.Scheme, Host: u.Host}).String())
	}
	d.servers = strings.Join(servers, ",")
	d.options = []nats.Option{
		nats.Name("troupe " + o.Node), nats.Timeout(dialWait), nats.MaxReconnects(-1),
		nats.ReconnectWait(100 * time.Millisecond),
		nats.ReconnectBufSize(-1), // what is not sent is an error at once
		nats.PingInterval(5 * time.Second), nats.MaxPingsOutstanding(2), nats.DontRandomize(),
	}
	if !secure {
		if o.CA != "" || o.Cert != "" || o.Key != "" {
			return d, errors.New("certificates were given, and the servers are nats://, expected tls://")
		}
	} else {
		config, err := o.tls()
		if err != nil {
			return d, err
		}
		d.options = append(d.options, nats.Secure(config))
	}
	if d.user != nil && o.Credentials != "" {
		return d, errors.New("the servers' URLs have a user, and there is a file with credentials too, expected one " +
			"of them")
	}
	for _, file := range []string{o.Credentials, o.Attest} {
		if err := CheckCredentials(file); err != nil {
			return d, err
		}
	}
	switch {
	case o.Attest == "" && o.VouchedBy == "":
		return d, &AttestError{"", "nothing says that the servers sync always: give the credentials of their system " +
			"account, or the name of the person or team that vouches for them", false}
	case o.Attest != "" && o.VouchedBy != "":
		return d, errors.New("there are credentials of the system account, and somebody vouches for the servers; " +
			"expected one of them")
	}
	return d, nil
}

func loopbackHost(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

func (o *Options) tls() (*tls.Config, error) {
	c := &tls.Config{MinVersion: tls.VersionTLS12}
	if o.CA != "" {
		pem, err := os.ReadFile(o.CA)
		if err != nil {
			return nil, err
		}
		if c.RootCAs = x509.NewCertPool(); !c.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("%s has no certificate", o.CA)
		}
	}
	if (o.Cert == "") != (o.Key == "") {
		return nil, errors.New("a certificate and its key belong together")
	}
	if o.Cert != "" {
		if err := secret.Check(o.Key); err != nil {
			return nil, err
		}
		pair, err := tls.LoadX509KeyPair(o.Cert, o.Key)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", o.Cert, err)
		}
		c.Certificates = []tls.Certificate{pair}
	}
	return c, nil
}

// CheckCredentials returns what is wrong with a file of credentials, as in Options, without asking a server. No
// file is well.
func CheckCredentials(file string) error {
	_, err := credentials(file, timing.Clock{})
	return err
}

// credentials reads a file of credentials; no option for no file. What NATS servers would only refuse without a reason
// is an error here.
func credentials(file string, clock timing.Clock) (nats.Option, error) {
	if file == "" {
		return nil, nil
	}
	b, err := secret.Read(file)
	if err != nil {
		return nil, err
	}
	text := strings.TrimSpace(string(b))
	switch user, password, ok := userPassword(text); {
	case strings.Contains(text, "BEGIN NATS USER JWT"):
		if err := checkCreds(b, clock.Now()); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		return nats.UserCredentials(file), nil
	case strings.HasPrefix(text, "SU") && !ok:
		option, err := nats.NkeyOptionFromSeed(file)
		if err != nil {
			return nil, fmt.Errorf("%s: the seed is not readable", file)
		}
		return option, nil
	case ok:
		return nats.UserInfoHandler(func() (string, string) { // at each connection
			if b, err := os.ReadFile(file); err == nil {
				if u, p, ok := userPassword(strings.TrimSpace(string(b))); ok {
					return u, p
				}
			}
			return user, password
		}), nil
	}
	return nil, fmt.Errorf("%s: expected a .creds file, the seed of an nkey's user (SU…), or one line USER:PASSWORD",
		file)
}

func userPassword(text string) (user, password string, ok bool) {
	user, password, ok = strings.Cut(text, ":")
	return user, password, ok && user != "" && !strings.ContainsAny(text, "\r\n")
}

// checkCreds returns what is wrong with a .creds file.
func checkCreds(b []byte, now time.Time) error {
	text, err := nkeys.ParseDecoratedJWT(b)
	if err != nil {
		return fmt.Errorf("the JWT of its user is not readable: %w", err)
	}
	user, err := jwt.DecodeUserClaims(text)
	if err != nil {
		return fmt.Errorf("the JWT of its user is not readable: %w", err)
	}
	pair, err := nkeys.ParseDecoratedUserNKey(b)
	if err != nil {
		return errors.New("the seed of its user (SU…) is missing or not readable")
	}
	defer pair.Wipe()
	switch public, err := pair.PublicKey(); {
	case err != nil:
		return errors.New("the seed of its user is not readable")
	case public != user.Subject:
		return fmt.Errorf("its seed is that of user %s, its JWT that of %s", public, user.Subject)
	case user.Expires > 0 && time.Unix(user.Expires, 0).Before(now):
		return fmt.Errorf("the JWT of its user has expired, %s", time.Unix(user.Expires, 0).UTC().Format(time.RFC3339))
	}
	return nil
}

// RefusedError is the error of servers that do not let a user in, or do not allow what a log needs.
type RefusedError struct {
	Servers string // those that refuse
	File    string // with the credentials, empty when they stand in the URLs, or there are none
	Reason  string
}

// Error says in one line what is wrong.
func (e *RefusedError) Error() string {
	with := "what the URLs say of the user"
	if e.File != "" {
		with = "the credentials in " + e.File
	}
	return fmt.Sprintf("the NATS server %s refuses %s: %s", e.Servers, with, e.Reason)
}

// rights are what a user of the log's account must be allowed, for messages.
const rights = "publish to $JS.API.> and troupe.>, and to subscribe to _INBOX.>"

// connect makes one connection. An error says which servers, never with what credentials.
func (d *dialing) connect(file string, more ...nats.Option) (*nats.Conn, error) {
	options := append(slices.Clone(d.options), more...)
	option, err := credentials(file, d.clock)
	switch {
	case err != nil:
		return nil, err
	case option != nil:
		options = append(options, option)
	}
	return nats.Connect(d.servers, options...)
}

// refuser says which server refuses a connection, nil when none does. err is what all together have said. A server that
// looks for an account in vain takes almost two seconds to say so.
func (d *dialing) refuser(err error, file string, more ...nats.Option) error {
	servers := strings.Split(d.servers, ",")
	for _, server := range servers {
		said := err
		if len(servers) > 1 || !refusedConnection(err) {
			one := dialing{server, d.user, d.options, d.clock}
			var nc *nats.Conn
			if nc, said = one.connect(file, append(slices.Clone(more), nats.Timeout(answerWait))...); said == nil {
				nc.Close()
			}
		}
		switch {
		case refusedUser(said):
			return &RefusedError{server, file, said.Error()}
		case refusedConnection(said):
			return fmt.Errorf("the NATS server %s: %w", server, said)
		}
	}
	if refusedConnection(err) {
		return &RefusedError{"at one of " + strings.Join(servers, ", "), file, err.Error()}
	}
	return nil
}

// refusedUser reports that a server does not let a user in.
func refusedUser(err error) bool {
	return errors.Is(err, nats.ErrAuthorization) || errors.Is(err, nats.ErrAuthExpired) ||
		errors.Is(err, nats.ErrAuthRevoked) || errors.Is(err, nats.ErrAccountAuthExpired)
}

// refusedConnection reports an error of a connection that waiting does not mend.
func refusedConnection(err error) bool {
	var unknown x509.UnknownAuthorityError
	var invalid x509.CertificateInvalidError
	var host x509.HostnameError
	return refusedUser(err) || errors.Is(err, nats.ErrSecureConnWanted) || errors.Is(err, nats.ErrSecureConnRequired) ||
		errors.As(err, &unknown) || errors.As(err, &invalid) || errors.As(err, &host)
}

// Open opens the log on a NATS cluster: its servers report well, or somebody vouches for them, and its stream is
// there or is made. It waits for servers that do not answer, as long as ctx allows. An *AttestError says what the
// servers lack; nothing was written then.
func Open(ctx context.Context, o Options) (_ *Log, err error) {
	o.defaults()
	d, err := o.dial()
	if err != nil {
		return nil, err
	}
	r := newLog(o)
	defer func() {
		if err != nil {
			close(r.done)
			err = errors.Join(err, r.Close())
		}
	}()
	if r.lock, err = eventlog.LockForeign(o.Dir); err != nil {
		return nil, err
	}
	joined, err := r.marker()
	if err != nil {
		return nil, err
	}
	if err := r.reach(ctx, &d); err != nil {
		return nil, err
	}
	if o.Create { // before the servers are to keep anything
		if err := r.attestStart(ctx, &d, r.nc.ConnectedClusterName(), nil); err != nil {
			return nil, err
		}
	}
	id, err := eventlog.NewID()
	if err != nil {
		return nil, err
	}
	opening, allowed := r.allowed(ctx)
	r.stream, err = eventlog.OpenStream(opening, r.nc, eventlog.StreamOptions{
		Replicas: o.Replicas, MaxBytes: o.MaxBytes, Create: o.Create && joined == "", Remote: true,
		Metadata: map[string]string{logName: id.String()}, Logf: o.Logf, Clock: o.Clock,
	})
	if err == nil {
		r.stream.AskToWrite(opening)
	}
	if err := allowed(); err != nil {
		return nil, err
	}
	var gone *eventlog.GoneError
	if errors.As(err, &gone) && joined == "" {
		err = &NoLogError{gone.Stream}
	}
	if err != nil {
		return nil, err
	}
	info := r.stream.Described()
	r.want, r.id = eventlog.StreamSettings(o.MaxBytes), info.Config.Metadata[logName]
	r.want.Replicas = cmp.Or(o.Replicas, info.Config.Replicas)
	switch {
	case r.id == "":
		return nil, fmt.Errorf("the stream %s has no %s in its description, so no troupe server made it for this "+
			"cluster", info.Config.Name, logName)
	case joined != "" && joined != r.id:
		return nil, &eventlog.OtherKindError{Dir: o.Dir, Holds: fmt.Sprintf("what was known of log %s, and the "+
			"stream has log %s: it is another one", joined, r.id)}
	}
	if err := r.settings(info); err != nil {
		return nil, err
	}
	cluster, peers := r.replicas(info)
	if err := r.attestStart(ctx, &d, cluster, peers); err != nil {
		return nil, err
	}
	if joined == "" {
		if err := eventlog.MarkForeign(o.Dir, r.markerText()); err != nil {
			return nil, err
		}
	}
	r.due = false
	var watching context.Context
	watching, r.stop = context.WithCancel(context.Background())
	go r.watch(watching, &d)
	return r, nil
}

// Import makes the log on a NATS cluster from that of a single machine, as ImportLog does: its servers report
// well, or a name of VouchedBy stands for them, before and after. o.Dir, o.Node and o.Create are not used. batches are as in eventlog.Verify. keys names
// the keys of the event ids in the log, for ImportedKeys.
func Import(ctx context.Context, o Options, from *eventlog.Disk, batches *eventlog.BatchKeys,
	state *eventlog.ImportBase, keys string,
	says func(done, last uint64)) (info eventlog.Info, err error) {
	o.defaults()
	d, err := o.dial()
	if err != nil {
		return info, err
	}
	r := newLog(o)
	close(r.done)
	defer func() { err = errors.Join(err, r.Close()) }()
	if err := r.reach(ctx, &d); err != nil {
		return info, err
	}
	if err := r.attestStart(ctx, &d, r.nc.ConnectedClusterName(), nil); err != nil {
		return info, err
	}
	id, err := eventlog.NewID()
	if err != nil {
		return info, err
	}
	importing, allowed := r.allowed(ctx)
	info, err = eventlog.ImportLog(importing, r.nc, from, batches, state, eventlog.StreamOptions{Replicas: o.Replicas,
		MaxBytes: o.MaxBytes, Remote: true, Logf: o.Logf, Clock: o.Clock,
		Metadata: map[string]string{logName: id.String(), eventlog.ForeignKeys: keys}}, says)
	if err := allowed(); err != nil {
		return info, err
	}
	if err != nil {
		return info, err
	}
	described, err := eventlog.Describe(ctx, r.nc)
	if err != nil {
		return info, err
	}
	cluster, peers := r.replicas(described)
	return info, r.attestStart(ctx, &d, cluster, peers)
}

func (o *Options) defaults() {
	if o.Logf == nil {
		o.Logf = func(string, ...any) {}
	}
	if o.Every == 0 {
		o.Every = attestEvery
	}
}

func newLog(o Options) *Log {
	return &Log{opt: o, due: true, servers: map[string]bool{}, done: make(chan struct{}), stop: func() {}}
}

// allowed returns a context that ends when the servers say that the user may not do something, and what ends this and
// says what it was.
func (r *Log) allowed(ctx context.Context) (context.Context, func() error) {
	ctx, denied := context.WithCancelCause(ctx)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.denied = denied
	return ctx, func() error {
		r.mu.Lock()
		r.denied = nil
		r.mu.Unlock()
		defer denied(nil)
		var refused *RefusedError
		if errors.As(context.Cause(ctx), &refused) {
			return refused
		}
		return nil
	}
}

// Stream returns the log.
func (r *Log) Stream() *eventlog.Stream { return r.stream }

// MostBatch is the size of the largest batch that the servers take.
func (r *Log) MostBatch() int { return r.stream.MostBatch() }

// Verdict returns why the log cannot be trusted at present, nil when it can.
func (r *Log) Verdict() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.verdict
}

// Close ends the connections and releases the directory.
func (r *Log) Close() error {
	r.stop()
	<-r.done
	var err error
	if r.stream != nil {
		err = r.stream.Close()
	}
	for _, nc := range []*nats.Conn{r.nc, r.system} {
		if nc != nil {
			nc.Close()
		}
	}
	if r.lock != nil {
		err = errors.Join(err, r.lock.Close())
	}
	return err
}

// marker returns the id of the log that the directory knows, empty for an empty directory.
func (r *Log) marker() (id string, err error) {
	text, err := os.ReadFile(filepath.Join(r.opt.Dir, eventlog.ForeignMarker))
	if errors.Is(err, os.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	var node string
	for line := range strings.Lines(string(text)) {
		switch key, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " "); key {
		case "log":
			r.id = value
		case "node":
			node = value
		}
	}
	of := Log{opt: Options{Node: node}, id: r.id}
	switch {
	case r.id == "" || of.markerText() != string(text):
		return "", fmt.Errorf("%s: not the marker of a log on a NATS cluster: %w",
			filepath.Join(r.opt.Dir, eventlog.ForeignMarker), eventlog.ErrMalformed)
	case node != r.opt.Node:
		return "", &eventlog.OtherKindError{Dir: r.opt.Dir, Holds: fmt.Sprintf("what the server %s keeps of its log, and "+
			"this one is %s",
			node, r.opt.Node)}
	}
	return r.id, nil
}

func (r *Log) markerText() string {
	s := fmt.Sprintf("troupe log on a NATS cluster, format 1\nlog %s\nnode %s\n", r.id, r.opt.Node)
	return s + fmt.Sprintf("crc32c %08x\n", crc32.Checksum([]byte(s), crc32.MakeTable(crc32.Castagnoli)))
}

// reach connects to a server, as soon as one answers.
func (r *Log) reach(ctx context.Context, d *dialing) (err error) {
	var more []nats.Option
	if d.user != nil {
		password, _ := d.user.Password()
		more = append(more, nats.UserInfo(d.user.Username(), password))
	}
	more = append(more, nats.IgnoreAuthErrorAbort(), nats.NoCallbacksAfterClientClose(),
		nats.ErrorHandler(r.complains(false)))
	said := timing.Instant(0)
	for {
		if r.nc, err = d.connect(r.opt.Credentials, more...); err == nil {
			if payload := r.nc.MaxPayload(); payload < eventlog.MaxBatch {
				return fmt.Errorf("the NATS servers take messages of %d bytes, expected at least %d: set max_payload",
					payload, eventlog.MaxBatch)
			}
			return nil
		}
		if refused := refusedConnection(err); refused || r.opt.Clock.Since(said) > 3*time.Second {
			if refusal := d.refuser(err, r.opt.Credentials, more...); refusal != nil &&
				(refused || len(r.opt.URLs) == 1) {
				return refusal
			} else if refusal != nil { // and others do not answer
				err = refusal
			}
			said = r.opt.Clock.Mark()
			r.opt.Logf("waiting for %s: %v", d.servers, err)
		}
		if !r.opt.Clock.Sleep(ctx, retryEvery) {
			return ctx.Err()
		}
	}
}

// attestStart attests at the start. Servers that keep silent are asked again for a while.
func (r *Log) attestStart(ctx context.Context, d *dialing, cluster string, peers []eventlog.Replica) error {
	for since := r.opt.Clock.Mark(); ; {
		err := r.attest(ctx, d, cluster, peers)
		var a *AttestError
		if err == nil || !errors.As(err, &a) || !a.Silent || r.opt.Clock.Since(since) > startWait {
			return err
		}
		if !r.opt.Clock.Sleep(ctx, retryEvery) {
			return ctx.Err()
		}
	}
}

// attest asks the servers for their reports and judges them. What goes wrong on the way is an *AttestError.
func (r *Log) attest(ctx context.Context, d *dialing, cluster string, peers []eventlog.Replica) error {
	if r.opt.VouchedBy != "" {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.good = r.opt.Clock.Mark()
		return nil
	}
	if r.system == nil || r.system.IsClosed() {
		nudge := func(*nats.Conn, error) {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.due = true
		}
		system, err := d.connect(r.opt.Attest, nats.DisconnectErrHandler(nudge), nats.ReconnectErrHandler(nudge),
			nats.Timeout(answerWait), nats.NoCallbacksAfterClientClose(), nats.ErrorHandler(r.complains(true)))
		if err != nil && refusedConnection(err) {
			err = d.refuser(err, r.opt.Attest)
			return &AttestError{"", "the system account of the NATS servers cannot be entered: " + err.Error(), false}
		}
		if err != nil {
			return &AttestError{"", "the system account of the NATS servers cannot be entered: " + err.Error(), true}
		}
		r.system = system
		if _, err := system.Subscribe(serverAlive, r.alive); err != nil {
			return &AttestError{"", "the system account of the NATS servers does not answer: " + err.Error(), true}
		}
	}
	reports, err := askServers(ctx, r.system, peers)
	if err != nil {
		return &AttestError{"", "the system account of the NATS servers does not answer: " + err.Error(), true}
	}
	if len(reports) == 0 {
		r.mu.Lock()
		denied := r.systemDenied
		r.mu.Unlock()
		if denied != "" {
			return &AttestError{"", fmt.Sprintf("the user in %s may not ask the NATS servers for their reports: %s",
				r.opt.Attest, denied), false}
		}
		return &AttestError{"", fmt.Sprintf("no NATS server reports to the user in %s: is this a user of the system "+
			"account?", r.opt.Attest), true}
	}
	if err := judgeReports(cluster, peers, max(r.opt.Replicas, 1), reports); err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.good = r.opt.Clock.Mark()
	return nil
}

// complains takes what a server says outside of answers. That something is not allowed ends an Open; the same
// text is logged each 10 s at most.
func (r *Log) complains(system bool) nats.ErrHandler {
	said := map[string]timing.Instant{}
	return func(nc *nats.Conn, _ *nats.Subscription, err error) {
		text := err.Error()
		r.mu.Lock()
		defer r.mu.Unlock()
		if errors.Is(err, nats.ErrPermissionViolation) {
			if system {
				r.systemDenied = text
			} else if r.denied != nil {
				r.denied(&RefusedError{nc.ConnectedUrlRedacted(), r.opt.Credentials, text +
					"; the user must be allowed to " + rights})
			}
		}
		if r.opt.Clock.Since(said[text]) > complainEvery {
			if len(said) > mostServer {
				clear(said)
			}
			said[text] = r.opt.Clock.Mark()
			r.opt.Logf("%s", text)
		}
	}
}

const complainEvery = 10 * time.Second

// serverAlive is where each server says that it is alive, at its start and each 10 s.
const serverAlive = "$SYS.SERVER.*.STATSZ"

// alive asks for reports when a server was started.
func (r *Log) alive(m *nats.Msg) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.servers) > mostServer {
		clear(r.servers)
	}
	if !r.servers[m.Subject] { // it has the server's id, a new one at each start
		r.servers[m.Subject], r.due = true, true
	}
}

// settings returns how the stream is another one than it was made.
func (r *Log) settings(info *jetstream.StreamInfo) error {
	cfg := info.Config
	if id := cfg.Metadata[logName]; id != r.id {
		return fmt.Errorf("the stream %s is another one: its log is %q, ours %q", cfg.Name, id, r.id)
	}
	d := eventlog.SettingsDiff(r.want, cfg)
	for _, x := range []struct {
		name string
		bad  bool
		text any
	}{
		{"sealed", cfg.Sealed, cfg.Sealed}, {"allow_rollup_hdrs", cfg.AllowRollup, cfg.AllowRollup},
		{"no_ack", cfg.NoAck, cfg.NoAck},
		{"allow_msg_ttl", cfg.AllowMsgTTL, cfg.AllowMsgTTL}, {"mirror", cfg.Mirror != nil, "set"},
		{"sources", len(cfg.Sources) > 0, "set"},
		{"subject_transform", cfg.SubjectTransform != nil, "set"}, {"duplicate_window",
			cfg.Duplicates < r.want.Duplicates, cfg.Duplicates},
	} {
		if x.bad {
			if d != "" {
				d += ", "
			}
			d += fmt.Sprintf("%s is %v", x.name, x.text)
		}
	}
	if d != "" {
		return fmt.Errorf("somebody has changed the settings of the stream %s: %s", cfg.Name, d)
	}
	return nil
}

// replicas returns the cluster of NATS that has the stream, and its servers. A server without a cluster is alone.
func (r *Log) replicas(info *jetstream.StreamInfo) (cluster string, peers []eventlog.Replica) {
	if info.Cluster != nil {
		cluster = info.Cluster.Name
		for _, p := range info.Cluster.Replicas {
			peers = append(peers, eventlog.Replica{Name: p.Name, Current: p.Current, Offline: p.Offline,
				Active: p.Active})
		}
		if info.Cluster.Leader != "" {
			peers = append(peers, eventlog.Replica{Name: info.Cluster.Leader, Leader: true, Current: true})
		}
	}
	if len(peers) == 0 {
		peers = []eventlog.Replica{{Name: r.nc.ConnectedServerName(), Leader: true}}
	}
	slices.SortFunc(peers, func(a, b eventlog.Replica) int { return strings.Compare(a.Name, b.Name) })
	return cluster, peers
}

// watch looks at the stream each second, and asks the servers for reports each Every, when one was started, when the
// set of replicas changes, and when the connection of the system account was lost.
func (r *Log) watch(ctx context.Context, d *dialing) {
	defer close(r.done)
	tick := r.opt.Clock.Ticker(watchEvery)
	defer tick.Stop()
	var stream, trust error // what is wrong with each
	had, silent := "", 0
	for {
		info, err := r.stream.Describe(ctx)
		var gone *eventlog.GoneError
		switch {
		case errors.As(err, &gone):
			stream = gone
		case err == nil:
			stream = r.settings(info)
			cluster, peers := r.replicas(info)
			set := cluster
			for _, p := range peers {
				set += fmt.Sprintf(" %s %t", p.Name, away(&p))
			}
			r.mu.Lock()
			due := r.due || trust != nil || silent > 0 || set != had || r.opt.Clock.Since(r.good) >= r.opt.Every
			r.due = false
			r.mu.Unlock()
			if !due {
				break
			}
			had = set
			err := r.attest(ctx, d, cluster, peers)
			var a *AttestError
			if silent++; err == nil {
				silent, trust = 0, nil
			} else if !errors.As(err, &a) || !a.Silent || silent >= mostSilent {
				trust = err
			}
		case !r.nc.IsConnected() && refusedUser(r.nc.LastError()):
			stream = &RefusedError{strings.ReplaceAll(d.servers, ",", ", "), r.opt.Credentials,
				r.nc.LastError().Error()}
		default: // no leader, or no connection: the checkpoints that do not come back say so
		}
		if ctx.Err() != nil {
			return
		}
		r.note(errors.Join(stream, trust))
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// note keeps what is to be said, and tells the operator when it is new.
func (r *Log) note(verdict error) {
	r.mu.Lock()
	was := r.verdict
	r.verdict = verdict
	r.mu.Unlock()
	switch {
	case verdict != nil && (was == nil || was.Error() != verdict.Error()):
		r.opt.Logf("the log is not trusted: %v", verdict)
	case verdict == nil && was != nil:
		r.opt.Logf("the log is trusted again")
	}
}
