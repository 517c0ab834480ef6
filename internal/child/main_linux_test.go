package child_test

import "errors"

func playHere(role string) error {
	switch role {
	case "tgkill", "kill":
		return stopping(role)
	case "ticks":
		return tick()
	}
	return errors.New("no such role")
}
