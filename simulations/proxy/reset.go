package proxy

import "net"

// gone ends the link because somebody has left it: the other is told by a reset.
// What goes to an end that was cut off goes nowhere, and nobody is told.
func (l *link) gone() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.halved == 0 {
		l.reset()
	}
}

func (l *link) cutOff(way Way) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.halved |= way; l.halved == Both || l.server == nil {
		l.reset()
		return
	}
	if way == ToClient {
		drop(l.client)
	} else {
		drop(l.server)
	}
}

func (l *link) mend(way Way) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.halved&way != 0 {
		l.reset()
	}
}

// close says goodbye: what was written last still arrives.
func (l *link) close() {
	l.end()
	_ = l.client.Close() // an error says that it is closed already
	if l.server != nil {
		_ = l.server.Close()
	}
}

func (l *link) reset() {
	l.end()
	drop(l.client)
	if l.server != nil {
		drop(l.server)
	}
}

// drop makes the kernel send a reset instead of a FIN.
func drop(conn *net.TCPConn) {
	_ = conn.SetLinger(0) // an error says that it is closed already
	_ = conn.Close()
}
