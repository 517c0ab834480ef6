package migrations_test

import (
	"errors"
	"fmt"
	"math/rand/v2"

	"github.com/jackc/pgx/v5"
)

var errOnPurpose = errors.New("rolled back on purpose")

// prune prunes what was not written for a while, and sometimes everything.
func (tt *torture) prune(rng *rand.Rand) {
	cutoff := tt.clock.Load() - 40
	if rng.IntN(20) == 0 {
		cutoff += 42
	}
	cutoff = max(cutoff, tt.cutoff.Load())
	tt.cutoff.Store(cutoff)
	gone := 0
	err := tt.QueryRow(tt.Context(), tt.sql("SELECT fence.prune($1, $2)"), cutoff, 1+rng.IntN(5)).Scan(&gone)
	if err != nil {
		tt.violate("prune(%d): %v", cutoff, err)
	}
	tt.count("pruned", gone)
}

// write makes one write, with a token that is new, newest or older, and judges
// what it was told.
func (tt *torture) write(rng *rand.Rand) {
	id := rng.IntN(hot)
	number := tt.newest[id].Load()
	switch draw := rng.IntN(10); {
	case draw < 3 || number == 0:
		number = tt.issue(id)
	case draw < 7:
		number = max(1, number-1-rng.Int64N(80))
	}
	options := pgx.TxOptions{IsoLevel: pgx.ReadCommitted}
	if rng.IntN(4) == 0 {
		options.IsoLevel = []pgx.TxIsoLevel{pgx.RepeatableRead, pgx.Serializable}[rng.IntN(2)]
	}
	rollBack := rng.IntN(10) == 0
	err := pgx.BeginTxFunc(tt.Context(), tt.Pool, options, func(tx pgx.Tx) error {
		if err := tt.admit(tt.Context(), tx, resource(id), number, fmt.Sprintf("holder %d", number)); err != nil {
			return err
		}
		if err := tt.exec(tt.Context(), tx, "INSERT INTO fence.ledger (id, number) VALUES ($1, $2)", id, number); err != nil {
			return err
		}
		if rollBack {
			return errOnPurpose
		}
		return nil
	})
	tt.judge(id, number, options.IsoLevel != pgx.ReadCommitted, err)
}

// issue makes the newest token of a resource.
func (tt *torture) issue(id int) int64 {
	number := tt.clock.Add(1)
	for {
		old := tt.newest[id].Load()
		if old >= number || tt.newest[id].CompareAndSwap(old, number) {
			return number
		}
	}
}
