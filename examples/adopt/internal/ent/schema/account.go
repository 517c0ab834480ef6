// Package schema is the schema from which ent generates its code.
package schema

import (
	"entgo.io/ent"
	"entgo.io/ent/schema/field"
)

// Account is a row of the table accounts.
type Account struct{ ent.Schema }

// Fields returns the columns except id.
func (Account) Fields() []ent.Field {
	return []ent.Field{field.Int64("balance")}
}
