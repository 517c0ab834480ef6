package stdsql_test

import (
	"database/sql"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/guard/guardtest"
	"github.com/fencepost/fencepost/internal/test/testenv"
	"github.com/fencepost/fencepost/migrations"
	"github.com/fencepost/fencepost/sqlguard/stdsql"
	"github.com/fencepost/fencepost/token"
)

func TestStressGalera(t *testing.T) {
	t.Parallel()
	dsns := testenv.Galera(t, 2)
	t.Run("a claim that one node has not applied yet", func(t *testing.T) { overtakenOnGalera(t, dsns) })
	t.Run("8 writers on both nodes", func(t *testing.T) { tortureOnGalera(t, dsns) })
	t.Run("one node that the caller vouches for", func(t *testing.T) { vouchedOnGalera(t, dsns[0]) })
}

var databases atomic.Int64

// onGalera creates a database and returns it as seen from each node.
func onGalera(t *testing.T, dsns []string) (nodes []*database) {
	t.Helper()
	name := fmt.Sprint("fencepost_", databases.Add(1))
	for i, dsn := range dsns {
		config, err := mysql.ParseDSN(dsn)
		require.NoError(t, err)
		if i == 0 {
			run(t, connect(t, "mysql", dsn), "CREATE DATABASE "+name)
		}
		config.DBName = name
		node := &database{driver: "mysql", dsn: config.FormatDSN(), dialect: stdsql.MySQL, marks: "fencepost_marks"}
		if i == 0 {
			set := migrations.Set{Dialect: migrations.MySQL, DangerouslyTrustEngine: true}
			require.NoError(t, set.Up(t.Context(), connect(t, "mysql", node.dsn)))
			node.made(t, "BIGINT AUTO_INCREMENT")
			run(t, node, "CREATE TABLE blocker (id INTEGER PRIMARY KEY)")
		} else {
			node.DB = node.connect(t)
		}
		nodes = append(nodes, node)
	}
	eventually(t, func() bool { return has(t, nodes[len(nodes)-1], "SELECT count(*) = 0 FROM blocker") })
	return nodes
}

func eventually(t *testing.T, is func() bool) {
	t.Helper()
	require.Eventually(t, is, hang, 5*time.Millisecond)
}

// has reports whether the query returns true. Its tables may not exist yet.
func has(t *testing.T, node *database, query string) (yes bool) {
	t.Helper()
	return node.QueryRowContext(t.Context(), query).Scan(&yes) == nil && yes
}

// overtakenOnGalera is the interleaving of the hazard:
//
//  1. 33 is admitted. Then a table lock keeps n1 from applying what n2 commits.
//  2. 34 is admitted on n2, and reads.
//  3. 33 is admitted on n1, where the mark is still its own, and writes.
//
// hazard M1
func overtakenOnGalera(t *testing.T, dsns []string) {
	nodes := onGalera(t, dsns)
	n1, n2 := nodes[0], nodes[1]
	older, newer := tok(33, "a"), tok(34, "b")
	n1.trust, n2.trust = true, true
	n1.claim(t, older)
	eventually(t, func() bool { return n2.mark(t, account).Number == older.Number })
	applier, err := n1.Conn(t.Context())
	require.NoError(t, err)
	defer applier.Close()
	run(t, applier, "LOCK TABLES blocker READ") // only the applier of n2's transactions waits for this lock
	run(t, n2, "INSERT INTO blocker VALUES (1)")

	n1.trust, n2.trust = false, false
	require.ErrorIs(t, n2.guard().Admit(t.Context(), newer), guard.ErrUnfenced)
	err = n1.update(token.NewContext(t.Context(), older), record(t, older))
	require.ErrorIs(t, err, guard.ErrUnfenced)
	require.ErrorContains(t, err, "Galera (MariaDB 10.11")
	require.ErrorContains(t, err, "a share lock is one node's")
	require.False(t, guard.IsRefusal(err))
	require.ErrorIs(t, inTx(t, n1, func(tx *sql.Tx) error {
		return n1.guard().Join(token.NewContext(t.Context(), older), tx, account)
	}), guard.ErrUnfenced)
	require.Zero(t, one[int](t, n1, "SELECT count(*) FROM ledger"))
	require.Equal(t, older.Number, n2.mark(t, account).Number)

	n1.trust, n2.trust = true, true
	require.NoError(t, n2.guard().Admit(t.Context(), newer))
	require.Zero(t, one[int](t, n2, "SELECT count(*) FROM ledger"), "what the newer holder reads")
	written := make(chan error, 1)
	go func() {
		written <- n1.update(token.NewContext(t.Context(), older), record(t, older))
	}()
	// The COMMIT is ordered after the claim, and waits on n1 for it.
	eventually(t, func() bool { return one[int](t, n2, "SELECT count(*) FROM ledger") == 1 })
	run(t, applier, "UNLOCK TABLES")
	require.NoError(t, <-written, "the twin that trusts both nodes must accept the stale write")
	require.Equal(t, newer.Number, n1.mark(t, account).Number)
}

// tortureOnGalera runs writers that claim and write on both nodes.
//
// hazard M1
func tortureOnGalera(t *testing.T, dsns []string) {
	nodes := onGalera(t, dsns)
	const writers, claims = 8, 10
	var all sync.WaitGroup
	for w := range writers {
		g := nodes[w%len(nodes)].guard()
		all.Go(func() {
			for n := range claims {
				own := tok(int64(1+n), fmt.Sprint(w))
				for _, err := range []error{
					g.Admit(t.Context(), own), g.Update(token.NewContext(t.Context(), own), account, record(t, own)),
				} {
					if !errors.Is(err, guard.ErrUnfenced) {
						t.Error("not refused:", err)
						return
					}
				}
			}
		})
	}
	all.Wait()
	for _, node := range nodes {
		require.Zero(t, one[int](t, node, "SELECT count(*) FROM ledger"))
		require.Zero(t, one[int](t, node, "SELECT count(*) FROM fencepost_marks"))
	}
}

// vouchedOnGalera checks that a single node behaves like a single server.
func vouchedOnGalera(t *testing.T, dsn string) {
	vouched := func(t *testing.T) *database {
		t.Helper()
		node := onGalera(t, []string{dsn})[0]
		node.trust = true
		return node
	}
	t.Run("is a store", func(t *testing.T) {
		guardtest.TestStore(t, stores(t, vouched))
	})
	t.Run("admits and refuses", func(t *testing.T) {
		node := vouched(t)
		ctx := holding(t, 33, "a")
		require.NoError(t, node.update(ctx, add(ctx, 10)))
		require.NoError(t, node.update(ctx, add(ctx, 10)))
		require.ErrorIs(t, node.update(holding(t, 32, "b"), add(ctx, 10)), guard.ErrStale)
		require.ErrorIs(t, node.update(holding(t, 33, "b"), add(ctx, 10)), guard.ErrCollision)
		require.NoError(t, inTx(t, node, func(tx *sql.Tx) error {
			require.NoError(t, node.guard().Join(ctx, tx, account))
			return add(ctx, 10)(tx)
		}))
		require.Equal(t, 130, balance(t, node))
		require.Equal(t, guard.Mark{Number: 33, Holder: "a"}, node.mark(t, account))
	})
	t.Run("keeps 8 writers in order", func(t *testing.T) {
		tt := newTorture(t, vouched(t), 100)
		tt.run(t, counting(tt.guard()))
		require.Zero(t, tt.lost(t), "nothing is lost")
		require.Zero(t, tt.disorder(t), "nothing stale is accepted")
	})
}
