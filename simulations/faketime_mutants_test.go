package simulations_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// sourceMutant is a mistake in a source file: a decision that is taken otherwise. Under some
// seed, rule must be the first rule that it breaks.
type sourceMutant struct{ name, file, rule, old, new string }

// sourceMutants are mistakes in the lock, the guard, and the service in front of the store.
var sourceMutants = []sourceMutant{
	{"a held lock is granted", "internal/lockstate/lockstate.go", "owner",
		"if l.isFree(now) || l.Grant.Token.Holder == holder {",
		"{"},
	{"the lock ends earlier than the lease", "internal/lockstate/lockstate.go", "owner",
		"return !l.Grant.Until.After(now)",
		"return !l.Grant.Until.After(now.Add(50 * time.Millisecond))"},
	{"a renewal acquires", "internal/lockstate/lockstate.go", "owner",
		"if !l.isHeldBy(holder, now) {\n\t\treturn time.Time{}, token.ErrLost\n\t}",
		"if !l.isHeldBy(holder, now) && !l.isFree(now) {\n\t\treturn time.Time{}, token.ErrLost\n\t}\n\tl.Grant.Token.Holder = holder"},
	{"a renewal does not check the holder", "internal/lockstate/lockstate.go", "owner",
		"if !l.isHeldBy(holder, now) {\n\t\treturn time.Time{}, token.ErrLost\n\t}",
		"if l.isFree(now) {\n\t\treturn time.Time{}, token.ErrLost\n\t}"},
	{"a renewal is answered and not kept", "internal/lockstate/lockstate.go", "owner",
		"l.Grant.Until = now.Add(ttl)\n\tl.Serve(now) // the new ttl may end sooner than the old one\n\treturn l.Grant.Until, nil",
		"return now.Add(ttl), nil"},
	{"a release does not check the holder", "internal/lockstate/lockstate.go", "owner",
		"if !l.isHeldBy(holder, now) {\n\t\treturn token.ErrLost\n\t}",
		"if l.isFree(now) {\n\t\treturn token.ErrLost\n\t}"},
	{"holders are compared by their beginning", "internal/lockstate/lockstate.go", "owner",
		"return l.Grant.Token.Holder == holder && !l.isFree(now)",
		"return l.Grant.Token.Holder != \"\" && l.Grant.Token.Holder[0] == holder[0] && !l.isFree(now)"},
	{"a number does not rise", "internal/lockstate/lockstate.go", "numbers",
		"number := max(l.Number+1, Clock(now))",
		"number := max(l.Number, Clock(now))"},
	{"a number is shortened", "internal/lockstate/lockstate.go", "numbers",
		"number := max(l.Number+1, Clock(now))",
		"number := max(l.Number+1, Clock(now)) / 1000 * 1000"},
	{"a number ends with the lease", "internal/lockstate/lockstate.go", "numbers",
		"l.Grant.Until = time.Time{}\n\tl.Serve(now)\n\treturn nil",
		"l.Grant.Until = time.Time{}\n\tl.Number = 0\n\tl.Serve(now)\n\treturn nil"},
	{"a free lock is forgotten", "token/memtoken/issuer.go", "numbers",
		"if l == nil {",
		"if l == nil || len(l.Queue) == 0 && !l.Grant.Until.After(time.Now()) {"},
	{"a waiter is told of a grant that is not kept", "internal/lockstate/lockstate.go", "owner",
		"first.Served(l.mint(first.Holder, first.TTL, now))",
		"first.Served(l.mint(first.Holder, first.TTL, now))\n\t\tl.Grant.Until = now"},
	{"a waiter that leaves the queue frees the lock", "internal/lockstate/lockstate.go", "owner",
		"l.Queue = slices.Delete(l.Queue, place, place+1)",
		"l.Queue = slices.Delete(l.Queue, place, place+1)\n\t\tl.Grant.Until = time.Time{}"},
	{"recovery does nothing", "internal/lockstate/lockstate.go", "numbers",
		"l.Number = number\n\treturn nil",
		"return nil"},
	{"a refusal never means that the issuer forgot", "internal/schedule/schedule.go", "liveness",
		"return mark >= number && !lost",
		"return false"},
	{"the lease outlives the issuer's", "internal/schedule/schedule.go", "owner",
		"s.Until, s.Renewing, s.Failures = until-margin, false, 0",
		"s.Until, s.Renewing, s.Failures = until+5*margin, false, 0"},
	{"the lease counts from the reply", "lock/hold.go", "owner",
		"held.startRenewal(grant.Until)",
		"held.startRenewal(time.Now().Add(t.ttl))"},
	{"a renewed lease counts from the reply", "lock/renewer.go", "owner",
		"l.entry.Extend(now, answer.Until.Sub(r.epoch), l.safetyMargin)",
		"l.entry.Extend(now, now+l.ttl, l.safetyMargin)"},
	{"a failed renewal is taken for a success", "internal/schedule/schedule.go", "owner",
		"s.Failures++",
		"s.Until += ttl"},
	{"the work begins without a claim", "lock/hold.go", "once",
		"if l.Claim == nil || held.ctx.Err() != nil {",
		"if true {"},
	{"a claim without a reply is taken for accepted", "lock/hold.go", "once",
		"if err := l.Claim(failpoint.Claim(ctx), held.tok); err != nil {",
		"if err := l.Claim(failpoint.Claim(ctx), held.tok); errors.As(err, new(refusal)) {"},
	{"the work begins after the lease has ended", "lock/hold.go", "owner",
		"err = context.Cause(held.ctx)\n\tclaimed = err == nil\n\treturn err",
		"claimed = true\n\treturn nil"},
	{"a process has one holder id", "lock/locker.go", "owner",
		"return string(hex.AppendEncode(text, random[:]))",
		"return name + string(hex.AppendEncode(text, random[:]))[:0]"},
	{"no guard", "guard/mark.go", "mark",
		"return &StaleError{Token: tok, Mark: m}",
		"return nil"},
	{"numbers must be equal", "guard/mark.go", "spurious-refusal",
		"if tok.Number > m.Number ||",
		"if m.Number == 0 ||"},
	{"a number is admitted once", "guard/mark.go", "spurious-refusal",
		"tok.Number == m.Number && tok.Holder == m.Holder",
		"false"},
	{"holders of one number are not compared", "guard/mark.go", "holder",
		"tok.Number == m.Number && tok.Holder == m.Holder",
		"tok.Number == m.Number"},
	{"the mark has no holder", "guard/mark.go", "spurious-refusal",
		"return Mark{Number: tok.Number, Holder: tok.Holder}, nil",
		"return Mark{Number: tok.Number}, nil"},
	{"the mark is raised once", "guard/memory.go", "mark",
		"*mark = raised",
		"if !known {\n\t\t*mark = raised\n\t}"},
	{"a refusal is not returned", "guard/memory.go", "order",
		"if err != nil {\n\t\treturn err\n\t}\n\tif raised",
		"if err != nil {\n\t\treturn nil\n\t}\n\tif raised"},
	{"requests of two tokens run at the same time", "internal/inflight/queue.go", "once",
		"return first == nil || *first.Token == *s.Token",
		"return first == nil || true"},
	{"one of two older requests leaves, and the next runs", "internal/inflight/queue.go", "once",
		"if q.admits(w) {",
		"{"},
	{"requests in flight are not tracked", "httpguard/middleware.go", "versions",
		"if !m.DangerouslySkipInFlight && !m.DangerouslyReportOnly && !isTwin(req.ctx) {",
		"if false {"},
	{"a signature is not verified", "httpguard/middleware.go", "spurious-refusal",
		"if err := m.verify(req); err != nil {",
		"if false {\n\t\tvar err error"},
	{"the store is asked before the table", "httpguard/middleware.go", "versions",
		"if !m.DangerouslySkipInFlight && !m.DangerouslyReportOnly && !isTwin(req.ctx) {\n\t\tif err := m.InFlight.enterAll(req, m.WaitTimeout); err != nil {\n\t\t\treturn err\n\t\t}\n\t}\n\treturn m.admitByStore(req)",
		"if err := m.admitByStore(req); err != nil || isTwin(req.ctx) {\n\t\treturn err\n\t}\n\treturn m.InFlight.enterAll(req, m.WaitTimeout)"},
	{"a request leaves the table before its handler returns", "httpguard/middleware.go", "once",
		"\th.serve(req, r)\n",
		"\treq.finish()\n\th.serve(req, r)\n"},
}

