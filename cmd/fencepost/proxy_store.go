package main

import (
	"context"
	"errors"
	"strings"

	"github.com/fencepost/fencepost/guard"
)

// marksStore is where the marks are.
type marksStore struct {
	marks guard.Store
	// hold admits the tokens that wait carries for the resources, and runs send
	// while nobody newer can be admitted, whichever proxy asks. What send gets
	// ends when that is no longer certain. An error means that send did not run.
	// Nil: the store cannot.
	hold func(wait *waiting, resources []string, send func(held context.Context)) error
	// claim admits those of the tokens that are there. Nil where hold is.
	claim func(wait context.Context, resources []string) error
	ready func(ctx context.Context) error
	close func()
}

func (c *proxyCmd) store(ctx context.Context, log *proxyLog) (marksStore, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, reach, errors.New("no answer within "+reach.String()))
	defer cancel()
	var store marksStore
	var err error
	switch {
	case c.DangerouslyMemory:
		store = marksStore{marks: new(guard.Memory), ready: func(context.Context) error { return nil }, close: func() {}}
	case strings.HasPrefix(c.Store, "redis://"), strings.HasPrefix(c.Store, "rediss://"):
		store, err = c.redis()
	default:
		store, err = c.postgres(ctx, log)
	}
	if err != nil {
		return marksStore{}, err
	}
	if err := store.ready(ctx); err != nil {
		store.close()
		return marksStore{}, becauseOf(ctx, err)
	}
	return store, nil
}
