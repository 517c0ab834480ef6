package doctor_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/cmd/fencepost/internal/doctor"
	"github.com/fencepost/fencepost/internal/test/testenv"
	"github.com/fencepost/fencepost/migrations"
)

// hazard M1
func TestStressMySQLThatIsANodeOfGalera(t *testing.T) {
	t.Parallel()
	dsn := testenv.Galera(t, 1)[0]
	set := migrations.Set{Dialect: migrations.MySQL, DangerouslyTrustEngine: true}
	require.NoError(t, set.Up(t.Context(), openMySQL(t, dsn)))
	report := examineMySQL(t, dsn)
	found := of(t, report, "engine")
	require.Equal(t, doctor.Fail, found.Verdict)
	require.Contains(t, found.Evidence, "Galera (MariaDB 10.11")
	require.Contains(t, found.Fix, "send every write to one node")
	require.Equal(t, doctor.Pass, of(t, report, "locks").Verdict, "on one node")
}