// luaMutants are mistakes in the scripts of redistoken.
var luaMutants = []sourceMutant{
	{"a held lock is granted", "token/redistoken/acquire_fast.lua", "owner",
		"ARGV[1], 'NX', 'PX', ARGV[2]",
		"ARGV[1], 'PX', ARGV[2]"},
	{"a renewal does not check the holder", "token/redistoken/renew.lua", "owner",
		"if redis.call('GET', KEYS[1]) ~= ARGV[1] then",
		"if not redis.call('GET', KEYS[1]) then"},
	{"a release does not check the holder", "token/redistoken/release_fast.lua", "owner",
		"local owned = current == ARGV[1]",
		"local owned = current"},
	{"a number is the clock", "token/redistoken/mint.lua", "numbers",
		"if counter and counter < number then",
		"if counter then"},
	{"a number does not rise", "token/redistoken/mint.lua", "numbers",
		"number = counter + 1",
		"number = counter"},
	{"recovery does nothing", "token/redistoken/recover.lua", "numbers",
		"redis.call('SET', KEYS[1], string.format('%.0f', number))",
		""},
	{"a waiter is told of a grant that is not kept", "token/redistoken/queue.lua", "owner",
		"redis.call('SET', KEYS[1], holder, 'PX', handoff_ttl)",
		"redis.call('DEL', KEYS[1])"},
}

