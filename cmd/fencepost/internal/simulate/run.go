package simulate

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/fencepost/fencepost/internal/history"
	"github.com/fencepost/fencepost/internal/rounds"
	"github.com/fencepost/fencepost/internal/subprocess"
)

// Report is the outcome of a run.
type Report struct {
	Rounds int     `json:"rounds"`
	TTL    int64   `json:"ttl_ms"`
	Issuer string  `json:"issuer"` // "redis", "etcd" or "redis (embedded)"
	Store  string  `json:"store"`  // "postgres" or "sqlite (embedded)"
	Pause  string  `json:"pause"`  // "SIGSTOP" or "in-process"
	Runs   []Count `json:"runs"`
}

// Of returns the count of one way. It is zero if the way was not run.
func (r *Report) Of(way Way) Count {
	for _, count := range r.Runs {
		if count.Name == way {
			return count
		}
	}
	return Count{Name: way}
}

// fenced reports whether the guard worked: stale writes were attempted, none was accepted,
// and no update was lost.
func (r *Report) fenced() bool {
	c := r.Of(Guarded)
	return c.StaleAttempted > 0 && c.StaleAccepted == 0 && c.UpdatesLost == 0
}

// corrupted reports whether updates were lost without a guard. If not, the run is no
// evidence for the guard.
func (r *Report) corrupted() bool { return r.Of(Unguarded).UpdatesLost > 0 }

// Count has the figures of the rounds of one way.
type Count struct {
	Name           Way `json:"name"`
	StaleAttempted int `json:"stale_attempted"` // A wrote, or tried to, with a token older than B's
	StaleAccepted  int `json:"stale_accepted"`  // A's stale write is in the row, or was acknowledged
	UpdatesLost    int `json:"updates_lost"`    // acknowledged increments of A and B that the row does not have
	Refused        int `json:"refused"`         // A's write was refused as stale

	first example
}

// example is the first round of a way.
type example struct {
	history history.History
	balance int64    // at the end
	lost    []string // the acknowledged increments that the row does not have at the end, as "B+20"
}

// report runs all rounds of all ways, one after another, and returns the figures. If a step
// fails, it returns an error and no report. When ctx ends, it returns ctx's cause. In each
// case it ends the processes and removes the folder, the schema and the keys before it
// returns.
func (c *Cmd) report(ctx context.Context) (*Report, error) {
	servers, err := startServers(ctx, c)
	if err != nil {
		return nil, orCause(ctx, err)
	}
	report := &Report{Rounds: c.Rounds, TTL: c.TTL.Milliseconds(), Issuer: servers.issuer, Store: servers.name, Pause: c.pause.String()}
	for _, way := range ways {
		s := &series{Count: Count{Name: way}, command: c, store: servers.store, recorder: history.NewRecorder(), resource: resource(way)}
		if err = s.run(ctx, servers.conf()); err != nil {
			break
		}
		report.Runs = append(report.Runs, s.Count)
	}
	if err := errors.Join(orCause(ctx, err), servers.stop(ctx)); err != nil {
		return nil, err
	}
	return report, nil
}

// orCause returns ctx's cause instead of err, if ctx has ended: err follows from that.
func orCause(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); err != nil && cause != nil {
		return cause
	}
	return err
}

// series are the rounds of one way.
type series struct {
	Count
	command      *Cmd
	store        *store
	recorder     *history.Recorder
	resource     string
	began, ended time.Duration // of the first round
}

func (s *series) run(ctx context.Context, conf string) error {
	if err := s.store.write(ctx, s.resource, opened, false); err != nil { // for the rehearsal
		return err
	}
	_, err := rounds.Run(ctx, rounds.Options{
		Writer: subprocess.Command{Argv: s.command.writer}, Subject: string(s.Name), Conf: conf, Resource: s.resource, TTL: s.command.TTL,
		Pause: rounds.SIGSTOP, By: s.command.pause, At: beforeWrite, Nth: 1, Rounds: s.command.Rounds,
		Recorder: s.recorder, Observe: s.observe,
	})
	if err != nil {
		return fmt.Errorf("%s: %w", s.resource, err)
	}
	s.setExample()
	return nil
}

// setExample sets the history of the first round. It leaves out units of work, which are
// writes here.
func (s *series) setExample() {
	for _, op := range s.recorder.History().Ops {
		if op.Began < s.began || op.Began > s.ended || op.Kind == history.Unit {
			continue
		}
		if op.Kind == history.Fault {
			op.Note = "stopped"
		}
		s.first.history.Ops = append(s.first.history.Ops, op)
	}
}

// observe opens the account for each round, and counts what is in it afterwards.
func (s *series) observe(ctx context.Context, at rounds.Moment, r rounds.Round) error {
	s.command.observe(s.Name, r.Number, at)
	switch at {
	case rounds.Begins:
		if r.Number == 1 {
			s.began = s.recorder.Now()
		}
		return s.store.write(ctx, s.resource, opened, false)
	case rounds.Succeeded:
		row, lost, err := s.look(ctx, []string{"B"})
		if err == nil && len(lost) > 0 {
			err = fmt.Errorf("writer B's write was acknowledged, and the row does not have it: %q", row.increments)
		}
		return err
	case rounds.Ended:
		return s.count(ctx, r)
	}
	return nil
}

// asDrawn reports whether A wrote after B, and with the older token.
func asDrawn(r rounds.Round) bool {
	answered := r.A.Outcome == history.Accepted || r.A.Outcome == history.Refused
	return answered && !r.Missed && !r.Blocked && 0 < r.A.Number && r.A.Number < r.B.Number
}

// acknowledged returns the writers whose writes are acknowledged in a round that is as drawn.
func acknowledged(answerA history.Outcome) []string {
	if answerA == history.Accepted {
		return []string{"A", "B"}
	}
	return []string{"B"}
}

func (s *series) count(ctx context.Context, r rounds.Round) error {
	if !asDrawn(r) {
		return fmt.Errorf("it differs from the drawing: A, token %d: %s: %s; B, token %d", r.A.Number, r.A.Outcome, r.A.Text, r.B.Number)
	}
	row, lost, err := s.look(ctx, acknowledged(r.A.Outcome))
	if err != nil {
		return err
	}
	s.add(r.A.Outcome, row, lost)
	if r.Number == 1 {
		s.ended = s.recorder.Now()
		s.first.balance, s.first.lost = row.balance, lost
	}
	return nil
}

// add counts a round by the answer to A and the row at its end. A refused write that the row
// has counts as accepted too: the database decides.
func (c *Count) add(answer history.Outcome, row account, lost []string) {
	c.StaleAttempted++
	c.UpdatesLost += len(lost)
	if answer == history.Accepted || row.has("A") {
		c.StaleAccepted++
	}
	if answer == history.Refused {
		c.Refused++
	}
}

// look reads the row. It returns those acknowledged increments that the row does not have.
func (s *series) look(ctx context.Context, acknowledged []string) (row account, lost []string, err error) {
	began := s.recorder.Now()
	if row, err = s.store.read(ctx, s.resource); err != nil {
		return row, nil, err
	}
	note := fmt.Sprintf("balance %d", row.balance)
	if lost = row.lacks(acknowledged); len(lost) > 0 {
		note += ": " + strings.Join(lost, ", ") + " is gone"
	}
	s.recorder.Add(history.Op{
		Kind: history.Read, Writer: "account", Resource: s.resource, Outcome: history.Accepted,
		Began: began, Ended: s.recorder.Now(), Note: note,
	})
	return row, lost, nil
}
