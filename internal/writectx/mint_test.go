package writectx_test

import (
	"context"
	"database/sql"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/token"
)

// minter is one way to mint, and a write through the same guard.
type minter struct {
	mint  func(ctx context.Context, holder string) (context.Context, error)
	write func(ctx context.Context) error
}

// minters commit what MintTx has minted. The transaction of a MintTx that fails is over.
var minters = map[string]func(t *testing.T) minter{
	"sqlguard Mint": func(t *testing.T) minter {
		g, _, _ := onPostgres(t)
		return minter{
			mint: func(ctx context.Context, holder string) (context.Context, error) {
				return g.Mint(ctx, resource, holder)
			},
			write: func(ctx context.Context) error { _, err := g.On(resource).Exec(ctx, increment); return err },
		}
	},
	"sqlguard MintTx": func(t *testing.T) minter {
		g, _, _ := onPostgres(t)
		return minter{
			mint: func(ctx context.Context, holder string) (minted context.Context, err error) {
				return minted, pgx.BeginFunc(ctx, g.DB.(*pgxpool.Pool), func(tx pgx.Tx) error {
					minted, err = g.MintTx(ctx, tx, resource, holder)
					return err
				})
			},
			write: func(ctx context.Context) error {
				return g.Update(ctx, resource, func(tx pgx.Tx) error { _, err := tx.Exec(ctx, increment); return err })
			},
		}
	},
	"stdsql Mint": func(t *testing.T) minter {
		g, _ := onDatabaseSQL(t)
		return minter{
			mint: func(ctx context.Context, holder string) (context.Context, error) {
				return g.Mint(ctx, resource, holder)
			},
			write: func(ctx context.Context) error {
				return g.Update(ctx, resource, func(tx *sql.Tx) error { _, err := tx.ExecContext(ctx, increment); return err })
			},
		}
	},
	"stdsql MintTx": func(t *testing.T) minter {
		g, _ := onDatabaseSQL(t)
		return minter{
			mint: func(ctx context.Context, holder string) (context.Context, error) {
				tx, err := g.DB.BeginTx(ctx, nil)
				require.NoError(t, err)
				defer tx.Rollback()
				minted, err := g.MintTx(ctx, tx, resource, holder)
				if err == nil {
					err = tx.Commit()
				}
				return minted, err
			},
			write: func(ctx context.Context) error {
				return g.Update(ctx, resource, func(tx *sql.Tx) error { _, err := tx.ExecContext(ctx, increment); return err })
			},
		}
	},
	"redisguard Mint": func(t *testing.T) minter {
		g, key, _ := onRedis(t)
		return minter{
			mint: func(ctx context.Context, holder string) (context.Context, error) {
				return g.Mint(ctx, resource, holder)
			},
			write: func(ctx context.Context) error { return g.Set(ctx, resource, key, "x", 0) },
		}
	},
}

func TestMintReturnsAContextWithTheToken(t *testing.T) {
	t.Parallel()
	for name, open := range minters {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m, other := open(t), token.Token{Resource: "account/7", Number: 7, Holder: "a"}
			outer := token.NewContext(t.Context(), other)
			first, err := m.mint(outer, "a")
			require.NoError(t, err)
			second, err := m.mint(first, "b")
			require.NoError(t, err)
			require.NoError(t, m.write(second))
			require.ErrorIs(t, m.write(first), guard.ErrStale)
			require.ErrorIs(t, m.write(outer), token.ErrMissing, "the caller's own context is as it was")
			tok, err := token.FromContext(second, resource)
			require.NoError(t, err)
			require.Equal(t, "b", tok.Holder)
			require.Equal(t, []token.Token{tok, other}, token.All(second))
		})
	}
}

// A caller that overlooks the error of a Mint must not write under an older token of the
// resource: the mark admits it still, and another holder may have written since.
func TestTheContextBesideAnErrorOfMintWritesNothing(t *testing.T) {
	t.Parallel()
	for name, open := range minters {
		for failure, holder := range map[string]string{"no holder": "", "no number is left": "b"} {
			t.Run(name+": "+failure, func(t *testing.T) {
				t.Parallel()
				m := open(t)
				older := token.NewContext(t.Context(), token.Token{Resource: resource, Number: token.MaxNumber, Holder: "a"})
				require.NoError(t, m.write(older))
				ctx, err := m.mint(older, holder)
				require.ErrorIs(t, err, map[string]error{"": token.ErrInvalid, "b": token.ErrExhausted}[holder])
				require.ErrorIs(t, m.write(ctx), token.ErrInvalid)
				require.NoError(t, m.write(older), "the twin, which keeps its context, must write under the older token")
			})
		}
	}
}
