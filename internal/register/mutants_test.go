package register_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// mutants are mistakes in the issuer, each in an overlay of its file. The simulation must
// find it by a rule, as "lifted:", or the test that is named must fail.
var mutants = []struct{ name, file, finds, old, new string }{
	{"an entry is kept although versions repeat", "issuer.go", "TestARenewalAfterARestoreDoesNotOverwriteTheNextHolder",
		"if !kept || i.LoadFirst {", "if !kept {"},
	{"ErrLost is believed of a stale load", "issuer.go", "(theft|owner|lost):",
		"if verdict != nil && !errors.Is(verdict, token.ErrLost) {", "if verdict != nil {"},
	{"a verdict without a change is not proven", "issuer.go", "(theft|owner|lost):",
		"next.Number++", "return e, verdict"},
	{"Until is later than the lease in the record", "issuer.go", "(theft|owner|lost):",
		"	g.Until = time.Now().Add(ttl)", "	g.Until = time.Now().Add(ttl + ttl/10)"},
	{"a release after an unknown Acquire writes nothing", "issuer.go", "TestASwapThatArrivesAfterTheReleaseGrantsNothing",
		"if verdict != nil && !errors.Is(verdict, token.ErrLost) {", "if verdict != nil {"},
	{"a renewal is not written if the lease ends as before", "issuer.go", "(theft|owner|lost):",
		"		_, err := d.Renew(tok.Holder, ttl, d.now)\n		d.beats = err == nil",
		"		_, err := d.Renew(tok.Holder, ttl, d.now)"},
	{"a renewal does not beat", "record.go", "(theft|owner|lost):",
		"r.Beat = max(r.Beat+1, d.now.UnixMicro())",
		"if d.Grant.Token.Holder != d.record.Holder || d.Grant.Until.IsZero() {\n		r.Beat = max(r.Beat+1, d.now.UnixMicro())\n	}"},
	{"beats repeat after a restore", "record.go", "(theft|owner|lost):",
		"r.Beat = max(r.Beat+1, d.now.UnixMicro())", "r.Beat++"},
	{"the lease in the record is shorter", "record.go", "(theft|owner|lost):",
		"milliseconds(d.Grant.Until.Sub(d.now))", "milliseconds(d.Grant.Until.Sub(d.now))/2"},
	{"servers' clocks are taken for equal", "process.go", "(theft|owner|lost):",
		".Sub(time.UnixMilli(e.At))-skew)", ".Sub(time.UnixMilli(e.At)))"},
	{"the time of a beat is the local clock", "process.go", "TestARenewalFromAKeptEntryHasTheServersTime",
		"mathrand.N(time.Second)), latest", "mathrand.N(time.Second)), now"},
	{"a lease that was seen is judged by the server's clock", "process.go", "TestAStepOfTheServersClockEndsNoLeaseThatAProcessHasSeen",
		" && !s.ends.After(now) {", " {"},
	{"numbers count the local clock", "process.go", "lifted:",
		"return earliest.Add(mathrand.N(time.Second)), latest", "return now.Add(mathrand.N(time.Second)), latest"},
	{"numbers count the server's second", "process.go", "number:",
		"	return now, latest\n}", "	return r.clock, latest\n}"},
	{"a join beats", "record.go", "TestAWaiterThatJoinsIsNoSignOfLifeOfTheHolder",
		"		return r, r.Number != d.record.Number ||", "		if len(r.Queue) > len(d.record.Queue) {\n			r.Beat++\n		}\n		return r, r.Number != d.record.Number ||"},
	{"a join does not give way", "issuer.go", "TestACrowdThatJoinsDoesNotKeepTheHolderFromRenewing",
		"if next.Beat == before {", "if next.Beat == before && false {"},
	{"a change gives way for minutes", "issuer.go", "TestAChangeGivesWayForSecondsIfTheServerIsSlow",
		"<<min(2*try, 6), patience)", "<<min(2*try, 6), 30*patience)"},
	{"a handed lock needs no confirmation", "record.go", "TestTheWaitersOfADeadProcessAreDroppedAtOnce",
		"if d.Grant == d.handed {", "if d.Grant == d.handed && false {"},
	{"a waiter does not leave", "issuer.go", "TestAWaiterThatLeavesHasNoPlace",
		"		i.leave(ctx, resource, holder)\n", ""},
	{"a broken watch is watched again", "issuer.go", "TestAWaiterIsServedWhateverItsWatchReturns",
		"next, err = i.load(until, resource)", ""},
	{"waiters beyond the queue do not join later", "issuer.go", "TestWaitersBeyondTheQueueAreServedToo",
		"place < 0 && (queued || len(e.Queue) < places)", "place < 0 && queued"},
}

func TestStressMutants(t *testing.T) {
	for _, m := range mutants {
		t.Run(m.name, func(t *testing.T) {
			file, err := filepath.Abs(m.file)
			require.NoError(t, err)
			text, err := os.ReadFile(file)
			require.NoError(t, err)
			require.Equal(t, 1, strings.Count(string(text), m.old), "%s must have the text of the mutant once", m.file)
			folder, run := t.TempDir(), "^TestSimulation$"
			if strings.HasPrefix(m.finds, "Test") {
				run = "^" + m.finds + "$"
			}
			mutated, list := filepath.Join(folder, m.file), filepath.Join(folder, "overlay.json")
			require.NoError(t, os.WriteFile(mutated, []byte(strings.Replace(string(text), m.old, m.new, 1)), 0o600))
			replace, err := json.Marshal(map[string]map[string]string{"Replace": {file: mutated}})
			require.NoError(t, err)
			require.NoError(t, os.WriteFile(list, replace, 0o600))
			out, err := exec.CommandContext(t.Context(), "go", "test", "-vet=off", "-overlay="+list, "-count=1", "-timeout=5m", "-run="+run, ".").CombinedOutput()
			require.Error(t, err, "it survives:\n%s", out)
			if run == "^TestSimulation$" {
				require.Regexp(t, `seed \d+: `+m.finds, string(out))
			}
			require.NotContains(t, string(out), "build failed")
		})
	}
}
