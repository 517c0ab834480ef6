package gormguard_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"github.com/fencepost/fencepost/contrib/gormguard"
	"github.com/fencepost/fencepost/token"
)

// held are the resources for which the writer in these tests has tokens.
var held = []string{"account/42", "user/42", "user/44", "account/44", "pair/42", "order/42", "order/44", "wallet/42", "wallet/44"}

type write func(db *gorm.DB) error

func account(id int64) *Account { return &Account{ID: id, Balance: 7} }

// admitted are writes that need a token, and are fenced by it.
var admitted = map[string]write{
	"Create":            func(db *gorm.DB) error { return db.Create(account(44)).Error },
	"Create of a slice": func(db *gorm.DB) error { return db.Create([]*Account{account(44)}).Error },
	"CreateInBatches":   func(db *gorm.DB) error { return db.CreateInBatches([]User{{ID: 44}}, 1).Error },
	"CreateInBatches, in several": func(db *gorm.DB) error {
		return db.CreateInBatches([]Line{{OrderID: 42}, {OrderID: 42}, {OrderID: 42}}, 2).Error
	},
	"CreateBatchSize": func(db *gorm.DB) error {
		return db.Session(&gorm.Session{CreateBatchSize: 1}).Create(&[]User{{ID: 44}}).Error
	},
	"Create, ON CONFLICT nothing": func(db *gorm.DB) error {
		return db.Clauses(clause.OnConflict{DoNothing: true}).Create(account(42)).Error
	},
	"Create, ON CONFLICT update": func(db *gorm.DB) error {
		return db.Clauses(clause.OnConflict{UpdateAll: true}).Create(account(42)).Error
	},
	"Create, ON CONFLICT of the key": func(db *gorm.DB) error { return db.Clauses(onKey("id")).Create(account(42)).Error },
	"Create with RETURNING":          func(db *gorm.DB) error { return db.Clauses(clause.Returning{}).Create(account(44)).Error },
	"a row whose key the database makes, named by another": func(db *gorm.DB) error {
		return db.Create(&Line{OrderID: 42, Quantity: 3}).Error
	},
	"Save":                     func(db *gorm.DB) error { return db.Save(account(42)).Error },
	"Save of what is the same": func(db *gorm.DB) error { return db.Save(&Account{ID: 42, Balance: opening}).Error },
	"Save of a new row":        func(db *gorm.DB) error { return db.Save(account(44)).Error },
	"Save of a slice":          func(db *gorm.DB) error { return db.Save([]Account{*account(42), *account(44)}).Error },
	"FirstOrCreate, not there": func(db *gorm.DB) error { return db.Where(Account{ID: 44}).FirstOrCreate(&Account{}).Error },
	"FirstOrCreate, there, with Assign": func(db *gorm.DB) error {
		return db.Where(Account{ID: 42}).Assign(Account{Balance: 7}).FirstOrCreate(&Account{}).Error
	},
	"Update": func(db *gorm.DB) error { return db.Model(account(42)).Update("balance", 7).Error },
	"Update, an expression": func(db *gorm.DB) error {
		return db.Model(account(42)).Update("balance", gorm.Expr("balance - ?", 7)).Error
	},
	"Updates":             func(db *gorm.DB) error { return db.Updates(account(42)).Error },
	"Updates of a struct": func(db *gorm.DB) error { return db.Model(account(42)).Updates(Account{ID: 42, Balance: 7}).Error },
	"Updates of a map":    func(db *gorm.DB) error { return db.Model(account(42)).Updates(map[string]any{"balance": 7}).Error },
	"Updates of a value":  func(db *gorm.DB) error { return db.Model(User{ID: 42}).Update("email", "x").Error },
	"Updates of a slice":  func(db *gorm.DB) error { return db.Model([]*Account{account(42)}).Update("balance", 7).Error },
	"Updates with Select": func(db *gorm.DB) error { return db.Select("balance").Updates(account(42)).Error },
	"Updates with Omit": func(db *gorm.DB) error {
		return db.Model(account(42)).Select("*").Omit("id").Updates(Account{Balance: 7}).Error
	},
	"Updates with a condition": func(db *gorm.DB) error {
		return db.Model(account(42)).Where("balance >= ?", 1).Update("balance", 7).Error
	},
	"Updates with Where 1=1": func(db *gorm.DB) error { return db.Model(account(42)).Where("1=1").Updates(account(42)).Error },
	"Updates with an OR that GORM does not see": func(db *gorm.DB) error {
		return db.Model(account(42)).Where("1=0\nOR\n1=1").Update("balance", 7).Error
	},
	"Updates with a group of Or": func(db *gorm.DB) error {
		return db.Model(account(42)).Where(db.Where("1=0").Or("1=1")).Update("balance", 7).Error
	},
	"Updates with AllowGlobalUpdate": func(db *gorm.DB) error {
		return db.Session(&gorm.Session{AllowGlobalUpdate: true}).Model(account(42)).Update("balance", 7).Error
	},
	"Updates with a SET of one's own": func(db *gorm.DB) error {
		return db.Model(account(42)).Clauses(clause.Assignments(map[string]any{"balance": 7})).Updates(map[string]any{}).Error
	},
	"UpdateColumn":      func(db *gorm.DB) error { return db.Model(account(42)).UpdateColumn("balance", 7).Error },
	"UpdateColumns":     func(db *gorm.DB) error { return db.Model(account(42)).UpdateColumns(Account{Balance: 7}).Error },
	"SkipHooks":         func(db *gorm.DB) error { return db.Session(&gorm.Session{SkipHooks: true}).Save(account(42)).Error },
	"Delete, softly":    func(db *gorm.DB) error { return db.Delete(account(42)).Error },
	"Delete, Unscoped":  func(db *gorm.DB) error { return db.Unscoped().Delete(account(42)).Error },
	"Delete of a row":   func(db *gorm.DB) error { return db.Delete(&User{ID: 42}).Error },
	"Delete of a slice": func(db *gorm.DB) error { return db.Delete([]User{{ID: 42}}).Error },
	"Delete with an OR that GORM does not see": func(db *gorm.DB) error {
		return db.Where("1=0\nOR\n1=1").Delete(&User{ID: 42}).Error
	},
	"a transaction of the caller's": func(db *gorm.DB) error {
		return db.Transaction(func(tx *gorm.DB) error { return tx.Save(account(42)).Error })
	},
	"a nested transaction": func(db *gorm.DB) error {
		return db.Transaction(func(tx *gorm.DB) error {
			return tx.Transaction(func(tx *gorm.DB) error { return tx.Save(account(42)).Error })
		})
	},
	"a transaction with SkipDefaultTransaction": func(db *gorm.DB) error {
		return db.Session(&gorm.Session{SkipDefaultTransaction: true}).Transaction(func(tx *gorm.DB) error { return tx.Save(account(42)).Error })
	},
	"PrepareStmt": func(db *gorm.DB) error { return db.Session(&gorm.Session{PrepareStmt: true}).Save(account(42)).Error },
	"one connection": func(db *gorm.DB) error {
		return db.Connection(func(tx *gorm.DB) error { return tx.Save(account(42)).Error })
	},
	"two names": func(db *gorm.DB) error { return db.Save(&Pair{ID: 42, Text: "new"}).Error },
	"has-many": func(db *gorm.DB) error {
		return db.Create(&Order{ID: 44, Lines: []Line{{Quantity: 1}, {Quantity: 2}}}).Error
	},
	"has-many, not fenced itself": func(db *gorm.DB) error {
		return db.Create(&Customer{ID: 44, Wallets: []Wallet{{ID: 44}, {ID: 42}}}).Error
	},
	"has-many, saved with all": func(db *gorm.DB) error {
		return db.Session(&gorm.Session{FullSaveAssociations: true}).Save(&Customer{ID: 42, Wallets: []Wallet{{ID: 42, Balance: 7}}}).Error
	},
	"has-many, omitted": func(db *gorm.DB) error {
		return db.Omit("Lines").Save(&Order{ID: 42, Lines: []Line{{ID: 1, OrderID: 42}}}).Error
	},
	"Association Append": func(db *gorm.DB) error {
		return db.Model(&Customer{ID: 43}).Association("Wallets").Append(&Wallet{ID: 44})
	},
	"a hook that writes another model": func(db *gorm.DB) error {
		return db.Save(&Account{ID: 42, Hook: func(_ *Account, tx *gorm.DB) error { return tx.Save(&User{ID: 42}).Error }}).Error
	},
}

