package doctor_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/cmd/fencepost/internal/doctor"
	"github.com/fencepost/fencepost/internal/test/testenv"
)

// hazard M1
func TestStressMySQLThatIsANodeOfGalera(t *testing.T) {
	t.Parallel()
	found := alone(t, examineMySQL(t, testenv.Galera(t, 1)[0]), "engine", doctor.Fail, "Galera (MariaDB 10.11")
	require.Contains(t, found.Fix, "send every write to one node")
}
