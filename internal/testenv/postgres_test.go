package testenv_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/internal/testenv"
)

const schemaExists = "SELECT count(*) > 0 FROM pg_namespace WHERE nspname = $1"

func TestEachTestHasItsOwnMigratedSchema(t *testing.T) {
	t.Parallel()
	pool, mine := testenv.Postgres(t)
	var schemas []string
	var wasThere bool
	for range 2 {
		t.Run("another test", func(t *testing.T) {
			own, schema := testenv.Postgres(t)
			schemas = append(schemas, schema)
			require.NoError(t, own.QueryRow(t.Context(), schemaExists, schema).Scan(&wasThere))
			require.True(t, wasThere)
			_, err := own.Exec(t.Context(), "SELECT FROM "+schema+".marks")
			require.NoError(t, err)
		})
	}
	require.NotEqual(t, schemas[0], schemas[1])
	require.NotContains(t, schemas, mine)
	for _, schema := range schemas {
		var left bool
		require.NoError(t, pool.QueryRow(t.Context(), schemaExists, schema).Scan(&left))
		require.False(t, left, "schema %s outlived its test", schema)
	}
}

func TestTheSharedServerTakesManyConnections(t *testing.T) {
	t.Parallel()
	pool, _ := testenv.Postgres(t)
	for range 17 {
		conn, err := pool.Acquire(t.Context())
		require.NoError(t, err)
		defer conn.Release()
		require.NoError(t, conn.Ping(t.Context()))
	}
}
