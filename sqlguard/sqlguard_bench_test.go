package sqlguard_test

import (
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/fencepost/fencepost/internal/ratio"
	"github.com/fencepost/fencepost/token"
)

// Each benchmark reports what the guarded write costs beside the same write
// unguarded. The server of these tests does not wait for its disk: with the
// wait in both, the ratios are smaller.

func BenchmarkUpdate(b *testing.B) {
	e := newEnv(b)
	e.admitted(33)
	ctx := e.ctx(33)
	write := e.write(ctx, "x")
	ratio.Report(b,
		func() error { return pgx.BeginFunc(ctx, e.pool, write) },
		func() error { return e.guard.Update(ctx, resource, write) })
}

func BenchmarkOnExec(b *testing.B) {
	e := newEnv(b)
	e.admitted(33)
	ctx, set := e.ctx(33), e.sql("UPDATE accounts SET writer = $1 WHERE id = 42")
	on := e.guard.On(resource)
	ratio.Report(b,
		func() error { _, err := e.pool.Exec(ctx, set, "x"); return err },
		func() error { _, err := on.Exec(ctx, set, "x"); return err })
}

// A refusal is held against the unguarded write that finds no row.
func BenchmarkOnExecRefused(b *testing.B) {
	e := newEnv(b)
	e.admitted(34)
	ctx, set := e.ctx(33), e.sql("UPDATE accounts SET writer = $1 WHERE id = $2")
	on := e.guard.On(resource)
	ratio.Report(b,
		func() error { _, err := e.pool.Exec(ctx, set, "x", 7); return err },
		func() error { _, _ = on.Exec(ctx, set, "x", 42); return nil })
}

// Admit again, as the second and later writes of a lease do.
func BenchmarkAdmit(b *testing.B) {
	e := newEnv(b)
	tok := token.Token{Resource: resource, Number: 33, Holder: "h33"}
	ratio.Report(b,
		func() error { _, err := e.pool.Exec(b.Context(), "SELECT 1"); return err },
		func() error { return e.guard.Admit(b.Context(), tok) })
}

func BenchmarkMint(b *testing.B) {
	e := newEnv(b)
	set := e.sql("UPDATE accounts SET writer = $1 WHERE id = 42")
	ratio.Report(b,
		func() error { _, err := e.pool.Exec(b.Context(), set, "x"); return err },
		func() error { _, err := e.guard.Mint(b.Context(), e.pool, resource, "h"); return err })
}

// Sixteen writers of one token, each on a row of its own.
func BenchmarkOnExecParallel(b *testing.B) {
	e := newEnv(b)
	e.exec("INSERT INTO accounts (id) SELECT generate_series(1000, 1015)")
	e.admitted(33)
	ctx, set := e.ctx(33), e.sql("UPDATE accounts SET writer = $1 WHERE id = $2")
	on := e.guard.On(resource)
	many := func(exec func(id int) error) func() error {
		return func() error {
			var group sync.WaitGroup
			for i := range writers {
				group.Go(func() {
					if err := exec(1000 + i); err != nil {
						b.Error(err)
					}
				})
			}
			group.Wait()
			return nil
		}
	}
	ratio.Report(b,
		many(func(id int) error { _, err := e.pool.Exec(ctx, set, "x", id); return err }),
		many(func(id int) error { _, err := on.Exec(ctx, set, "x", id); return err }))
}
