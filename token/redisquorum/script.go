package redisquorum

import (
	_ "embed" // the scripts

	"github.com/redis/go-redis/v9"
)

var (
	//go:embed member.lua
	memberSource string
	//go:embed acquire.lua
	acquireSource string
	//go:embed write.lua
	writeSource string
	//go:embed withdraw.lua
	withdrawSource string
	//go:embed renew.lua
	renewSource string
	//go:embed release.lua
	releaseSource string
	//go:embed counters.lua
	countersSource string
	//go:embed raise.lua
	raiseSource string
	//go:embed join.lua
	joinSource string
	//go:embed found.lua
	foundSource string
	//go:embed retract.lua
	retractSource string

	acquireScript  = redis.NewScript(memberSource + acquireSource)
	writeScript    = redis.NewScript(memberSource + writeSource)
	renewScript    = redis.NewScript(memberSource + renewSource)
	releaseScript  = redis.NewScript(memberSource + releaseSource)
	countersScript = redis.NewScript(memberSource + countersSource)
	raiseScript    = redis.NewScript(memberSource + raiseSource)
	joinScript     = redis.NewScript(memberSource + joinSource)
	foundScript    = redis.NewScript(memberSource + foundSource)
	withdrawScript = redis.NewScript(withdrawSource)
	retractScript  = redis.NewScript(retractSource)
)
