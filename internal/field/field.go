// Package field turns the parts of a token and of its seal into an Item of
// RFC 9651 and back, for the packages token and seal (their text forms) and
// httpguard (its header).
package field

import (
	"fmt"

	"github.com/dunglas/httpsfv"
)

// Item returns number;r="resource";h="holder". Names are Strings, or Display
// Strings (RFC 9651 §3.3.8) where they are not ASCII, which Strings must be.
func Item(number int64, resource, holder string) httpsfv.Item {
	item := httpsfv.NewItem(number)
	item.Params.Add("r", text(resource))
	item.Params.Add("h", text(holder))
	return item
}

// Parts returns what Item was given. Parameters it does not know are passed
// over (§2.2 lets a field grow by them); the last of two with one name counts,
// as the grammar has it (§4.2.3.2).
func Parts(item httpsfv.Item) (number int64, resource, holder string, err error) {
	number, ok := item.Value.(int64)
	if !ok {
		return 0, "", "", fmt.Errorf("must be an Integer, not %T", item.Value)
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
