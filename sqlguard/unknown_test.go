package sqlguard_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/sqlguard"
	"github.com/fencepost/fencepost/token"
)

// deafAt cuts the line behind the first packet that contains the word, once
// armed: the server gets it, its answer is never read.
type deafAt struct {
	net.Conn
	word []byte
	arm  *atomic.Bool
	cut  atomic.Bool
}

// Write is deaf before it sends: where sending takes long, pgx reads meanwhile.
func (c *deafAt) Write(b []byte) (int, error) {
	if c.arm.Load() && bytes.Contains(b, c.word) {
		c.cut.Store(true)
	}
	return c.Conn.Write(b)
}

func (c *deafAt) Read(b []byte) (int, error) {
	if c.cut.Load() {
		return 0, io.ErrUnexpectedEOF
	}
	n, err := c.Conn.Read(b)
	if c.cut.Load() {
		return 0, io.ErrUnexpectedEOF
	}
	return n, err
}

// deaf is a pool of one connection that is cut at the word.
func deaf(t *testing.T, word string, mode pgx.QueryExecMode) (*pgxpool.Pool, *atomic.Bool) {
	arm := &atomic.Bool{}
	pool, _ := wired(t, 1, inMode(mode), func(c *pgxpool.Config) {
		dial := c.ConnConfig.DialFunc
		c.ConnConfig.DialFunc = func(ctx context.Context, network, addr string) (net.Conn, error) {
			if arm.Load() {
				return nil, errors.New("nobody there")
			}
			conn, err := dial(ctx, network, addr)
			return &deafAt{Conn: conn, word: []byte(word), arm: arm}, err
		}
	})
	return pool, arm
}

func TestUnknown(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"Update", "UpdateAll", "On.Exec", "On.Query", "On.QueryRow", "On.SendBatch"} {
		t.Run(name+" whose answer is lost is unknown, and in truth applied", func(t *testing.T) {
			t.Parallel()
			e := newEnv(t)
			word := "commit"
			if name[:2] == "On" {
				word = "applied" // the commit is a prepared statement there
			}
			pool, arm := deaf(t, word, pgx.QueryExecModeCacheStatement)
			door := doors(e, e.with(func(g *sqlguard.Guard) { g.DB = pool }))[name]
			require.NoError(t, door(e.ctx(33), "before"))
			arm.Store(true)
			err := door(e.ctx(33), "applied")
			require.ErrorIs(t, err, guard.ErrUnknown)
			require.Equal(t, []error{guard.ErrUnknown}, outcomes(err))
			e.await("the write", func() bool { return e.writer() == "applied" })
		})
	}
	t.Run("a claim whose answer is lost is unknown, and can be repeated", func(t *testing.T) {
		t.Parallel()
		e := newEnv(t)
		pool, arm := deaf(t, "h34", pgx.QueryExecModeExec)
		g := e.with(func(g *sqlguard.Guard) { g.DB = pool })
		tok := token.Token{Resource: resource, Number: 34, Holder: "h34"}
		require.NoError(t, g.Admit(e.bounded(), token.Token{Resource: resource, Number: 33, Holder: "h33"}))
		arm.Store(true)
		require.ErrorIs(t, g.Admit(e.bounded(), tok), guard.ErrUnknown)
		require.NoError(t, e.guard.Admit(e.bounded(), tok))
	})
	t.Run("what fails before the commit was sent is an ordinary error", func(t *testing.T) {
		t.Parallel()
		e := newEnv(t)
		pool, arm := deaf(t, "inside", pgx.QueryExecModeExec)
		g := e.with(func(g *sqlguard.Guard) { g.DB = pool })
		ctx := e.ctx(33)
		err := g.Update(ctx, resource, func(tx pgx.Tx) error { arm.Store(true); return e.write(ctx, "inside")(tx) })
		require.Error(t, err)
		require.Empty(t, outcomes(err))
		err = doors(e, g)["On.Exec"](ctx, "no connection to be had")
		require.ErrorContains(t, err, "nobody there")
		require.Empty(t, outcomes(err))
	})
}
