package main

import "context"

// silence is go-redis's logger here: its newer versions log each failed dial,
// and what went wrong is said once, on one line, by status.
type silence struct{}

func (silence) Printf(context.Context, string, ...any) {}
