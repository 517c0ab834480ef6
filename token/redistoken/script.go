package redistoken

import (
	"crypto/sha1" //nolint:gosec // it is how Redis names scripts
	_ "embed"     // the scripts
	"encoding/hex"
)

var (
	//go:embed acquire_fast.lua
	acquireFastSource string
	//go:embed release_fast.lua
	releaseFastSource string
	//go:embed mint.lua
	mintSource string
	//go:embed queue.lua
	queueSource string
	//go:embed acquire.lua
	acquireSource string
	//go:embed wait.lua
	waitSource string
	//go:embed release.lua
	releaseSource string
	//go:embed renew.lua
	renewSource string
	//go:embed recover.lua
	recoverSource string
	//go:embed numsub.lua
	numsubSource string

	// The fast path comes first, since Lua creates the functions after it on every run.
	acquireScript = newScript(0, 3, acquireFastSource+mintSource+queueSource+acquireSource)
	waitScript    = newScript(0, 3, acquireFastSource+mintSource+queueSource+waitSource)
	releaseScript = newScript(0, 3, releaseFastSource+mintSource+queueSource+releaseSource)
	renewScript   = newScript(0, 1, renewSource)
	recoverScript = newScript(1, 2, recoverSource)
	numsubScript  = newScript(0, 1, numsubSource)
)

// script is a Lua script. Its KEYS are keys.args[from:to].
type script struct {
	from, to   int
	count      any
	text, hash any
}

func newScript(from, to int, text string) *script {
	hash := sha1.Sum([]byte(text)) //nolint:gosec // as above
	return &script{from: from, to: to, count: to - from, text: text, hash: hex.EncodeToString(hash[:])}
}

var (
	byHash any = "evalsha"
	byText any = "eval"
)
