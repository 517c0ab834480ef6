package sqltext_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/internal/sqltext"
)

func TestWrote(t *testing.T) {
	t.Parallel()
	for tag, wrote := range map[string]bool{
		"INSERT 0 1": true, "UPDATE 3": true, "DELETE 10": true, "MERGE 1": true, "COPY 7": true,
		"CREATE TABLE": true, "TRUNCATE TABLE": true, "CALL": true, "DO": true,
		"INSERT 0 0": false, "UPDATE 0": false, "COPY 0": false,
		"SELECT 1": false, "SELECT 0": false, "SHOW": false, "BEGIN": false, "COMMIT": false, "": false,
	} {
		require.Equal(t, wrote, sqltext.Wrote(tag), tag)
	}
}
