package main

import (
	"encoding/json"
	"os"
	"os/signal"
	"syscall"
	"time"
)

type minderCmd struct{}

// Run is called by kong, in the second process.
func (minderCmd) Run(std streams) error {
	signal.Ignore(os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	orders := make(chan minded)
	go func() {
		defer close(orders)
		for dec := json.NewDecoder(std.in); ; {
			var order minded
			if dec.Decode(&order) != nil {
				return
			}
			orders <- order
		}
	}()
	return killGroup(overdue(orders))
}

// overdue returns the group that is to be killed, when it is.
func overdue(orders <-chan minded) (group int) {
	var end <-chan time.Time
	for {
		select {
		case order, more := <-orders:
			if !more {
				return group
			}
			group, end = order.Group, time.After(order.Left)
		case <-end:
			return group
		}
	}
}
