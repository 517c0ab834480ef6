package redisquorum

import (
	"hash/crc32"
	"strconv"
)

// buckets bounds the number of counters on a node: they are never deleted.
const buckets = 256

// The names of the keys are part of the format: all programs compute the same.
func (q *quorum) key(name string) string { return q.prefix + ":quorum:" + name }

func (q *quorum) lock(resource string) string { return q.key("lock:" + resource) }

func (q *quorum) counter(resource string) string {
	return q.bucket(int(crc32.ChecksumIEEE([]byte(resource)) % buckets))
}

func (q *quorum) bucket(n int) string { return q.key("counter:" + strconv.Itoa(n)) }

// counters are all of them, in the order of the buckets.
func (q *quorum) counters() []string {
	keys := make([]string, buckets)
	for n := range keys {
		keys[n] = q.bucket(n)
	}
	return keys
}
