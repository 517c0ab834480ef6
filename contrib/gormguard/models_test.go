package gormguard_test

import (
	"fmt"

	"gorm.io/gorm"
)

const opening = 1_000_000

var models = []any{&Account{}, &User{}, &Note{}, &Pair{}, &Order{}, &Line{}, &Customer{}, &Wallet{}}

// Account is named by its key. It is deleted softly.
type Account struct {
	ID        int64 `gorm:"autoIncrement"`
	Balance   int64
	DeletedAt gorm.DeletedAt

	Hook func(a *Account, tx *gorm.DB) error `gorm:"-"`
}

func (a *Account) Resource() string { return fmt.Sprintf("account/%d", a.ID) }

func (a *Account) BeforeSave(tx *gorm.DB) error {
	if a.Hook == nil {
		return nil
	}
	return a.Hook(a, tx)
}

// User has a unique index besides its key.
type User struct {
	ID    int64
	Email string `gorm:"size:100;uniqueIndex"`
}

func (u User) Resource() string { return fmt.Sprintf("user/%d", u.ID) }

// Note is not fenced.
type Note struct {
	ID   int64
	Text string
}

// Pair names two resources.
type Pair struct {
	ID     int64
	Text   string
	Orders []Order
}

func (p *Pair) Resources() []string {
	if p.Text == "nameless" {
		return nil
	}
	return []string{fmt.Sprintf("pair/%d", p.ID), "account/42"}
}

// Order and its lines have the same resource.
type Order struct {
	ID     int64
	PairID *int64
	Lines  []Line
}

func (o *Order) Resource() string { return fmt.Sprintf("order/%d", o.ID) }

// Line is named by its order.
type Line struct {
	ID       int64
	OrderID  int64
	Quantity int
}

func (l *Line) Resource() string { return fmt.Sprintf("order/%d", l.OrderID) }

// Customer is not fenced, but its wallets are.
type Customer struct {
	ID      int64
	Name    string
	Wallets []Wallet
	Notes   []Note `gorm:"many2many:customer_notes"`
}

// Wallet is named by its key.
type Wallet struct {
	ID         int64
	CustomerID int64
	Balance    int64
}

func (w *Wallet) Resource() string { return fmt.Sprintf("wallet/%d", w.ID) }
