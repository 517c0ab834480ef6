package connect

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTheServerGetsTheApplicationsName(t *testing.T) {
	t.Parallel()
	for url, name := range map[string]string{
		"postgres://h/d": "fencepost doctor",
		"postgres://h/d?application_name=fencepost%20migrate": "fencepost migrate",
		"host=h application_name=mine":                        "mine",
	} {
		config, err := PostgresConfig(url, "fencepost doctor")
		require.NoError(t, err)
		require.Equal(t, name, config.RuntimeParams["application_name"])
	}
}
