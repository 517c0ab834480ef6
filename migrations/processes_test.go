package migrations_test

import (
	"bufio"
	"bytes"
	"io"
	"os"
	"os/exec"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/internal/testenv"
	"github.com/fencepost/fencepost/migrations"
)

func TestTenProcessesMigrateAtOnce(t *testing.T) {
	t.Parallel()
	const query = "SELECT count(*) * 1000 + count(DISTINCT version_id) FROM "
	t.Run("one PostgreSQL schema that is not there yet", func(t *testing.T) {
		t.Parallel()
		f := newFence(t)
		schema := f.schema + "_ten"
		f.atEnd(t, "DROP SCHEMA IF EXISTS "+schema+" CASCADE")
		together(t, 10, "pgx", testenv.PostgresURL(t), schema)
		n := applied(t, migrations.Set{})
		require.Equal(t, 1001*n, get[int](t, f, f, query+pgx.Identifier{schema, "fencepost_migrations"}.Sanitize()))
	})
	t.Run("one SQLite file that is empty yet", func(t *testing.T) {
		t.Parallel()
		db, url := newSQLite(t)
		together(t, 10, "sqlite", url, "")
		n := applied(t, migrations.Set{Dialect: migrations.SQLite})
		require.Equal(t, 1001*n, one[int](t, db, query+"fencepost_migrations"))
	})
}

// together lets n processes of this test binary migrate at the same time.
func together(t *testing.T, n int, driver, url, schema string) {
	t.Helper()
	processes := make([]*exec.Cmd, n)
	starts := make([]io.Closer, n)
	said := make([]bytes.Buffer, n)
	for i := range processes {
		cmd := exec.CommandContext(t.Context(), os.Args[0])
		cmd.Env = append(os.Environ(), envDriver+"="+driver, envURL+"="+url, envSchema+"="+schema)
		cmd.Stderr = &said[i]
		start, err := cmd.StdinPipe()
		require.NoError(t, err)
		out, err := cmd.StdoutPipe()
		require.NoError(t, err)
		require.NoError(t, cmd.Start())
		ready, err := bufio.NewReader(out).ReadString('\n')
		require.NoError(t, err)
		require.Equal(t, "ready\n", ready)
		processes[i], starts[i] = cmd, start
	}
	for _, start := range starts {
		require.NoError(t, start.Close())
	}
	for i, cmd := range processes {
		require.NoError(t, cmd.Wait(), said[i].String())
	}
}
