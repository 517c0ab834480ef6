package redistoken

import (
	"crypto/sha1" //nolint:gosec // it is how Redis names scripts
	_ "embed"     // the scripts
	"encoding/hex"
)

var (
	//go:embed free.lua
	freeSource string
	//go:embed owned.lua
	ownedSource string
	//go:embed mint.lua
	mintSource string
	//go:embed line.lua
	lineSource string
	//go:embed acquire.lua
	acquireSource string
	//go:embed wait.lua
	waitSource string
	//go:embed release.lua
	releaseSource string
	//go:embed renew.lua
	renewSource string
	//go:embed raise.lua
	raiseSource string
	//go:embed look.lua
	lookSource string

	// What is nearly always so comes first: Lua makes its functions anew each time.
	acquireScript = newScript(0, 3, freeSource+mintSource+lineSource+acquireSource)
	waitScript    = newScript(0, 3, freeSource+mintSource+lineSource+waitSource)
	releaseScript = newScript(0, 3, ownedSource+mintSource+lineSource+releaseSource)
	renewScript   = newScript(0, 1, renewSource)
	raiseScript   = newScript(1, 2, raiseSource)
	lookScript    = newScript(0, 1, lookSource)
)

// script is one of the scripts, and which of the keys it is given.
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
