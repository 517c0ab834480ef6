package gormguard_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log"

	"gorm.io/driver/sqlite"
	"gorm.io/gorm"
	"gorm.io/gorm/logger"

	"github.com/fencepost/fencepost/contrib/gormguard"
	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/lock"
	"github.com/fencepost/fencepost/migrations"
	"github.com/fencepost/fencepost/sqlguard/stdsql"
	"github.com/fencepost/fencepost/token"
	"github.com/fencepost/fencepost/token/memtoken"
)

func exampleDB() (*gorm.DB, *stdsql.Guard) {
	pool, err := sql.Open("sqlite", "file:example?mode=memory&cache=shared")
	if err != nil {
		log.Fatal(err)
	}
	pool.SetMaxOpenConns(1)
	if err := (migrations.Set{Dialect: migrations.SQLite}).Up(context.Background(), pool); err != nil {
		log.Fatal(err)
	}
	db, err := gorm.Open(&sqlite.Dialector{Conn: pool}, &gorm.Config{Logger: logger.Discard})
	if err != nil {
		log.Fatal(err)
	}
	if err := errors.Join(db.AutoMigrate(&Account{}, &Entry{}), db.Create(&Account{ID: 42, Balance: 100}).Error); err != nil {
		log.Fatal(err)
	}
	return db, &stdsql.Guard{DB: pool, Dialect: stdsql.SQLite}
}

// A read and the write that depends on it are one transaction. A holder that was paused
// before its lock passed on is refused.
func Example() {
	db, fence := exampleDB()
	withdraw := func(ctx context.Context) error {
		return gormguard.Update(ctx, db, fence, "account/42", func(tx *gorm.DB) error {
			account := Account{ID: 42}
			if err := tx.First(&account).Error; err != nil {
				return err
			}
			return tx.Model(&account).Update("balance", account.Balance-30).Error
		})
	}
	locks := lock.Locker{Issuer: new(memtoken.Issuer), Claim: fence.Admit}
	fmt.Println(locks.Hold(context.Background(), "account/42", withdraw))

	paused := token.NewContext(context.Background(), token.Token{Resource: "account/42", Number: 33, Holder: "billing:7"})
	err := withdraw(paused)
	fmt.Println(errors.Is(err, guard.ErrStale))

	account := Account{ID: 42}
	fmt.Println(db.First(&account).Error, account.Balance)
	// Output:
	// <nil>
	// true
	// <nil> 70
}
