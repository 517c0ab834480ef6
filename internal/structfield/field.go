// Package structfield converts a token and its signature to an Item of RFC 9651 and back.
// It serves the text forms of packages token and signature, and the header of httpguard.
package structfield

import (
	"errors"
	"fmt"
	"time"

	"github.com/dunglas/httpsfv"
)

// Item returns number;r="resource";h="holder". Names are Strings, or Display Strings (RFC
// 9651 §3.3.8) if they are not ASCII.
func Item(number int64, resource, holder string) httpsfv.Item {
	item := httpsfv.NewItem(number)
	item.Params.Add("r", text(resource))
	item.Params.Add("h", text(holder))
	return item
}

// Parts returns the arguments of Item. It ignores unknown parameters (§2.2 lets a field
// grow by them). If a parameter occurs twice, the last one counts, as in the grammar
// (§4.2.3.2).
func Parts(item httpsfv.Item) (number int64, resource, holder string, err error) {
	number, ok := item.Value.(int64)
	if !ok {
		return 0, "", "", errors.New("must be an Integer (RFC 9651 §3.3.1), not a " + kind(item.Value))
	}
	if resource, err = param(item, "r"); err != nil {
		return 0, "", "", err
	}
	if holder, err = param(item, "h"); err != nil {
		return 0, "", "", err
	}
	return number, resource, holder, nil
}

func param(item httpsfv.Item, name string) (string, error) {
	value, ok := item.Params.Get(name)
	if !ok {
		return "", fmt.Errorf("must have the parameter %s", name)
	}
	switch v := value.(type) {
	case string:
		return v, nil
	case httpsfv.DisplayString:
		return string(v), nil
	}
	return "", fmt.Errorf("parameter %s must be a String or Display String", name)
}

func text(s string) any {
	for i := range len(s) {
		if s[i] >= 0x80 {
			return httpsfv.DisplayString(s)
		}
	}
	return s
}

// kind returns the name in RFC 9651 for the type of a value that is no Integer.
func kind(value any) string {
	switch value.(type) {
	case float64:
		return "Decimal"
	case string:
		return "String"
	case httpsfv.Token:
		return "Token"
	case []byte:
		return "Byte Sequence"
	case bool:
		return "Boolean"
	case time.Time:
		return "Date"
	case httpsfv.DisplayString:
		return "Display String"
	}
	return "value of another type"
}
