package redispoint

import (
	"strings"

	"github.com/redis/go-redis/v9"
)

// overhead are the commands of a connection, which have no steps: go-redis sends most of
// them by itself, when it needs another connection.
var overhead = set(`asking auth client cluster command discard echo exec hello multi ping quit
	readonly readwrite reset select unwatch wait waitaof`)

// reads are the commands that write no key. All others write.
var reads = set(`acl bitcount bitfield_ro bitpos dbsize dump eval_ro evalsha_ro exists expiretime
	fcall_ro geodist geohash geopos georadius_ro georadiusbymember_ro geosearch get getbit getrange
	hexists hexpiretime hget hgetall hkeys hlen hmget hpexpiretime hpttl hrandfield hscan hstrlen
	httl hvals info keys lastsave latency lcs lindex llen lolwut lpos lrange memory mget object
	pexpiretime pfcount pttl publish pubsub randomkey role scan scard script sdiff sinter sintercard
	sismember slowlog smembers smismember sort_ro spublish srandmember sscan strlen substr sunion
	time touch ttl type vcard vdim vemb vgetattr vinfo vismember vlinks vrandmember vsim watch xinfo
	xlen xpending xrange xread xrevrange zcard zcount zdiff zinter zintercard zlexcount zmscore
	zrandmember zrange zrangebylex zrangebyscore zrank zrevrange zrevrangebylex zrevrangebyscore
	zrevrank zscan zscore zunion

	bf.card bf.exists bf.info bf.mexists cf.count cf.exists cf.info cf.mexists cms.info cms.query
	ft.aggregate ft.explain ft.info ft.search ft.tagvals json.arrindex json.arrlen json.get
	json.mget json.objkeys json.objlen json.resp json.strlen json.type topk.info topk.list
	topk.query ts.get ts.info ts.mget ts.mrange ts.mrevrange ts.queryindex ts.range ts.revrange`)

// scripts run code on the server.
var scripts = set("eval evalsha fcall")

func set(names string) map[string]bool {
	s := map[string]bool{}
	for _, name := range strings.Fields(names) {
		s[name] = true
	}
	return s
}

func writes(cmd redis.Cmder) bool { return !reads[cmd.Name()] }
