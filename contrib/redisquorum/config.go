package redisquorum

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// format is the format of a marker, with its version.
const format = "fencepost-quorum/1"

const (
	volatile = "volatile"
	durable  = "durable"
)

var errNotBootstrapped = errors.New("it is not a member of a quorum: Bootstrap was not called, or it has lost its memory")

// config is the configuration on which the members of a quorum agree. Each member stores
// it in its marker, together with its name and the run id of the server that wrote it:
//
//	fencepost-quorum/1 <id> <longest ttl, ms> volatile <name>,<name>,<name> <name> <run id>
//
// Two configs that differ in any field are two quorums, whose majorities need not
// overlap.
type config struct {
	id     string
	maxTTL time.Duration
	memory string   // volatile or durable; if durable, the run id is "-"
	names  []string // sorted

	markers []string // one for each name; see withMarkers
}

// withMarkers computes c's markers, since every request needs them, and returns c.
func (c *config) withMarkers() *config {
	for _, name := range c.names {
		c.markers = append(c.markers, c.marker(name))
	}
	return c
}

// marker returns the marker of the named member, without the run id.
func (c *config) marker(name string) string {
	names := strings.Join(c.names, ",")
	return fmt.Sprintf("%s %s %d %s %s %s ", format, c.id, c.maxTTL.Milliseconds(), c.memory, names, name)
}

// durability returns the second argument of the scripts: "-" if a marker is valid beyond
// the run of its server, and "" if not.
func (c *config) durability() string {
	if c.memory == durable {
		return "-"
	}
	return ""
}

// parseMarker returns the config in a marker, and the name of its member.
func parseMarker(marker string) (c config, name string, err error) {
	fields := strings.Fields(marker)
	if len(fields) != 7 || fields[0] != format {
		return c, "", fmt.Errorf("its marker is %q, which is not of format %s", marker, format)
	}
	ms, err := strconv.ParseInt(fields[2], 10, 64)
	if err != nil {
		return c, "", fmt.Errorf("its marker is %q: %w", marker, err)
	}
	c = config{
		id: fields[1], maxTTL: time.Duration(ms) * time.Millisecond,
		memory: fields[3], names: strings.Split(fields[4], ","),
	}
	return c, fields[5], nil
}

// differs returns the reason for which a node that this program calls name is not a
// member of a quorum of names and maxTTL, or nil.
func (c *config) differs(member, name string, names []string, maxTTL time.Duration) error {
	switch {
	case !slices.Equal(c.names, names):
		return fmt.Errorf("it is in a quorum of %s, not of %s", strings.Join(c.names, ","), strings.Join(names, ","))
	case member != name:
		return fmt.Errorf("its name is %q in the quorum, and %q here", member, name)
	case c.maxTTL != maxTTL:
		return fmt.Errorf("its quorum has a MaxTTL of %s, not of %s", c.maxTTL, maxTTL)
	}
	return nil
}

// config returns the config that a majority of the nodes has, and caches it.
func (q *quorum) config(ctx context.Context) (*config, error) {
	if c := q.known.Load(); c != nil {
		return c, nil
	}
	votes, answered := map[string]int{}, 0
	var agreed *config
	failed, err := q.collect(ctx, q.request, q.readMarker, func(n *node, r reply) (bool, error) {
		c, err := q.parseConfig(n, r.word)
		if err != nil {
			return false, err
		}
		answered++
		text := c.marker("")
		if votes[text]++; votes[text] >= q.need {
			agreed = c
		}
		return agreed != nil, nil
	})
	switch {
	case err != nil:
		return nil, err
	case agreed == nil:
		return nil, failed.noMajority(q, answered)
	}
	q.known.Store(agreed.withMarkers())
	return agreed, nil
}

func (q *quorum) readMarker(ctx context.Context, n *node) reply {
	marker, err := n.client.Get(ctx, q.memberKey).Result()
	if errors.Is(err, redis.Nil) {
		err = errNotBootstrapped
	}
	return reply{word: marker, err: err}
}

func (q *quorum) parseConfig(n *node, marker string) (*config, error) {
	c, name, err := parseMarker(marker)
	if err != nil {
		return nil, err
	}
	return &c, c.differs(name, n.name, q.names, q.maxTTL)
}