func onKey(columns ...string) clause.OnConflict {
	conflict := clause.OnConflict{DoUpdates: clause.AssignmentColumns([]string{"balance"})}
	for _, column := range columns {
		conflict.Columns = append(conflict.Columns, clause.Column{Name: column})
	}
	return conflict
}

func TestWritesThatAreAdmitted(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, d *database) {
		db := d.fenced(t, gorm.Config{})
		d.claim(t, 34, held...)
		before, others := d.rows(t), d.others(t)
		for name, write := range admitted {
			t.Run(name, func(t *testing.T) {
				d.seed(t)
				require.ErrorIs(t, write(db.WithContext(t.Context())), token.ErrMissing)
				requireStale(t, write(db.WithContext(holding(t, 33, held...))))
				require.Equal(t, before, d.rows(t))
				require.NoError(t, write(db.WithContext(holding(t, 34, held...))))
				require.Equal(t, others, d.others(t), "rows that it has no token of")
			})
		}
	})
}

// refused are writes that are refused under any token.
var refused = map[string]write{
	"Create without a key":      func(db *gorm.DB) error { return db.Create(&Account{Balance: 7}).Error },
	"Create of a map":           func(db *gorm.DB) error { return db.Model(&Account{}).Create(map[string]any{"id": 44}).Error },
	"Create of maps":            func(db *gorm.DB) error { return db.Model(&Account{}).Create([]map[string]any{{"id": 44}}).Error },
	"Create without its key":    func(db *gorm.DB) error { return db.Omit("id").Create(account(44)).Error },
	"Create of selected others": func(db *gorm.DB) error { return db.Select("balance").Create(account(44)).Error },
	"Create, ON CONFLICT of another column": func(db *gorm.DB) error {
		return db.Clauses(clause.OnConflict{Columns: []clause.Column{{Name: "email"}}, UpdateAll: true}).Create(&User{ID: 44, Email: "43@example.com"}).Error
	},
	"Create, ON CONFLICT of any": func(db *gorm.DB) error {
		return db.Clauses(clause.OnConflict{DoUpdates: clause.AssignmentColumns([]string{"email"})}).Create(&User{ID: 44, Email: "43@example.com"}).Error
	},
	"Create, ON CONFLICT of a constraint": func(db *gorm.DB) error {
		return db.Clauses(clause.OnConflict{OnConstraint: "idx_users_email", DoNothing: false, UpdateAll: true}).Create(&User{ID: 44, Email: "43@example.com"}).Error
	},
	"Create, ON CONFLICT nothing and update": func(db *gorm.DB) error {
		return db.Clauses(clause.OnConflict{DoNothing: true, DoUpdates: clause.AssignmentColumns([]string{"email"})}).Create(&User{ID: 44, Email: "43@example.com"}).Error
	},
	"Create, ON CONFLICT that sets the key": func(db *gorm.DB) error {
		return db.Clauses(clause.OnConflict{Columns: []clause.Column{{Name: "id"}}, DoUpdates: clause.Assignments(map[string]any{"id": 43})}).Create(account(42)).Error
	},
	"Create into another table": func(db *gorm.DB) error {
		return db.Clauses(clause.Insert{Table: clause.Table{Name: "users"}}).Create(account(44)).Error
	},
	"Create or replace": func(db *gorm.DB) error {
		return db.Clauses(clause.Insert{Modifier: "OR REPLACE"}).Create(account(42)).Error
	},
	"Update by conditions": func(db *gorm.DB) error { return db.Model(&Account{}).Where("id = 42").Update("balance", 7).Error },
	"Update of all": func(db *gorm.DB) error {
		return db.Session(&gorm.Session{AllowGlobalUpdate: true}).Model(&Account{}).Update("balance", 7).Error
	},
	"Update of an empty slice": func(db *gorm.DB) error { return db.Model(&[]Account{}).Where("id = 42").Update("balance", 7).Error },
	"Update of a slice with a hole": func(db *gorm.DB) error {
		return db.Model(&[]Account{{}, {ID: 42}}).Update("balance", 7).Error
	},
	"Update with Or": func(db *gorm.DB) error {
		return db.Model(account(42)).Where("id = 42").Or("id = 43").Update("balance", 7).Error
	},
	"Update of the key":                func(db *gorm.DB) error { return db.Model(account(42)).Update("id", 44).Error },
	"Update of the key by a field":     func(db *gorm.DB) error { return db.Model(account(42)).Update("ID", 44).Error },
	"Update of the key by any case":    func(db *gorm.DB) error { return db.Model(account(42)).Update("iD", 44).Error },
	"Update of the key of a table":     func(db *gorm.DB) error { return db.Model(account(42)).Update("accounts.id", 44).Error },
	"Update of the key, an expression": func(db *gorm.DB) error { return db.Model(account(42)).UpdateColumn("id", gorm.Expr("id + 2")).Error },
	"Update of the key in a struct":    func(db *gorm.DB) error { return db.Model(account(42)).Updates(account(44)).Error },
	"Update of the key to nothing":     func(db *gorm.DB) error { return db.Model(account(42)).Select("*").Updates(Account{Balance: 7}).Error },
	"Update of the key in a SET": func(db *gorm.DB) error {
		return db.Model(account(42)).Clauses(clause.Set{{Column: clause.Column{Name: "id"}, Value: 44}}).Updates(map[string]any{}).Error
	},
	"Update of the key in a pointer to a pointer": func(db *gorm.DB) error {
		other := account(44)
		return db.Model(account(42)).Updates(&other).Error
	},
	"Update of a column that is text": func(db *gorm.DB) error {
		return db.Model(account(42)).Clauses(clause.Set{{Column: clause.Column{Name: "id = 44, balance", Raw: true}, Value: 7}}).Updates(map[string]any{}).Error
	},
	"Create, ON CONFLICT that sets a column that is text": func(db *gorm.DB) error {
		return db.Clauses(clause.OnConflict{Columns: []clause.Column{{Name: "id"}}, DoUpdates: clause.Set{
			{Column: clause.Column{Name: "id = 44, balance", Raw: true}, Value: 7},
		}}).Create(account(42)).Error
	},
	"Update of another table": func(db *gorm.DB) error {
		return db.Model(account(42)).Clauses(clause.Update{Table: clause.Table{Name: "wallets"}}).Update("balance", 7).Error
	},
	"Update of a table expression": func(db *gorm.DB) error {
		return db.Table("accounts SET balance = 7 --").Model(account(42)).Update("balance", 7).Error
	},
	"Update of what a name depends on": func(db *gorm.DB) error {
		return db.Model(&Line{ID: 420, OrderID: 42}).Update("order_id", 43).Error
	},
	"Raw in place of an UPDATE": func(db *gorm.DB) error {
		return db.Raw("UPDATE accounts SET balance = 7").Model(account(42)).Update("balance", 7).Error
	},
	"a hook that changes the key": func(db *gorm.DB) error {
		return db.Save(&Account{ID: 42, Hook: func(a *Account, _ *gorm.DB) error { a.ID = 44; return nil }}).Error
	},
	"a hook that makes the key": func(db *gorm.DB) error {
		return db.Create(&Account{Hook: func(a *Account, _ *gorm.DB) error { a.ID = 44; return nil }}).Error
	},
	"a hook that sets the key": func(db *gorm.DB) error {
		set := func(_ *Account, tx *gorm.DB) error { tx.Statement.SetColumn("ID", 44); return nil }
		return db.Model(&Account{ID: 42, Hook: set}).Update("balance", 7).Error
	},
	"Delete by conditions":            func(db *gorm.DB) error { return db.Where("id = 42").Delete(&Account{}).Error },
	"Delete by a number":              func(db *gorm.DB) error { return db.Delete(&Account{}, 42).Error },
	"Delete by numbers":               func(db *gorm.DB) error { return db.Delete(&Account{}, []int{42}).Error },
	"Delete, Unscoped, by conditions": func(db *gorm.DB) error { return db.Unscoped().Where("id = 42").Delete(&Account{}).Error },
	"Delete with Or":                  func(db *gorm.DB) error { return db.Where("id = 42").Or("id = 43").Delete(&User{ID: 42}).Error },
	"Delete from others": func(db *gorm.DB) error {
		return db.Clauses(clause.From{Tables: []clause.Table{{Name: "wallets"}}}).Delete(&User{ID: 42}).Error
	},
	"Delete with a modifier": func(db *gorm.DB) error {
		return db.Clauses(clause.Delete{Modifier: "users, wallets"}).Delete(&User{ID: 42}).Error
	},
	"Delete of another model's rows": func(db *gorm.DB) error { return db.Model(&User{}).Delete(&Wallet{ID: 42}).Error },
	"Delete of associations":         func(db *gorm.DB) error { return db.Select("Lines").Delete(&Order{ID: 42}).Error },
	"Association Clear":              func(db *gorm.DB) error { return db.Model(&Order{ID: 42}).Association("Lines").Clear() },
	"no name":                        func(db *gorm.DB) error { return db.Save(&Pair{ID: 42, Text: "nameless"}).Error },
	"Update of a value, as by gorm.G": func(db *gorm.DB) error {
		return db.Model(User{}).Where("id = ?", 42).Update("email", "x").Error
	},
	"Delete of a value, as by gorm.G": func(db *gorm.DB) error { return db.Where("id = ?", 42).Delete(User{}).Error },
}

