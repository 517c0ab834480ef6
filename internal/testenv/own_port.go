package testenv

import (
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"strconv"
)

// The ports of servers that start twice lie below those that the kernel gives to
// whoever connects: another's connection must not have it while the server is
// dead. A node of a Redis Cluster has the ten thousandth after it as well.
const (
	firstPort = 10_000
	lastPort  = 20_000
	busPort   = 10_000
)

// ownPort is one that no other test has, as long as reserved is open: that is
// the UDP port of the same number, which ends with this process.
func ownPort() (port int, reserved io.Closer, err error) {
	for range 1000 {
		port := firstPort + rand.IntN(lastPort-firstPort)
		reserved, err := net.ListenPacket("udp", loopback(port))
		if err != nil {
			continue
		}
		if isFree(port) && isFree(port+busPort) {
			return port, reserved, nil
		}
		if err := reserved.Close(); err != nil {
			return 0, nil, err
		}
	}
	return 0, nil, errors.New("no port is free")
}

func isFree(port int) bool {
	l, err := net.Listen("tcp", loopback(port))
	return err == nil && l.Close() == nil
}

func loopback(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }
