package gormguard

import (
	"database/sql/driver"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"
)

var (
	errRaw       = errors.New("the statement is raw SQL")
	errTable     = errors.New("the statement names its table by an expression")
	errModifier  = errors.New("the statement has a modifier or a clause that may reach other rows")
	errNoKey     = errors.New("give the model with its primary key: conditions do not name the rows")
	errOr        = errors.New("conditions joined by Or reach other rows: group them, as in Where(db.Where(…).Or(…))")
	errWhere     = errors.New("the WHERE clause is not one of GORM's own")
	errKeySet    = errors.New("an assignment to the primary key, or to a column that is text: delete the row and create another")
	errKeyLeft   = errors.New("the primary key is left out of the INSERT (Select, Omit)")
	errConflict  = errors.New("ON CONFLICT DO UPDATE is fenced on the columns of the primary key alone")
	errDuplicate = errors.New("ON DUPLICATE KEY UPDATE reaches other rows by the table's other unique indexes; for Save of one row use Create or Updates")
)

// modifiers are the modifiers that do not extend a statement to other rows.
var modifiers = []string{"", "IGNORE", "OR IGNORE", "LOW_PRIORITY"}

// confine returns an error if the statement may affect rows that the caller has not
// given. It adds the rows' keys to an UPDATE or DELETE.
func confine(s *gorm.Statement, v verb) error {
	if err := reaches(s, v); err != nil || v == creating {
		return err
	}
	return confineWhere(s)
}

// reaches checks everything except the conditions.
func reaches(s *gorm.Statement, v verb) error {
	if s.SQL.Len() > 0 {
		return errRaw
	}
	if err := plainTable(s); err != nil {
		return err
	}
	switch v {
	case creating:
		return inserts(s)
	case updating:
		return keepsKey(s)
	default:
		return nil
	}
}

// plainTable returns an error if a clause replaces the table or the order of clauses.
func plainTable(s *gorm.Statement) error {
	if s.TableExpr != nil && (len(s.TableExpr.Vars) > 0 || strings.ContainsAny(s.TableExpr.SQL, " \t\r\n,;()/-")) {
		return errTable
	}
	if _, has := s.Clauses["FROM"]; has {
		return errModifier
	}
	for _, name := range []string{"INSERT", "UPDATE", "DELETE"} {
		modifier, table := "", ""
		switch c := s.Clauses[name].Expression.(type) {
		case clause.Insert:
			modifier, table = c.Modifier, c.Table.Name
		case clause.Update:
			modifier, table = c.Modifier, c.Table.Name
		case clause.Delete:
			modifier = c.Modifier
		}
		if table != "" || !slices.Contains(modifiers, strings.ToUpper(strings.TrimSpace(modifier))) {
			return errModifier
		}
	}
	return nil
}

// confineWhere puts the conditions into parentheses, since text may contain an OR that
// GORM does not parse, and adds the keys.
func confineWhere(s *gorm.Statement) error {
	keys, err := keysOf(s)
	if err != nil {
		return err
	}
	if !slices.Contains(s.BuildClauses, "WHERE") {
		return errWhere
	}
	given, where := s.Clauses["WHERE"], clause.Where{}
	if given.Expression != nil {
		var is bool
		if where, is = given.Expression.(clause.Where); !is {
			return errWhere
		}
	}
	if given.Builder != nil || given.BeforeExpression != nil || given.AfterNameExpression != nil || given.AfterExpression != nil {
		return errWhere
	}
	for _, condition := range where.Exprs {
		if or, is := condition.(clause.OrConditions); is && len(or.Exprs) == 1 && len(where.Exprs) > 1 {
			return errOr
		}
	}
	confined := clause.Where{Exprs: []clause.Expression{keys}}
	if len(where.Exprs) > 0 {
		confined.Exprs = append(confined.Exprs, parentheses{where})
	}
	s.Clauses["WHERE"] = clause.Clause{Name: "WHERE", Expression: confined}
	return nil
}

type parentheses struct{ clause.Where }

func (p parentheses) Build(to clause.Builder) {
	_ = to.WriteByte('(')
	p.Where.Build(to)
	_ = to.WriteByte(')')
}

// keysOf returns the condition that a row is one of the caller's.
func keysOf(s *gorm.Statement) (clause.Expression, error) {
	rows, err := rowsOf(s)
	if err != nil {
		return nil, err
	}
	var keys []clause.Expression
	for _, row := range rows {
		var key []clause.Expression
		for _, field := range s.Schema.PrimaryFields {
			value, zero := field.ValueOf(s.Context, row)
			if zero {
				return nil, errNoKey
			}
			key = append(key, clause.Eq{Column: clause.Column{Table: clause.CurrentTable, Name: field.DBName}, Value: value})
		}
		if len(key) == 0 {
			return nil, errNoKey
		}
		keys = append(keys, clause.AndConditions{Exprs: key})
	}
	return parentheses{clause.Where{Exprs: []clause.Expression{clause.OrConditions{Exprs: keys}}}}, nil
}

