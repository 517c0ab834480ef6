package gormguard

import (
	"errors"
	"reflect"
	"strings"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"
	"gorm.io/gorm/schema"
)

var (
	errNoRow         = errors.New("give the row, as the model, a pointer to it or a slice of such")
	errNoName        = errors.New("the model names no resource")
	errNoTransaction = errors.New("there is no transaction (SkipDefaultTransaction)")
)

var (
	fencedType    = reflect.TypeFor[Fenced]()
	fencedAllType = reflect.TypeFor[FencedAll]()
)

func isFenced(model *schema.Schema) bool {
	if model == nil {
		return false
	}
	row := reflect.PointerTo(model.ModelType)
	return row.Implements(fencedType) || row.Implements(fencedAllType)
}

// inTransaction uses GORM's own test. It refuses wrappers of a pool, which Join cannot
// distinguish from a transaction.
func inTransaction(s *gorm.Statement) error {
	if _, in := s.ConnPool.(gorm.TxCommitter); !in {
		return errNoTransaction
	}
	return nil
}

// resources returns the names of a row of a fenced model.
func resources(row reflect.Value) (names []string) {
	model := row.Addr().Interface()
	if one, is := model.(Fenced); is {
		names = append(names, one.Resource())
	}
	if all, is := model.(FencedAll); is {
		names = append(names, all.Resources()...)
	}
	return names
}

// rowsOf returns the rows that the caller gave. Each is addressable.
func rowsOf(s *gorm.Statement) (rows []reflect.Value, err error) {
	rows = spread(s.ReflectValue)
	for i, row := range rows {
		if row.Kind() != reflect.Struct || row.Type() != s.Schema.ModelType {
			return nil, errNoRow
		}
		rows[i] = addressable(row)
	}
	if len(rows) == 0 {
		return nil, errNoRow
	}
	return rows, nil
}

func addressable(row reflect.Value) reflect.Value {
	if row.CanAddr() {
		return row
	}
	return copyOf(row)
}

func copyOf(row reflect.Value) reflect.Value {
	double := reflect.New(row.Type()).Elem()
	double.Set(row)
	return double
}

// spread returns the elements of a slice, or value alone.
func spread(value reflect.Value) (rows []reflect.Value) {
	value = reflect.Indirect(value)
	if kind := value.Kind(); kind != reflect.Slice && kind != reflect.Array {
		return []reflect.Value{value}
	}
	for i := range value.Len() {
		rows = append(rows, reflect.Indirect(value.Index(i)))
	}
	return rows
}

// namesOf returns the resources of the statement's rows, and of the associations that
// GORM saves with them.
func namesOf(s *gorm.Statement, v verb) ([]string, error) {
	t := tree{s: s, seen: map[any]bool{}}
	rows := spread(s.ReflectValue)
	if isFenced(s.Schema) {
		var err error
		if rows, err = rowsOf(s); err != nil {
			return nil, err
		}
		for _, row := range rows {
			named := resources(row)
			if len(named) == 0 {
				return nil, errNoName
			}
			t.names = append(t.names, named...)
		}
		if v != creating {
			if _, err = keysOf(s); err != nil {
				return nil, err
			}
		}
	}
	if s.Schema != nil && v != deleting {
		selected, restricted := s.SelectAndOmitColumns(v == creating, v == updating)
		for _, row := range rows {
			t.associations(s.Schema, row, selected, restricted)
		}
	}
	return t.names, nil
}

// tree collects the resources of associations. If it misses one, the association's own
// statement admits it later, out of order.
type tree struct {
	s     *gorm.Statement
	seen  map[any]bool
	names []string
}

func (t *tree) associations(model *schema.Schema, row reflect.Value, selected map[string]bool, restricted bool) {
	if row.Kind() != reflect.Struct || row.Type() != model.ModelType {
		return
	}
	if row.CanAddr() {
		if t.seen[row.Addr().Interface()] {
			return
		}
		t.seen[row.Addr().Interface()] = true
	}
	all := &model.Relationships
	for _, kind := range [][]*schema.Relationship{all.BelongsTo, all.HasOne, all.HasMany, all.Many2Many} {
		for _, rel := range kind {
			if chosen, named := selected[rel.Name]; named && !chosen || !named && restricted {
				continue
			}
			if chosen, named := selected[rel.Name+".*"]; rel.Type == schema.Many2Many && named && !chosen {
				continue
			}
			t.relation(rel, row, selected, restricted)
		}
	}
}

func (t *tree) relation(rel *schema.Relationship, row reflect.Value, selected map[string]bool, restricted bool) {
	if _, zero := rel.Field.ValueOf(t.s.Context, row); zero {
		return
	}
	selected, restricted = below(t.s.DB, rel, selected, restricted)
	for _, other := range spread(rel.Field.ReflectValueOf(t.s.Context, row)) {
		if other.Kind() != reflect.Struct {
			continue
		}
		if isFenced(rel.FieldSchema) {
			t.names = append(t.names, resources(t.referring(rel, row, other))...)
		}
		t.associations(rel.FieldSchema, other, selected, restricted)
	}
}

// referring returns a copy of other with the foreign keys that GORM will set in it.
func (t *tree) referring(rel *schema.Relationship, row, other reflect.Value) reflect.Value {
	other = copyOf(other)
	for _, ref := range rel.References {
		switch {
		case rel.Type == schema.Many2Many:
		case ref.OwnPrimaryKey:
			key, _ := ref.PrimaryKey.ValueOf(t.s.Context, row)
			_ = ref.ForeignKey.Set(t.s.Context, other, key) // GORM reports its error
		case ref.PrimaryValue != "":
			_ = ref.ForeignKey.Set(t.s.Context, other, ref.PrimaryValue)
		}
	}
	return other
}

// below returns what GORM selects of a relation's own columns and associations.
func below(db *gorm.DB, rel *schema.Relationship, selected map[string]bool, restricted bool) (map[string]bool, bool) {
	s := &gorm.Statement{DB: db, Schema: rel.FieldSchema, Table: rel.FieldSchema.Table}
	for name, chosen := range selected {
		column, is := strings.CutPrefix(name, rel.Name+".")
		switch {
		case !is:
		case chosen:
			s.Selects = append(s.Selects, column)
		default:
			s.Omits = append(s.Omits, column)
		}
	}
	if restricted && len(s.Selects) == 0 && len(s.Omits) == 0 {
		s.Omits = []string{clause.Associations}
	}
	return s.SelectAndOmitColumns(true, false)
}
