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

// keys are the names that a resource has in Redis. All programs must compute
// the same ones: they are part of the format.
type keys struct {
	resource string
	base     string // what the keys of the bucket begin with
	lock     string
	// The keys in the order of the scripts, as the client takes them.
	args [3]any
}

// keys returns those of resource. Each bucket remembers the last, so that a
// lock that is taken again and again has its keys at hand.
func (i *Issuer) keys(resource string) (*keys, error) {
	bucket := crc32.ChecksumIEEE([]byte(resource)) % buckets
	last := i.names[bucket].Load()
	if last != nil && last.resource == resource {
		return last, nil
	}
	if err := i.check(); err != nil {
		return nil, err
	}
	base := i.prefix() + ":{" + strconv.Itoa(int(bucket)) + "}:"
	k := &keys{resource: resource, base: base, lock: base + "lock:" + resource}
	k.args = [3]any{k.lock, base + "counter", base + "line:" + resource}
	i.names[bucket].Store(k)
	return k, nil
}

func (i *Issuer) prefix() string {
	if i.Prefix == "" {
		return defaultPrefix
	}
	return i.Prefix
}

func (i *Issuer) check() error {
	switch c := i.Client.(type) {
	case nil:
		return errors.New("Issuer has no Client")
	case *redis.Ring:
		return errors.New("a Ring moves keys to other servers, which then grant what is held")
	case *redis.ClusterClient:
		if o := c.Options(); o.ReadOnly || o.RouteByLatency || o.RouteRandomly {
			return errors.New("a ClusterClient with ReadOnly, RouteByLatency or RouteRandomly asks replicas")
		}
	}
	// The hash tag of a key is what stands between its first '{' and the next
	// '}': braces in the prefix would take it from the bucket.
	if strings.ContainsAny(i.Prefix, "{}") {
		return fmt.Errorf("prefix %q contains a brace", i.Prefix)
	}
	if i.Replicas < 0 {
		return fmt.Errorf("negative number of Replicas: %d", i.Replicas)
	}
	return nil
}