// keepsKey returns an error if the UPDATE assigns to the primary key.
func keepsKey(s *gorm.Statement) error {
	if set, has := s.Clauses["SET"]; has {
		assignments, is := set.Expression.(clause.Set)
		if !is || assignsKey(s, assignments) {
			return errKeySet
		}
		return nil
	}
	selected, restricted := s.SelectAndOmitColumns(false, true)
	written := func(column string) bool {
		chosen, named := selected[column]
		return named && chosen || !named && !restricted
	}
	values := reflect.ValueOf(s.Dest)
	for values.Kind() == reflect.Pointer {
		values = values.Elem()
	}
	if columns, is := values.Interface().(map[string]any); is {
		for column := range columns {
			if isKey(s, column) && written(column) {
				return errKeySet
			}
		}
		return nil
	}
	if values.Kind() == reflect.Struct && (!values.CanAddr() || s.Dest != s.Model) {
		return keepsKeyOf(s, values, func(column string, zero bool) bool { return written(column) && (selected[column] || !zero) })
	}
	return nil
}

// keepsKeyOf is keepsKey for values in a struct other than the model.
func keepsKeyOf(s *gorm.Statement, values reflect.Value, written func(column string, zero bool) bool) error {
	other := &gorm.Statement{DB: s.DB}
	if err := other.Parse(s.Dest); err != nil {
		return err
	}
	rows, err := rowsOf(s)
	if err != nil {
		return err
	}
	for _, field := range s.Schema.PrimaryFields {
		source := other.Schema.LookUpField(field.DBName)
		if source == nil {
			continue
		}
		value, zero := source.ValueOf(s.Context, values)
		if !written(field.DBName, zero) {
			continue
		}
		for _, row := range rows {
			if key, _ := field.ValueOf(s.Context, row); !reflect.DeepEqual(plain(key), plain(value)) {
				return errKeySet
			}
		}
	}
	return nil
}

// plain returns the value that is sent to the database.
func plain(value any) any {
	if converted, err := driver.DefaultParameterConverter.ConvertValue(value); err == nil {
		return converted
	}
	return value
}

// assignsKey reports whether a SET assigns to the primary key. Text counts as an
// assignment to it.
func assignsKey(s *gorm.Statement, assignments clause.Set) bool {
	return slices.ContainsFunc(assignments, func(a clause.Assignment) bool { return a.Column.Raw || isKey(s, a.Column.Name) })
}

// isKey reports whether a column is part of the primary key, in any spelling: quoted,
// qualified by the table, in another case.
func isKey(s *gorm.Statement, column string) bool {
	if field := s.Schema.LookUpField(column); field != nil {
		return field.PrimaryKey
	}
	column = strings.Trim(column[strings.LastIndexByte(column, '.')+1:], "\"`[] ")
	return slices.ContainsFunc(s.Schema.PrimaryFieldDBNames, func(key string) bool { return strings.EqualFold(key, column) })
}

// inserts returns an error if the INSERT may write a row with another key.
func inserts(s *gorm.Statement) error {
	selected, restricted := s.SelectAndOmitColumns(true, false)
	for _, field := range s.Schema.PrimaryFields {
		if chosen, named := selected[field.DBName]; !named && restricted || named && !chosen {
			return errKeyLeft
		}
	}
	c, has := s.Clauses["ON CONFLICT"]
	if !has {
		return nil
	}
	conflict, is := c.Expression.(clause.OnConflict)
	switch {
	case !is:
		return errConflict
	case conflict.DoNothing && len(conflict.DoUpdates) == 0 && !conflict.UpdateAll: // otherwise MySQL updates
		return nil
	case conflict.OnConstraint != "", !onKey(s, conflict), assignsKey(s, conflict.DoUpdates):
		return errConflict
	case s.DB.Name() == "mysql":
		return noOtherUnique(s)
	}
	return nil
}

// onKey reports whether the conflicting row is the one with the same primary key.
func onKey(s *gorm.Statement, conflict clause.OnConflict) bool {
	if len(conflict.Columns) == 0 {
		return conflict.UpdateAll // GORM takes the primary key
	}
	var columns []string
	for _, column := range conflict.Columns {
		columns = append(columns, column.Name)
	}
	return slices.Equal(slices.Sorted(slices.Values(columns)), slices.Sorted(slices.Values(s.Schema.PrimaryFieldDBNames)))
}

// uniqueIndexes counts the unique indexes besides the primary key.
const uniqueIndexes = "SELECT COUNT(*) FROM information_schema.statistics " +
	"WHERE table_schema = DATABASE() AND table_name = ? AND non_unique = 0 AND index_name <> 'PRIMARY'"

// noOtherUnique queries MySQL for other unique indexes. MySQL finds the conflicting row
// by any of them, whatever columns GORM was given.
func noOtherUnique(s *gorm.Statement) error {
	if s.TableExpr != nil && strings.Contains(s.TableExpr.SQL, ".") {
		return errTable
	}
	var count int
	if err := Tx(s.DB).QueryRowContext(s.Context, uniqueIndexes, s.Table).Scan(&count); err != nil {
		return fmt.Errorf("unique indexes: %w", err)
	}
	if count > 0 {
		return errDuplicate
	}
	return nil
}
