//go:build e2e

package e2e

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
)

// TestWebServer_ReportsABlockedDeletion checks that an object whose children cannot be
// released reports that in an event, increments the count of the event, and is
// deleted once they can be released.
func TestWebServer_ReportsABlockedDeletion(t *testing.T) {
	t.Parallel()
	ns := namespace(t)
	if err := apply(t, webServer(ns, "web", `{image: "nginx:1.27.4", replicas: 1, deletionPolicy: Orphan, service: {type: ClusterIP}}`)); err != nil {
		t.Fatal(err)
	}
	awaitReady(t, ns, "webserver/web")
	kubectl(t, "-n", ns, "label", "deployment", "web", "example.com/hold=yes")
	policy := life(t, "hold", ns)
	free := func() error {
		_, err := run(context.WithoutCancel(t.Context()), policy, "kubectl", "delete", "--ignore-not-found", "-f", "-")
		return err
	}
	t.Cleanup(func() {
		if err := free(); err != nil {
			t.Error(err)
		}
	})
	if err := apply(t, policy); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the policy to hold", func() error {
		if _, err := run(t.Context(), "", "kubectl", "-n", ns, "label", "--overwrite", "deployment", "web", fmt.Sprintf("example.com/try=%d", time.Now().UnixNano())); err == nil {
			return errors.New("it lets a change pass")
		}
		return nil
	})

	kubectl(t, "-n", ns, "delete", "webserver", "web", "--wait=false")
	eventually(t, "the same event twice", func() error {
		// A change of a child triggers a reconcile, and revisions are not released.
		kubectl(t, "-n", ns, "label", "--overwrite", "controllerrevisions", "--all", fmt.Sprintf("example.com/try=%d", time.Now().UnixNano()))
		out := kubectl(t, "-n", ns, "get", "events.events.k8s.io", "-o", `jsonpath={range .items[*]}{.series.count} {.note}{"\n"}{end}`)
		for line := range strings.Lines(out) {
			if count, note, _ := strings.Cut(line, " "); count != "" && strings.Contains(note, "cannot be deleted yet") && strings.Contains(note, "it is held") {
				return nil
			}
		}
		return fmt.Errorf("events: %s", out)
	})
	if err := free(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the object to go", func() error {
		// The object may already be deleted.
		_, _ = run(t.Context(), "", "kubectl", "-n", ns, "label", "--overwrite", "webserver", "web", fmt.Sprintf("example.com/try=%d", time.Now().UnixNano()))
		out, err := run(t.Context(), "", "kubectl", "-n", ns, "get", "webserver", "web", "--ignore-not-found", "-o", "name")
		if err == nil && out != "" {
			err = errors.New("it is there")
		}
		return err
	})
	kubectl(t, "-n", ns, "get", "deployment", "web")
}
