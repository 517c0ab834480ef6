package gorm_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"gorm.io/gorm"

	example "github.com/fencepost/fencepost/examples/gorm"
	"github.com/fencepost/fencepost/examples/internal/bank"
	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/token"
)

func TestThePlugin(t *testing.T) {
	t.Parallel()
	tok := token.Token{Resource: bank.Resource, Number: 33, Holder: "h"}
	fenced := func(t *testing.T, config gorm.Config) *gorm.DB {
		a := open(t, config)
		require.NoError(t, a.DB.Use(&example.Fence{Guard: a.Fence}))
		return a.DB.WithContext(token.NewContext(t.Context(), tok))
	}
	account := func(id int64) *example.Account { return &example.Account{ID: id} }
	t.Run("every verb needs a token for the row", func(t *testing.T) {
		t.Parallel()
		db := fenced(t, gorm.Config{})
		for id, is := range map[int64]error{42: nil, 43: token.ErrMissing} {
			require.ErrorIs(t, db.Delete(account(id)).Error, is)
			require.ErrorIs(t, db.Create(account(id)).Error, is)
			require.ErrorIs(t, db.Save(account(id)).Error, is)
			require.ErrorIs(t, db.Model(account(id)).Update("balance", 7).Error, is)
			require.ErrorIs(t, db.Model(account(id)).Updates(map[string]any{"balance": 7}).Error, is)
		}
		require.ErrorIs(t, db.Save([]*example.Account{account(42), account(43)}).Error, token.ErrMissing)
		require.NoError(t, db.Save([]example.Account{*account(42)}).Error)
	})
	t.Run("rows that the model does not name are not written", func(t *testing.T) {
		t.Parallel()
		db := fenced(t, gorm.Config{})
		for _, write := range []*gorm.DB{
			db.Model(account(0)).Where("id = 42").Update("balance", 7),
			db.Model(example.Account{ID: 42}).Update("balance", 7),
			db.Model(&[]example.Account{}).Where("id = 42").Update("balance", 7),
			db.Where("id = 42").Delete(&[]example.Account{}),
			db.Delete(account(0), 42),
			db.Create(account(0)),
		} {
			require.ErrorContains(t, write.Error, "a fenced model is written by its key")
		}
		found := account(42)
		require.NoError(t, db.First(found).Error)
		require.EqualValues(t, bank.Opening, found.Balance)
	})
	t.Run("outside of a transaction nothing is written", func(t *testing.T) {
		t.Parallel()
		db := fenced(t, gorm.Config{SkipDefaultTransaction: true})
		require.ErrorContains(t, db.Save(account(42)).Error, "needs a transaction")
	})
	t.Run("a transaction of several writes is refused as a whole", func(t *testing.T) {
		t.Parallel()
		db := fenced(t, gorm.Config{})
		require.NoError(t, db.Save(account(42)).Error)
		older := tok
		older.Number--
		err := db.WithContext(token.NewContext(t.Context(), older)).Transaction(func(tx *gorm.DB) error {
			return tx.Save(account(42)).Error
		})
		require.ErrorIs(t, err, guard.ErrStale)
	})
}
