package redisguard

import (
	_ "embed" // the scripts

	"github.com/redis/go-redis/v9"
)

var (
	//go:embed mark.lua
	markSource string
	//go:embed admit.lua
	admitSource string
	//go:embed admitted.lua
	admittedSource string
	//go:embed mint.lua
	mintSource string
	//go:embed write.lua
	writeSource string
	//go:embed command.lua
	commandSource string

	admitScript   = redis.NewScript(markSource + admitSource + admittedSource)
	mintScript    = redis.NewScript(markSource + mintSource)
	commandScript = guarded(commandSource)
)

// script is one that is sent by its hash, and by its text where the server does
// not know it.
type script struct{ text, hash string }

// guarded returns a script that runs what is written if the token is admitted.
//
// What is written becomes a function, so that it may return from anywhere. The
// function stands first, where no local of ours is visible to it, and begins on
// the first line, so that the lines which errors name are its own. A text that is
// not a whole script (an `end` too many, a string or a comment without its end)
// does not compile together with the rest, and then nothing runs.
func guarded(source string) script {
	text := "local write = function(...) " + source + "\nend\n" + markSource + admitSource + writeSource
	return script{text: text, hash: redis.NewScript(text).Hash()}
}