// TestStressSourceMutants makes each mistake in an overlay of its file, and plays the seeds
// in order until a rule is broken.
func TestStressSourceMutants(t *testing.T) {
	for issuer, mutants := range map[string][]sourceMutant{"memory": sourceMutants, "Redis": luaMutants} {
		for _, m := range mutants {
			t.Run(issuer+"/"+m.name, func(t *testing.T) {
				found := regexp.MustCompile(`seed (\d+): ([\w-]+): `).FindStringSubmatch(m.play(t, issuer))
				require.NotNil(t, found)
				t.Logf("%s: seed %s breaks %s", m.file, found[1], found[2])
				require.Equal(t, m.rule, found[2])
			})
		}
	}
}

// play returns the output of a simulation with the mistake. The files of the simulation are
// a package by themselves, which compiles in a second.
func (m sourceMutant) play(t *testing.T, issuer string) string {
	t.Helper()
	files, err := filepath.Glob("faketime_*test.go")
	require.NoError(t, err)
	cmd := exec.CommandContext(t.Context(), "go", append([]string{"test", "-vet=off", "-overlay=" + m.overlay(t),
		"-count=1", "-cpu=1", "-timeout=5m", "-run=^TestStressSeeds$/^" + issuer + "$"}, files...)...)
	cmd.Env = append(os.Environ(), "FENCEPOST_SEEDS=10000")
	out, err := cmd.CombinedOutput()
	require.Error(t, err, "it survives:\n%s", out)
	return string(out)
}

// overlay returns the name of an overlay for the go command in which the file of m has
// its mistake.
func (m sourceMutant) overlay(t *testing.T) string {
	t.Helper()
	file, err := filepath.Abs(filepath.Join("..", filepath.FromSlash(m.file)))
	require.NoError(t, err)
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, 1, strings.Count(string(text), m.old), "%s must have the text of the mutant once", m.file)
	folder := t.TempDir()
	mutated, list := filepath.Join(folder, "mutated"+filepath.Ext(m.file)), filepath.Join(folder, "overlay.json")
	require.NoError(t, os.WriteFile(mutated, []byte(strings.Replace(string(text), m.old, m.new, 1)), 0o600))
	replace, err := json.Marshal(map[string]map[string]string{"Replace": {file: mutated}})
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(list, replace, 0o600))
	return list
}
