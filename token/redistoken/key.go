package redistoken

import (
	"errors"
	"fmt"
	"hash/crc32"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"
)

const (
	defaultPrefix = "fencepost"
	buckets       = 256
)

// keys returns the names of resource's lock and of its bucket's counter. All
// programs must compute the same ones: they are part of the format.
func (i *Issuer) keys(resource string) ([]string, error) {
	switch i.Client.(type) {
	case nil:
		return nil, errors.New("Issuer has no Client")
	case *redis.Ring:
		return nil, errors.New("a Ring moves keys to other servers, which then grant what is held")
	}
	prefix := i.Prefix
	if prefix == "" {
		prefix = defaultPrefix
	}
	// The hash tag of a key is what stands between its first '{' and the next
	// '}': braces in the prefix would take it from the bucket.
	if strings.ContainsAny(prefix, "{}") {
		return nil, fmt.Errorf("prefix %q contains a brace", prefix)
	}
	bucket := crc32.ChecksumIEEE([]byte(resource)) % buckets
	base := prefix + ":{" + strconv.Itoa(int(bucket)) + "}:"
	return []string{base + "lock:" + resource, base + "counter"}, nil
}
