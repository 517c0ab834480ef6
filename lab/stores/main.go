// Command stores measures the issuers over a store with a compare-and-swap beside the lock
// that the store's own client has. docs/performance.md explains the figures.
//
//	go run -C lab/stores .                  every engine, about six minutes
//	go run -C lab/stores . -only etcd,nats  two engines
//
// It starts its own servers, which wait for the disk, and ends them. It prints Markdown
// tables at the end.
//
// # Exit status
//
//	0    measured
//	2    nothing is known: bad flags, no server, an operation that failed
//	130  interrupted (128 and the signal's number); no server is left
//
// The files, in reading order: main.go, figures.go, locks.go, servers.go.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/fencepost/fencepost/internal/cli"
	"github.com/fencepost/fencepost/internal/test/slowlink"
)

// engine is a store, and the ways to lock on it: the issuer's, and then its client's own.
type engine struct {
	name  string
	start func(e *env) server
	sides []side
}

type side struct {
	name string
	open func(p *process) locker
}

var engines = []engine{
	{"etcd", startEtcd, []side{{"`etcdtoken`", issued(etcd)}, {"`concurrency.Mutex`", mutex}}},
	{"nats", startNATS, []side{{"`natstoken`", issued(nats)}}},
	{"zookeeper", startZooKeeper, []side{{"`zktoken`", issued(zooKeeper)}, {"`zk.Lock`", znodes}}},
	{"consul", startConsul, []side{{"`consultoken`", issued(consul)}, {"`api.Lock`", session}}},
	{"kubernetes", startKubernetes, []side{{"`k8stoken`", issued(kubernetes)}, {"`leaderelection`", elector}}},
}

func main() {
	slowlink.ServeIfAsked()
	only := flag.String("only", "etcd,nats,zookeeper,consul,kubernetes", "measure these `engines` alone, separated by commas")
	flag.Parse()
	ctx, stop := cli.UntilSignal(context.Background())
	err := fmt.Errorf("unknown argument %q", flag.Arg(0))
	if flag.NArg() == 0 {
		err = measure(ctx, strings.Split(*only, ","), os.Stdout)
	}
	stop()
	os.Exit(cli.Status("stores", err, os.Stderr))
}

// measure prints the tables of the engines. When it returns, their servers have ended.
func measure(ctx context.Context, names []string, out io.Writer) error {
	var rows []row
	for _, name := range names {
		i := slices.IndexFunc(engines, func(e engine) bool { return e.name == name })
		if i < 0 {
			return fmt.Errorf("no engine %q", name)
		}
		of, err := engines[i].measure(ctx)
		if cause := context.Cause(ctx); cause != nil {
			return cause // an error follows from it
		}
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		rows = append(rows, of...)
	}
	return printTables(out, rows)
}
