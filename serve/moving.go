package serve

import (
	"context"
	"encoding/hex"
	"errors"
	"net/url"
	"time"

	"troupe/eventlog"
	"troupe/serve/candidates"
	"troupe/serve/fold"
	"troupe/serve/recent"
)

// MoveService moves a model to another server and takes one, a step at a time (troupe move). Every step can be repeated with
// the number of the move. Code Conflict where the move is another one, or over; and in a cluster, which moves no models.
type MoveService interface {
	// Depart closes a model: nothing is decided, and rewards are refused for now. A decision that was answered is in the parcel.
	// to is the address of the other server.
	Depart(ctx context.Context, name, to, caller string) (MoveView, error)
	// Parcel returns the bytes of a closed model.
	Parcel(ctx context.Context, name string) ([]byte, error)
	// Arrive makes the model of a parcel here. When it returns, the model decides.
	Arrive(ctx context.Context, name string, parcel []byte, caller string) (MoveView, error)
	// Gone drops a closed model, whose parcel has arrived at the other server. Calls for it are answered with its address.
	Gone(ctx context.Context, name string, move eventlog.ID, caller string) (MoveView, error)
	// Turn refuses a move before its parcel has arrived, for good. Then Stay at the server of the model undoes it.
	Turn(ctx context.Context, name string, model, move eventlog.ID, caller string) (MoveView, error)
	// Stay opens a closed model again.
	Stay(ctx context.Context, name string, move eventlog.ID, caller string) (MoveView, error)
	// Move returns how far the move of a model is.
	Move(ctx context.Context, name string) (MoveView, error)
}

// MoveView is how far a move is.
type MoveView struct {
	Name string `json:"name" doc:"name of the model"`
	// State is absent, here, closed or gone.
	State       string      `json:"state" enum:"absent,here,closed,gone" doc:"absent: there is no such model; closed: it is about to go; gone: it is at the other server"`
	Incarnation eventlog.ID `json:"incarnation,omitzero" doc:"id of the model, at every server"`
	Move        eventlog.ID `json:"move,omitzero" doc:"number of the move: of the one under way, or by which the model went or came"`
	To          string      `json:"to,omitempty" doc:"address of the other server, of a model that is closed or gone"`
	Came        eventlog.ID `json:"came,omitzero" doc:"number of the move by which the model came here"`
	Digest      eventlog.ID `json:"digest,omitzero" doc:"of the state of the policy and what is kept beside it"`
	Sum         string      `json:"sum,omitempty" doc:"of the parcel that came, hexadecimal"`
	Open        uint64      `json:"open" doc:"open windows"`
	Seq         uint64      `json:"seq" doc:"log entry that the answer is of"`
}

// moves implements MoveService.
type moves struct {
	*state
	log     *writer
	control *control
	keys    eventlog.IDKeys
	recent  *recent.Decisions
}

// alone refuses a cluster.
func (s *moves) alone() error {
	if s.log.nodes != nil {
		return errorf(Conflict, "a cluster of several nodes moves no models; export the model's state (state?format=model) and make one from it")
	}
	return nil
}

// Move implements MoveService.
func (s *moves) Move(ctx context.Context, name string) (MoveView, error) {
	done, err := s.log.begin(ctx)
	if err != nil {
		return MoveView{}, err
	}
	defer done()
	return s.viewMove(name)
}

func (s *moves) viewMove(name string) (MoveView, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	v := MoveView{Name: name, State: "absent", Seq: s.fold.Seq()}
	m := s.fold.Named(name)
	if m == nil {
		m = s.fold.Moves.GoneModel(name)
	}
	if m == nil {
		return v, nil
	}
	v.State, v.Incarnation, v.Open = "here", m.ID, m.Counts.Open
	if x := m.Moving; x != nil {
		v.State, v.Move, v.To = "closed", x.Move, x.To
		if x.Gone {
			v.State = "gone"
			return v, nil
		}
	}
	for id := range s.fold.Models() { // a rollback keeps how its model came
		if id.Came != nil && s.fold.Current(id) == m {
			v.Came, v.Sum = id.Came.Move, hex.EncodeToString(id.Came.Sum[:])
		}
	}
	if e := s.entries[m.ID]; e != nil {
		v.Digest = e.version.Load().Digest
	}
	return v, nil
}

// step writes the record of a step of a move, unless done says that it was taken.
func (s *moves) step(ctx context.Context, name string, make func(v MoveView) (*eventlog.Control, error)) (MoveView, error) {
	if err := s.alone(); err != nil {
		return MoveView{}, err
	}
	err := s.control.change(ctx, func() (*eventlog.Control, error) {
		v, err := s.viewMove(name)
		if err != nil {
			return nil, err
		}
		return make(v)
	})
	if err != nil {
		return MoveView{}, err
	}
	return s.viewMove(name)
}

