package gorm

import (
	"errors"
	"fmt"
	"reflect"

	"gorm.io/gorm"

	"github.com/fencepost/fencepost/sqlguard/stdsql"
)

// Fence is a plugin: whatever GORM creates, updates or deletes of a fenced model
// is admitted first, in the same transaction. It goes by the keys in the model:
// a write that has none, as db.Model(&Account{}).Where(…), is refused, and so is
// one without a transaction (SkipDefaultTransaction). Other models, db.Table and
// raw SQL pass, and conditions joined by Or reach other rows: a protected table
// finds those (fencepost.protect).
type Fence struct{ Guard *stdsql.Guard }

// Fenced is a model that names its resource, by its key.
type Fenced interface{ Resource() string }

var errUnknownRows = errors.New("a fenced model is written by its key: give the model with its key")

// Name implements [gorm.Plugin].
func (f *Fence) Name() string { return "fencepost" }

// Initialize implements [gorm.Plugin].
func (f *Fence) Initialize(db *gorm.DB) error {
	c := db.Callback()
	return errors.Join(
		c.Create().After("gorm:begin_transaction").Before("gorm:before_create").Register("fencepost:create", f.admit),
		c.Update().After("gorm:setup_reflect_value").Before("gorm:before_update").Register("fencepost:update", f.admit),
		c.Delete().After("gorm:begin_transaction").Before("gorm:before_delete").Register("fencepost:delete", f.admit),
	)
}

func (f *Fence) admit(db *gorm.DB) {
	resources, err := resourcesOf(db.Statement)
	if err == nil && len(resources) > 0 && db.Error == nil {
		err = f.Guard.Join(db.Statement.Context, Tx(db), resources...)
	}
	if err != nil {
		_ = db.AddError(fmt.Errorf("fence %s: %w", db.Statement.Table, err))
	}
}

// resourcesOf names the rows of the model, each of which must have its key.
func resourcesOf(s *gorm.Statement) (resources []string, err error) {
	if s.Schema == nil || !reflect.PointerTo(s.Schema.ModelType).Implements(reflect.TypeFor[Fenced]()) {
		return nil, nil
	}
	rows := []reflect.Value{s.ReflectValue}
	if kind := s.ReflectValue.Kind(); kind == reflect.Slice || kind == reflect.Array {
		if rows = nil; s.ReflectValue.Len() == 0 {
			return nil, errUnknownRows
		}
		for i := range s.ReflectValue.Len() {
			rows = append(rows, reflect.Indirect(s.ReflectValue.Index(i)))
		}
	}
	for _, row := range rows {
		if row.Kind() != reflect.Struct || !row.CanAddr() {
			return nil, errUnknownRows
		}
		for _, key := range s.Schema.PrimaryFields {
			if _, zero := key.ValueOf(s.Context, row); zero {
				return nil, errUnknownRows
			}
		}
		resources = append(resources, row.Addr().Interface().(Fenced).Resource())
	}
	return resources, nil
}
