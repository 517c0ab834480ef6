package simulations_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/simulations/history"
	"github.com/fencepost/fencepost/token"
)

// purse counts units in memory: it is read, and then written with what was made
// of that. Everything that happens to it is taken down.
type purse struct {
	*history.Recorder
	marks guard.Memory

	mu     sync.Mutex
	units  int
	booked int // units whose writer was told so
}

func newPurse() *purse { return &purse{Recorder: history.NewRecorder()} }

func (p *purse) read() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.units
}

// claim is a Locker's.
func (p *purse) claim(name string) func(context.Context, token.Token) error {
	return func(ctx context.Context, tok token.Token) error {
		err := p.marks.Admit(ctx, tok)
		p.note(history.Op{Kind: history.Claim, Writer: name, Number: tok.Number, Holder: tok.Holder}, err)
		return err
	}
}

// add compares and writes in one step. It does not look whether ctx has ended,
// as a writer does not who was paused and does not know it.
func (p *purse) add(ctx context.Context, name string, seen int) error {
	ctx = context.WithoutCancel(ctx)
	tok, err := token.FromContext(ctx, resource)
	if err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	err = p.marks.Admit(ctx, tok)
	op := history.Op{Kind: history.Write, Writer: name, Number: tok.Number, Holder: tok.Holder, Seen: int64(seen)}
	if err == nil {
		p.units, op.Made = seen+1, int64(seen+1)
		p.booked++
	}
	p.note(op, err)
	op.Kind, op.Seen, op.Made = history.Unit, 0, 0
	p.note(op, err)
	return err
}

// note takes down what happened in no time.
func (p *purse) note(op history.Op, err error) {
	op.Resource, op.Began, op.Ended, op.Outcome = resource, p.Now(), p.Now(), history.Accepted
	switch {
	case errors.Is(err, guard.ErrStale):
		op.Outcome = history.Refused
	case err != nil:
		op.Outcome = history.Failed
	}
	p.Add(op)
}

// lost is how many units somebody was told that are not there.
func (p *purse) lost() int { return p.booked - p.read() }

// judge holds everything that was taken down against all rules.
func (p *purse) judge() error {
	p.note(history.Op{Kind: history.Read, Writer: "judge", Counted: p.read()}, nil)
	broken, err := history.Check(p.History())
	for _, v := range broken {
		err = errors.Join(err, errors.New(v.String()))
	}
	return err
}

// diary is all of it in words, without what differs from run to run: the random
// part of the holders.
func (p *purse) diary() string {
	var text strings.Builder
	for _, op := range p.History().Ops {
		op.Holder = ""
		fmt.Fprintf(&text, "%+v\n", op)
	}
	return text.String()
}