// Depart implements MoveService.
func (s *moves) Depart(ctx context.Context, name, to, caller string) (MoveView, error) {
	if u, err := url.Parse(to); err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil || u.RawQuery != "" || u.ForceQuery ||
		u.Fragment != "" || len(to) > 512 {
		return MoveView{}, invalid("to", to, "expected the address of the other server, http://HOST or https://HOST")
	}
	if err := s.alone(); err != nil {
		return MoveView{}, err
	}
	done, err := s.log.begin(ctx)
	if err != nil {
		return MoveView{}, err
	}
	defer done()
	// What the log has of the model is read before it is closed: its callers wait meanwhile.
	var read fold.Read
	if m, err := s.pack(name); err == nil && m != nil {
		if err := s.read(ctx, m, &read); err != nil {
			return MoveView{}, err
		}
	}
	var id eventlog.ID
	v, err := s.step(ctx, name, func(v MoveView) (*eventlog.Control, error) {
		switch {
		case v.State == "closed" && v.To == to:
			return nil, nil
		case v.State == "closed":
			return nil, errorf(Conflict, "the model is about to go to %s; undo that first", v.To)
		case v.State == "gone":
			return nil, missing(s.state, name)
		case v.State == "absent":
			return nil, noModel(name)
		}
		if err := s.caughtUp(ctx, name); err != nil {
			return nil, err
		}
		id = v.Incarnation
		s.away.close(id)
		return &eventlog.Control{Act: eventlog.Depart, Model: id, Name: name, Digest: random(), Data: []byte(to), Caller: caller}, nil
	})
	if err != nil {
		var e *Error
		if id != 0 && errors.As(err, &e) && !e.Unknown {
			s.away.failed(id)
		}
		return v, err
	}
	s.away.keep(name, v.Move, &read)
	return v, nil
}

// pack takes what the fold has of a model, nil where there is none.
func (s *moves) pack(name string) (*fold.Packing, error) {
	s.mu.Lock() // a state may be taken
	defer s.mu.Unlock()
	m := s.fold.Named(name)
	if m == nil {
		return nil, nil
	}
	p, err := fold.Pack(s.fold, m)
	if err != nil {
		return nil, &Error{Code: Internal, Want: "the state cannot be read", Err: err}
	}
	return p, nil
}

