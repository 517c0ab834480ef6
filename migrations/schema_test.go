package migrations_test

import (
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/migrations"
)

// hazard G13
func TestSchemasOfAnyName(t *testing.T) {
	t.Parallel()
	host := newFence(t)
	for _, name := range []string{
		`we"ird; drop`, `o'brien`, `'; DROP SCHEMA "x" CASCADE; --`, `"`, `a.b`, `Größe`, `100%s`, `:name`, ` padded `, `UPPER`,
		`back\slash`, `\'`, `$$`, `$fencepost$`, `$fencepost$ $fencepost1$`, `x; -- y`, `-- +goose Down`, `public2`,
		strings.Repeat("x", 63),
	} {
		t.Run(strings.ReplaceAll(name, "/", "_"), func(t *testing.T) {
			t.Parallel()
			f := fence{host.Pool, name}
			drop := "DROP SCHEMA IF EXISTS " + pgx.Identifier{name}.Sanitize() + " CASCADE"
			f.atEnd(t, drop)
			set := migrations.Set{Schema: name}
			for range 2 {
				require.NoError(t, set.Up(t.Context(), sqlDB(t, f)))
			}
			everything(t, f)

			_, err := f.Exec(t.Context(), drop)
			require.NoError(t, err)
			script, err := set.SQL()
			require.NoError(t, err)
			_, err = f.Exec(t.Context(), script)
			require.NoError(t, err)
			everything(t, f)
		})
	}
}

// everything calls every function of a fence once.
func everything(t *testing.T, f fence) {
	t.Helper()
	ctx := t.Context()
	tx := f.begin(t, pgx.ReadCommitted)
	require.NoError(t, f.admit(ctx, tx, "account/42", 5, "a"))
	require.NoError(t, f.admit(ctx, tx, "account/42", 5, "a"))
	require.Equal(t, "\n"+f.schema+"/account/42\n", get[string](t, f, tx, "SELECT current_setting('fencepost.admitted')"))
	require.Equal(t, int64(5), get[int64](t, f, tx, "SELECT number FROM fence.observe('account/42', 4, 'a')"))
	require.Greater(t, get[int64](t, f, tx, "SELECT fence.mint('account/42', 'b')"), int64(5))
	require.Zero(t, get[int](t, f, tx, "SELECT fence.evict('account/42', 6)"))
	require.True(t, get[bool](t, f, tx, "SELECT granted FROM fence.acquire('account/42', 'c', '1 minute')"))
	require.True(t, get[bool](t, f, tx, "SELECT renewed FROM fence.renew('account/42', 'c', '1 minute')"))
	require.True(t, get[bool](t, f, tx, "SELECT fence.release('account/42', 'c')"))
	require.Equal(t, get[int64](t, f, tx, "SELECT hashtextextended($1 || '/account/42', 9651)", f.schema),
		get[int64](t, f, tx, "SELECT fence.lock_key('account/42')"))
	require.NoError(t, tx.Rollback(ctx))
}

func TestSchemasThatAreRefused(t *testing.T) {
	t.Parallel()
	for name, rule := range map[string]string{
		"  ":                    "must not be blank",
		strings.Repeat("x", 64): "must be at most 63 bytes, or PostgreSQL would cut it",
		"x\x00":                 "must not contain control characters",
		"x\n-- +goose Down":     "must not contain control characters",
		"x\xff":                 "must be UTF-8",
		"a/b":                   "must not contain a slash",
	} {
		_, err := migrations.Set{Schema: name}.SQL()
		require.ErrorContains(t, err, "migrations: schema ")
		require.ErrorContains(t, err, rule)
	}
}
