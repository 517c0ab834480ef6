package acknowledged_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"sync"

	"github.com/fencepost/fencepost/simulations/history"
)

// crew is the holders of one process.
type crew struct {
	order
	*site
	recorder *history.Recorder

	mu   sync.Mutex
	says *json.Encoder
}

// serve is what a process does: it obeys two orders.
func serve(in io.Reader, out io.Writer) (err error) {
	orders := json.NewDecoder(in)
	c := &crew{says: json.NewEncoder(out), recorder: history.NewRecorder()}
	if err := orders.Decode(&c.order); err != nil {
		return err
	}
	report := os.NewFile(reportFile, "report")
	defer func() { err = errors.Join(err, c.recorder.Err(), report.Close()) }()
	c.recorder.Report(report)
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	if c.site, err = connect(ctx, c.order); err != nil {
		return err
	}
	defer c.close()
	c.say(said{Ready: true})
	working := c.start(ctx)
	err = orders.Decode(new(order)) // that to stop
	stop()
	working()
	c.say(said{Over: true})
	return err
}

// start sets a holder to each row. The function returned waits for their end.
func (c *crew) start(ctx context.Context) (wait func()) {
	var working sync.WaitGroup
	all := map[string]*drowsy{}
	for name, made := range issuers {
		all[name] = &drowsy{issuer: made(c.site, c.order)}
	}
	for n, cell := range cells(c.Rows) {
		for i, key := range cell.keys() {
			h := &holder{
				crew: c, way: ways[cell.Way], issuer: all[cell.Issuer], key: key,
				name:   fmt.Sprintf("process %d", c.Process),
				random: rand.New(rand.NewPCG(c.Seed, uint64((c.Process*100+n)*100+i))),
			}
			working.Go(func() { h.work(ctx) })
		}
	}
	return func() {
		working.Wait()
		for _, iss := range all {
			_ = iss.Close()
		}
	}
}

func (c *crew) say(s said) {
	c.mu.Lock()
	defer c.mu.Unlock()
	_ = c.says.Encode(s) // nobody to tell: the end of the input follows
}