func TestWritesThatAreRefused(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, d *database) {
		db := d.fenced(t, gorm.Config{})
		all := append([]string{"account/0", "order/0"}, held...)
		d.claim(t, 34, all...)
		ctx := holding(t, 34, all...)
		before := d.rows(t)
		for name, write := range refused {
			t.Run(name, func(t *testing.T) {
				require.ErrorIs(t, write(db.WithContext(ctx)), gormguard.ErrCannotFence)
				require.Equal(t, before, d.rows(t))
				_ = db.WithContext(ctx).Transaction(func(tx *gorm.DB) error {
					require.ErrorIs(t, write(tx), gormguard.ErrCannotFence)
					return nil // like a caller that ignores errors
				})
				require.Equal(t, before, d.rows(t), "in a transaction of a caller that ignores errors")
			})
		}
	})
}

// passing are writes that the Plugin does not fence.
var passing = map[string]write{
	"Exec":                   func(db *gorm.DB) error { return db.Exec("UPDATE accounts SET balance = 7").Error },
	"Raw":                    func(db *gorm.DB) error { return db.Raw("DELETE FROM wallets").Row().Err() },
	"Table":                  func(db *gorm.DB) error { return db.Table("accounts").Where("id = 43").Update("balance", 7).Error },
	"another model's table":  func(db *gorm.DB) error { return db.Table("wallets").Model(&Note{ID: 43}).Update("balance", 7).Error },
	"a model without a name": func(db *gorm.DB) error { return db.Save(&Note{ID: 43, Text: "new"}).Error },
	"a join table":           func(db *gorm.DB) error { return db.Model(&Customer{ID: 43}).Association("Notes").Append(&Note{ID: 44}) },
	"reading":                func(db *gorm.DB) error { return db.First(account(43)).Error },
}

func TestWritesThatPass(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, d *database) {
		db, before := d.fenced(t, gorm.Config{}), d.rows(t)
		for name, write := range passing {
			t.Run(name, func(t *testing.T) {
				d.seed(t)
				require.NoError(t, write(db.WithContext(t.Context())))
				if name != "reading" {
					require.NotEqual(t, before, d.rows(t))
				}
			})
		}
	})
}