// read reads the decisions that a parcel needs and that are not read yet.
func (s *moves) read(ctx context.Context, p *fold.Packing, read *fold.Read) error {
	unreadable := func(err error) error {
		return &Error{Code: Unavailable, Want: "the log cannot be read", RetryAfter: time.Second, Err: err}
	}
	for seq, needs := range p.Entries() {
		var wants []fold.Need
		for _, n := range needs {
			if !read.Has(n) {
				wants = append(wants, n)
			}
		}
		if len(wants) == 0 {
			continue
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		found, err := s.past.Among(seq)
		if err != nil {
			return unreadable(err)
		}
		for _, n := range wants {
			r, c, err := found.Find(n.Event)
			if err != nil {
				return unreadable(err)
			}
			id := eventlog.EventID{Event: n.Event, Hint: seq}
			var marks []eventlog.Mark
			if c != nil {
				id.Hint, marks = c.Hint, c.Marks
			} else if p.Mine(r) {
				marks = s.keys.Marks(id)
			}
			full, err := placeOnly(r.Full)
			if err == nil {
				err = read.Add(p, n, r, full, id.Hint, marks)
			}
			if err != nil {
				return &Error{Code: Internal, Want: "a decision cannot be packed", Err: err}
			}
		}
	}
	return nil
}

// placeOnly returns what tells the place of the action of a decision among those of its request, without features where that
// is possible.
func placeOnly(full []byte) ([]byte, error) {
	set, err := candidates.Parse(full)
	switch {
	case err != nil:
		return nil, err
	case set.Grid != nil:
		return full, nil
	case set.Places == nil:
		return nil, nil
	}
	return candidates.Append(nil, set.Places, nil, 0), nil
}

// Parcel implements MoveService.
func (s *moves) Parcel(ctx context.Context, name string) ([]byte, error) {
	done, err := s.log.begin(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	v, err := s.viewMove(name)
	switch {
	case err != nil:
		return nil, err
	case v.State == "absent":
		return nil, noModel(name)
	case v.State == "gone":
		return nil, missing(s.state, name)
	case v.State != "closed":
		return nil, errorf(Conflict, "the model is not closed (:depart)")
	}
	p, err := s.pack(name)
	if err != nil {
		return nil, err
	}
	read := s.away.take(name, v.Move)
	if err := s.read(ctx, p, read); err != nil {
		return nil, err
	}
	out, err := p.Parcel(read)
	if err != nil {
		return nil, &Error{Code: Conflict, Want: err.Error(), Err: err}
	}
	return out.Append(nil), nil
}

// Arrive implements MoveService.
func (s *moves) Arrive(ctx context.Context, name string, parcel []byte, caller string) (MoveView, error) {
	p, err := fold.ReadParcel(parcel)
	if err != nil {
		return MoveView{}, invalid("parcel", len(parcel), "%v", err)
	}
	if p.Name != name {
		return MoveView{}, invalid("parcel", p.Name, "is of another model")
	}
	if err := s.alone(); err != nil {
		return MoveView{}, err
	}
	done, err := s.log.beginWrite(ctx)
	if err != nil {
		return MoveView{}, err
	}
	defer done()
	s.control.admin.Lock()
	defer s.control.admin.Unlock()
	v, err := s.viewMove(name)
	if err != nil {
		return v, err
	}
	s.mu.RLock()
	turned, arrived := s.fold.Moves.Turned(p.Move), s.fold.Moves.Arrived(p.Move)
	s.mu.RUnlock()
	switch {
	case arrived:
		return v, nil
	case turned:
		return v, errorf(Conflict, "this move was turned away here, and can be undone at the other server")
	case v.State == "closed" || v.State == "here":
		return v, errorf(Conflict, "there is a model with this name")
	case v.State == "absent":
		if err := s.control.free("name", name); err != nil {
			return v, err
		}
	}
	c := p.Config()
	if _, err := c.Compile(s.log.opt.Limits.model()); err != nil {
		return v, refused(err)
	}
	if n := s.open.Load() + int64(p.Events()); n > int64(s.log.opt.Limits.Open) {
		return v, &Error{Code: TooBusy, Want: "with those of the model too many decisions would wait for their reward"}
	}
	if err := s.control.aside.room("parcel", p.Size()); err != nil {
		return v, err
	}
	for _, r := range p.Records(caller, s.log.opt.Clock.Now().UnixNano()) {
		out, _, err := s.log.write(ctx, r)
		if err == nil && out != fold.Accepted {
			err = errorf(Conflict, "the parcel was refused or interrupted; nothing was made")
		}
		if err != nil {
			return v, err
		}
	}
	v, err = s.viewMove(name)
	if err == nil {
		s.away.open(p.Model, v.Seq)
	}
	return v, err
}

// Gone implements MoveService.
func (s *moves) Gone(ctx context.Context, name string, move eventlog.ID, caller string) (MoveView, error) {
	v, err := s.step(ctx, name, func(v MoveView) (*eventlog.Control, error) {
		switch {
		case v.State == "gone" && v.Move == move:
			return nil, nil
		case v.State != "closed" || v.Move != move:
			return nil, errorf(Conflict, "the model is not closed for this move")
		}
		return &eventlog.Control{Act: eventlog.Gone, Model: v.Incarnation, Name: name, Digest: move, Data: []byte(v.To), Caller: caller}, nil
	})
	if err == nil {
		s.away.take(name, move)
	}
	return v, err
}

// Turn implements MoveService.
func (s *moves) Turn(ctx context.Context, name string, model, move eventlog.ID, caller string) (MoveView, error) {
	if model == 0 || move == 0 {
		return MoveView{}, invalid("move", move, "expected the number of a move, and the incarnation of its model")
	}
	return s.step(ctx, name, func(v MoveView) (*eventlog.Control, error) {
		s.mu.RLock()
		turned, arrived := s.fold.Moves.Turned(move), s.fold.Moves.Arrived(move)
		s.mu.RUnlock()
		switch {
		case arrived:
			return nil, errorf(Conflict, "the model has arrived by this move")
		case turned:
			return nil, nil
		}
		return &eventlog.Control{Act: eventlog.Turn, Model: model, Name: name, Digest: move, Caller: caller}, nil
	})
}

// Stay implements MoveService.
func (s *moves) Stay(ctx context.Context, name string, move eventlog.ID, caller string) (MoveView, error) {
	v, err := s.step(ctx, name, func(v MoveView) (*eventlog.Control, error) {
		switch {
		case v.State == "here":
			return nil, nil
		case v.State != "closed" || v.Move != move:
			return nil, errorf(Conflict, "the model is not closed for this move")
		}
		return &eventlog.Control{Act: eventlog.Stay, Model: v.Incarnation, Name: name, Digest: move, Caller: caller}, nil
	})
	if err == nil {
		s.away.open(v.Incarnation, v.Seq)
		s.away.take(name, move)
	}
	return v, err
}
