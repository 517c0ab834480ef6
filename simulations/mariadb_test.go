package simulations_test

import (
	"testing"

	"github.com/go-sql-driver/mysql"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/internal/testenv"
	"github.com/fencepost/fencepost/migrations"
	"github.com/fencepost/fencepost/simulations"
	"github.com/fencepost/fencepost/simulations/sqlpoint"
	"github.com/fencepost/fencepost/sqlguard/stdsql"
)

func TestRunOnMariaDB(t *testing.T) {
	t.Parallel()
	config, err := mysql.ParseDSN(testenv.MariaDB(t))
	require.NoError(t, err)
	connector, err := mysql.NewConnector(config)
	require.NoError(t, err)
	db := opened(t, sqlpoint.Wrap(connector))
	require.NoError(t, migrations.Set{Dialect: migrations.MySQL}.Up(t.Context(), db))
	fence := &stdsql.Guard{DB: db, Dialect: stdsql.MySQL}
	t.Run("Update", func(t *testing.T) {
		t.Parallel()
		simulations.Run(t, updating(t, fence))
	})
	t.Run("Join", func(t *testing.T) {
		t.Parallel()
		simulations.Run(t, joining(t, fence))
	})
}
