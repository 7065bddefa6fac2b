package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/platform-operator/platform-operator/e2e/cluster/config"
	"github.com/platform-operator/platform-operator/e2e/cluster/control"
	"github.com/platform-operator/platform-operator/e2e/cluster/state"
)

// errNotAllUp makes `status` end with a failure; the table says what is wrong.
var errNotAllUp = errors.New("not everything is up")

// Status prints what runs where.
func Status(ctx context.Context, c config.Config, out io.Writer) error {
	s, err := state.Read(c)
	if err != nil {
		return err
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "NODE\tCOMPONENT\tSTATE\tSINCE\tRESTARTS\tNOTE")
	good := true
	for n := 1; n <= s.Nodes; n++ {
		states, err := control.NewClient(c, n).Status(ctx)
		if err != nil {
			good = false
			fmt.Fprintf(w, "%s\t-\tdown\t-\t-\tpower is off\n", config.NodeName(n))
			continue
		}
		for _, st := range states {
			age := "-"
			if !st.Since.IsZero() {
				age = time.Since(st.Since).Round(time.Second).String()
			}
			good = good && st.Healthy
			fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%d\t%s\n", config.NodeName(n), st.Name, stateWord(st), age, st.Restarts, st.Doing)
		}
	}
	if err := w.Flush(); err != nil {
		return err
	}
	if !good {
		return errNotAllUp
	}
	return nil
}

// stateWord returns the state of a component in one word.
func stateWord(st control.ProcessState) string {
	switch {
	case st.Healthy:
		return "up"
	case st.PID != 0:
		return "unhealthy"
	default:
		return "down"
	}
}
