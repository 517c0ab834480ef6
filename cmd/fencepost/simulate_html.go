package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/fencepost/fencepost/internal/picture"
	"github.com/fencepost/fencepost/internal/simulate"
	"github.com/fencepost/fencepost/simulations/history"
)

// picture writes the page that --html asks for, and says where it is.
func (c *simulateCmd) picture(std streams, report *simulate.Report) error {
	return publish(std, c.HTML, c.JSON, func() (picture.Page, error) { return c.drawing(report) })
}

// drawing has the way that fails and the one that works first, and the two that
// look once more beneath them.
func (c *simulateCmd) drawing(report *simulate.Report) (picture.Page, error) {
	p := picture.Page{Title: "One lock, two writers, and a pause", Lead: story(report), Again: c.again()}
	for _, way := range []simulate.Way{simulate.Unguarded, simulate.Guarded, simulate.Recheck, simulate.CheckThenWrite} {
		scene, err := roundScene(report, way)
		if err != nil {
			return p, err
		}
		scene.Small = len(p.Scenes) > 1
		p.Scenes = append(p.Scenes, scene)
	}
	return p, nil
}

var headings = map[simulate.Way]string{
	simulate.Unguarded:      "Unguarded: having the lock is taken for permission",
	simulate.Guarded:        "Guarded: the same moment, and the late write is refused",
	simulate.Recheck:        "Asking Redis once more before the write",
	simulate.CheckThenWrite: "Comparing with the mark before the write",
}

// roundScene is the first round of a way, judged by what was recorded of it.
func roundScene(report *simulate.Report, way simulate.Way) (picture.Scene, error) {
	count := report.Of(way)
	h := count.Example.History(time.Duration(report.TTL) * time.Millisecond)
	broken, err := history.Check(h)
	if err != nil {
		return picture.Scene{}, err
	}
	for i := range broken {
		broken[i].Why = lament(count.Example, broken[i])
	}
	return picture.Scene{
		Title: headings[way], History: h, Violations: broken,
		Lead: fmt.Sprintf("In %s: %d of %d stale writes accepted, %d refused, %s lost. This is the first.",
			rounds(report.Rounds), count.StaleAccepted, count.StaleAttempted, count.Refused, updates(count.UpdatesLost)),
	}, nil
}

// lament says of the stale write what it did to whom.
func lament(r *simulate.Round, v history.Violation) string {
	if v.Rule.ID != "order" {
		return v.Why
	}
	return fmt.Sprintf("A's write, with the older token and with what it read before the pause, replaces B's, which was acknowledged. Lost: %s.",
		strings.Join(r.Lost(), ", "))
}

// again leaves out where servers are: that is a secret now and then.
func (c *simulateCmd) again() string {
	command := fmt.Sprintf("fencepost simulate --rounds %d --ttl %s", c.Rounds, c.TTL)
	if c.Redis != "" {
		command += " --redis URL"
	}
	if c.Postgres != "" {
		command += " --postgres URL"
	}
	return command + " --html FILE"
}
