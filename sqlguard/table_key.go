package sqlguard

import (
	"database/sql/driver"
	"encoding/hex"
	"errors"
	"fmt"
	"reflect"
	"strconv"

	"github.com/jackc/pgx/v5/pgtype"
)

var errNullKey = errors.New("sqlguard: a row without a key cannot be fenced")

// keyText returns the text form of a key, which is part of the resource's name
// and also what is sent: untyped text is taken for the key column's own type in
// every exec mode of pgx. Whether it is the one text that the table has for the
// key, the statement compares.
func keyText(key any) (string, error) {
	switch key := key.(type) {
	case string:
		return key, nil
	case int:
		return strconv.Itoa(key), nil
	case int64:
		return strconv.FormatInt(key, 10), nil
	case int32:
		return strconv.FormatInt(int64(key), 10), nil
	case [16]byte:
		return uuidText(key), nil
	case nil:
		return "", errNullKey
	}
	return otherKeyText(key)
}

// otherKeyText is for types that somebody has defined. A UUID comes first,
// since its own methods may write it in another form.
func otherKeyText(key any) (string, error) {
	v := reflect.ValueOf(key)
	if v.Kind() == reflect.Array && v.Type().ConvertibleTo(reflect.TypeFor[[16]byte]()) {
		return uuidText(v.Convert(reflect.TypeFor[[16]byte]()).Interface().([16]byte)), nil
	}
	if u, ok := key.(pgtype.UUID); ok && u.Valid {
		return uuidText(u.Bytes), nil
	}
	if v.Kind() == reflect.Pointer && v.IsNil() {
		return "", errNullKey // its methods may not expect that
	}
	if valuer, ok := key.(driver.Valuer); ok {
		value, err := valuer.Value()
		if err != nil {
			return "", fmt.Errorf("sqlguard: key %v: %w", key, err)
		}
		switch value.(type) {
		case nil, string, int64:
			return keyText(value)
		}
	}
	switch {
	case v.Kind() == reflect.String:
		return v.String(), nil
	case v.CanInt():
		return strconv.FormatInt(v.Int(), 10), nil
	case v.CanUint():
		return strconv.FormatUint(v.Uint(), 10), nil
	}
	if s, ok := key.(fmt.Stringer); ok {
		return s.String(), nil
	}
	if v.Kind() == reflect.Pointer {
		return keyText(v.Elem().Interface())
	}
	return "", fmt.Errorf("sqlguard: a %T has no text form that could name a resource: give the key as text", key)
}

// uuidText is how PostgreSQL writes a uuid.
func uuidText(b [16]byte) string {
	text := make([]byte, 36)
	hex.Encode(text, b[:4])
	hex.Encode(text[9:], b[4:6])
	hex.Encode(text[14:], b[6:8])
	hex.Encode(text[19:], b[8:10])
	hex.Encode(text[24:], b[10:])
	text[8], text[13], text[18], text[23] = '-', '-', '-', '-'
	return string(text)
}
