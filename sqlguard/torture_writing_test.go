package sqlguard_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/fencepost/fencepost/sqlguard"
	"github.com/fencepost/fencepost/token"
)

// writing is one write of the torture.
type writing struct {
	op        int64
	name      string
	door      func(ctx context.Context, tt *torture, g *sqlguard.Guard, w *writing) error
	options   pgx.TxOptions
	stakes    []stake
	writes    bool // an entry in the ledger for each stake
	modifies  bool // and the first one counts on from the last
	rollsBack bool
}

// stake is a resource and the token it is written with.
type stake struct {
	id  int
	tok token.Token
}

func (w *writing) isFixed() bool {
	return w.options.IsoLevel == pgx.RepeatableRead || w.options.IsoLevel == pgx.Serializable
}

func (w *writing) String() string {
	return fmt.Sprintf("write %d, %s %v under %s", w.op, w.name, w.stakes, w.options.IsoLevel)
}

// draw draws a write. Every twentieth token is a new one.
func (tt *torture) draw(rng *rand.Rand) *writing {
	w := &writing{op: tt.ops.Add(1), writes: true, modifies: rng.IntN(2) == 0, rollsBack: rng.IntN(10) == 0}
	w.options.IsoLevel = levels[max(0, rng.IntN(10)-7)]
	w.stakes = []stake{tt.stake(rng, rng.IntN(hot))}
	switch n := rng.IntN(20); {
	case n < 8:
		w.name, w.door = "Update", byUpdate
	case n < 13:
		w.name, w.door = "On", byOn
		if !w.isFixed() && rng.IntN(2) == 0 {
			w.name, w.options = "On, bare", pgx.TxOptions{}
		}
	case n < 16:
		w.name, w.door = "UpdateAll", byUpdate
		w.stakes = append(w.stakes, tt.stake(rng, (w.stakes[0].id+1)%hot))
	case n < 19:
		w.name, w.door = "Join", byJoin
		w.options.IsoLevel = pgx.ReadCommitted // else it must be claimed before
	default:
		w.name, w.door = "Admit", byAdmit
		w.writes, w.modifies = false, false
		w.options.IsoLevel = pgx.ReadCommitted
	}
	return w
}

func (tt *torture) stake(rng *rand.Rand, id int) stake {
	number := tt.newest[id].Load()
	tok := token.Token{Resource: fmt.Sprintf("hot/%d", id), Number: number, Holder: holder(number)}
	switch n := rng.IntN(100); {
	case n < 5:
		tok.Number = tt.newest[id].Add(1)
		tok.Holder = holder(tok.Number)
	case n < 20:
		tok.Number = max(1, number-1-rng.Int64N(3))
		tok.Holder = holder(tok.Number)
	case n < 22:
		tok.Holder = impostor(number)
	}
	return stake{id, tok}
}

func byUpdate(ctx context.Context, tt *torture, g *sqlguard.Guard, w *writing) error {
	fn := func(tx pgx.Tx) error { return tt.fill(ctx, tx, w) }
	if len(w.stakes) == 1 {
		return g.Update(ctx, w.stakes[0].tok.Resource, fn)
	}
	return g.UpdateAll(ctx, []string{w.stakes[0].tok.Resource, w.stakes[1].tok.Resource}, fn)
}

func byJoin(ctx context.Context, tt *torture, g *sqlguard.Guard, w *writing) error {
	return pgx.BeginTxFunc(ctx, tt.pool, w.options, func(tx pgx.Tx) error {
		if err := g.Join(ctx, tx, w.stakes[0].tok.Resource); err != nil {
			return err
		}
		return tt.fill(ctx, tx, w)
	})
}

func byAdmit(ctx context.Context, _ *torture, g *sqlguard.Guard, w *writing) error {
	return g.Admit(ctx, w.stakes[0].tok)
}

// nextSQL is a read-modify-write that appends: no row is locked, and no
// conflict of two updates saves a transaction that has read too early. Nothing
// but the admission keeps another token from coming in between.
const nextSQL = "SELECT coalesce((SELECT value FROM ledger WHERE id = $1 AND value IS NOT NULL ORDER BY n DESC LIMIT 1), 0) + 1"

// byOn reads and modifies in one statement, or only appends.
func byOn(ctx context.Context, tt *torture, g *sqlguard.Guard, w *writing) error {
	tok, value := w.stakes[0].tok, "NULL"
	if w.modifies {
		value = "(" + nextSQL + ")"
	}
	text := "INSERT INTO ledger (op, id, number, holder, value) VALUES ($2, $1, $3, $4, " + value + ")"
	_, err := g.On(tok.Resource).Exec(ctx, tt.sql(text), w.stakes[0].id, w.op, tok.Number, tok.Holder)
	return err
}

// fill does what a closure of an application does: it reads, thinks, writes.
func (tt *torture) fill(ctx context.Context, tx pgx.Tx, w *writing) error {
	for i, s := range w.stakes {
		var value *int64
		if w.modifies && i == 0 {
			if err := tx.QueryRow(ctx, tt.sql(nextSQL), s.id).Scan(&value); err != nil {
				return err
			}
		}
		_, err := tx.Exec(ctx, tt.sql("INSERT INTO ledger (op, id, number, holder, value) VALUES ($1, $2, $3, $4, $5)"),
			w.op, s.id, s.tok.Number, s.tok.Holder, value)
		if err != nil {
			return err
		}
	}
	if w.rollsBack {
		return errRolledBack
	}
	return nil
}

func outcomeCode(err error) string {
	var pg *pgconn.PgError
	if errors.As(err, &pg) {
		return pg.Code
	}
	return ""
}
