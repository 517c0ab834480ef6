package testenv

import "os"

// Server is a PostgreSQL for a program that is no test.
type Server struct {
	// URL is that of a superuser who needs no password.
	URL string

	alive *os.File
}

// StartPostgres starts a binary of this machine, in a folder of its own, with
// PostgreSQL's own settings but for those given ("fsync=on"). The server and its
// folder are gone soon after Stop, or the end of this process, however it ends.
func StartPostgres(settings ...string) (*Server, error) {
	p, err := postgresProgram(settings...)
	if err != nil {
		return nil, err
	}
	port, alive, err := p.start()
	if err != nil {
		return nil, err
	}
	return &Server{URL: postgresURL(port), alive: alive}, nil
}

// Stop ends the server. It is called once.
func (s *Server) Stop() error { return s.alive.Close() }
