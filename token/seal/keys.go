package seal

import (
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
)

var errLine = errors.New(`must be "id secret", the secret in base64 (RFC 4648 §4, with padding)`)

// ParseKeys reads keys from a file or the environment: one "id secret" a line,
// the secret in base64 as "openssl rand -base64 32" prints it. Empty lines, and
// lines that begin with #, are passed over. The order is kept: in [New] the
// first key seals. No lines are no keys, which New refuses. An error names the
// line by its number, and tells nothing of what stands there.
func ParseKeys(text string) ([]Key, error) {
	var keys []Key
	n := 0
	for line := range strings.Lines(text) {
		n++
		words := strings.Fields(line)
		if len(words) == 0 || strings.HasPrefix(words[0], "#") {
			continue
		}
		key, err := parseKey(words)
		if err != nil {
			return nil, fmt.Errorf("seal: line %d of the keys: %w", n, err)
		}
		keys = append(keys, key)
	}
	return keys, nil
}

func parseKey(words []string) (Key, error) {
	if len(words) != 2 {
		return Key{}, errLine
	}
	secret, err := base64.StdEncoding.Strict().DecodeString(words[1])
	if err != nil {
		return Key{}, errLine
	}
	key := Key{ID: words[0], Secret: secret}
	return key, key.check()
}
