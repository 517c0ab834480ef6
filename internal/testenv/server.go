package testenv

import "os"

// Server is a server for a program that is no test.
type Server struct {
	// URL is that of a superuser, where there are users. It needs no password.
	URL string

	alive *os.File
}

// StartPostgres starts a binary of this machine, in a folder of its own, with
// PostgreSQL's own settings but for those given ("fsync=on"). The server and its
// folder are gone soon after Stop, or the end of this process, however it ends.
func StartPostgres(settings ...string) (*Server, error) {
	p, err := postgresProgram(settings...)
	return startServer(p, err, postgresURL)
}

// StartRedis is StartPostgres for a Redis that keeps nothing on disk.
func StartRedis() (*Server, error) {
	p, err := redisProgram()
	return startServer(p, err, redisURL)
}

func startServer(p program, err error, url func(port int) string) (*Server, error) {
	if err != nil {
		return nil, err
	}
	port, alive, err := p.start()
	if err != nil {
		return nil, err
	}
	return &Server{URL: url(port), alive: alive}, nil
}

// Stop ends the server. It is called once.
func (s *Server) Stop() error { return s.alive.Close() }
