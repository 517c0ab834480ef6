package rowguard

import (
	"database/sql/driver"
	"encoding/hex"
	"errors"
	"fmt"
	"reflect"
	"strconv"

	"github.com/jackc/pgx/v5/pgtype"
)

var errNullKey = errors.New("rowguard: the key is nil or NULL")

// keyText returns the text form of a key. It is part of the resource's name, and is sent
// as the key: in every exec mode of pgx the server converts untyped text to the column's
// type. The statement checks that it equals the table's own text for the key.
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

// otherKeyText is keyText for user-defined types. UUIDs are tested first, since their own
// methods may return another form.
func otherKeyText(key any) (string, error) {
	v := reflect.ValueOf(key)
	if v.Kind() == reflect.Array && v.Type().ConvertibleTo(reflect.TypeFor[[16]byte]()) {
		return uuidText(v.Convert(reflect.TypeFor[[16]byte]()).Interface().([16]byte)), nil
	}
	if u, ok := key.(pgtype.UUID); ok && u.Valid {
		return uuidText(u.Bytes), nil
	}
	if v.Kind() == reflect.Pointer && v.IsNil() {
		return "", errNullKey // its methods may panic on nil
	}
	if valuer, ok := key.(driver.Valuer); ok {
		value, err := valuer.Value()
		if err != nil {
			return "", fmt.Errorf("rowguard: key %v: %w", key, err)
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
	return "", fmt.Errorf("rowguard: a key of type %T has no text form: pass it as a string", key)
}

// uuidText returns a UUID as PostgreSQL writes it.
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
