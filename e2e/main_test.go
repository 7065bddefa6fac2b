//go:build e2e

package e2e

import (
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

const (
	operatorNamespace = "platform-operator-system"
	operatorName      = "platform-operator"
	// patience is the time limit of every wait. A busy machine may need half a minute to
	// start a container, and some waits include several.
	patience = 4 * time.Minute
)

// The namespaces of the tests have this label.
const ours = "platform-operator.io/e2e=true"

// TestMain checks, after all tests, that each namespace can be deleted, that is,
// that no object of the operator prevents it.
//
// If all tests of make campaign-e2e have run and none failed, it also compares the
// operator's permissions with the requests that it has sent.
func TestMain(m *testing.M) {
	began := time.Now()
	code := m.Run()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if out, err := run(ctx, "", "kubectl", "wait", "--for=delete", "namespace", "-l", ours, "--timeout="+patience.String()); err != nil {
		fmt.Fprintf(os.Stderr, "FAIL: a namespace does not go: %v %s\n", err, out)
		code = 1
	}
	if code == 0 && wholeSuite() && local() {
		table, err := comparePermissions(ctx, began)
		fmt.Println(table)
		if err != nil {
			fmt.Fprintln(os.Stderr, "FAIL: the operator's permissions:", err)
			code = 1
		}
	}
	os.Exit(code) //nolint:gocritic // there is nothing left to defer
}

// campaign skips a test that is not a part of make test, and says what runs it. CAMPAIGN is
// 1 if the tests to run are selected by name, or the part of the target after the dash.
func campaign(t *testing.T, target string) {
	t.Helper()
	if c := os.Getenv("CAMPAIGN"); c != "1" && "campaign-"+c != target {
		t.Skip("run make " + target)
	}
}

// local reports whether the cluster is the one of bin/cluster, with its audit log.
func local() bool { return os.Getenv("CLUSTER") != "current" }

// run runs a command and returns its output.
func run(ctx context.Context, stdin, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Stdin = strings.NewReader(stdin)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		return out.String(), fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, strings.TrimSpace(errs.String()))
	}
	return out.String(), nil
}

// helm runs the Helm that has installed the operator. It is in PATH only in the local
// cluster.
func helm(ctx context.Context, stdin string, args ...string) (string, error) {
	path, err := run(ctx, "", "../bin/cluster", "tool", "helm")
	if err != nil {
		return "", err
	}
	return run(ctx, stdin, strings.TrimSpace(path), args...)
}

// kubectl runs kubectl like a user, and fails the test if it fails.
func kubectl(t *testing.T, args ...string) string {
	t.Helper()
	out, err := run(t.Context(), "", "kubectl", args...)
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(out)
}

// awaitReady waits until objects, such as webserver/web, are Ready for their latest
// generation.
func awaitReady(t *testing.T, ns string, objects ...string) {
	t.Helper()
	kubectl(t, append([]string{"-n", ns, "wait", "--for=condition=Ready", "--timeout=" + patience.String()}, objects...)...)
}

// apply applies YAML and returns the error of the API server.
func apply(t *testing.T, yaml string) error {
	t.Helper()
	_, err := run(t.Context(), yaml, "kubectl", "apply", "-f", "-")
	return err
}

// webServer returns a WebServer as YAML, with its spec in flow style.
func webServer(ns, name, spec string) string {
	return fmt.Sprintf("apiVersion: my.domain/v1\nkind: WebServer\nmetadata: {name: %s, namespace: %s}\nspec: %s\n", name, ns, spec)
}

// namespace creates a namespace for the test, and deletes it afterwards.
func namespace(t *testing.T) string {
	t.Helper()
	ns := strings.ToLower(strings.NewReplacer("/", "-", "_", "-").Replace(t.Name()))
	if len(ns) > 50 {
		ns = ns[:50]
	}
	ns += "-" + strings.ToLower(rand.Text()[:6]) // names that are cut may be the same
	kubectl(t, "create", "namespace", ns)
	kubectl(t, "label", "namespace", ns, ours)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if t.Failed() {
			for _, args := range [][]string{
				{"-n", ns, "get", "platform,deployments,services,pods,events", "-o", "wide"},
				{"-n", ns, "get", "platform", "-o", "yaml"},
				{"-n", operatorNamespace, "logs", "deployment/" + operatorName, "--tail=40"},
			} {
				out, err := run(ctx, "", "kubectl", args...)
				t.Logf("kubectl %s\n%s%v", strings.Join(args, " "), out, err)
			}
		}
		// TestMain checks once, after all tests, that it is really deleted.
		if _, err := run(ctx, "", "kubectl", "delete", "namespace", ns, "--wait=false", "--ignore-not-found"); err != nil {
			t.Errorf("the namespace cannot be deleted: %v", err)
		}
	})
	return ns
}

// eventually waits until ok returns nil, and otherwise fails with its last error.
func eventually(t *testing.T, what string, ok func() error) {
	t.Helper()
	if err := poll(t.Context(), what, ok); err != nil {
		t.Fatal(err)
	}
}

// poll waits until ok returns nil, and returns its last error if that takes too long. It
// is for goroutines that cannot end the test.
func poll(ctx context.Context, what string, ok func() error) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	pause := 100 * time.Millisecond
	for {
		err := ok()
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("waited %s in vain for %s: %w", patience, what, err)
		case <-time.After(pause):
		}
		// Each attempt may start a kubectl, which takes processor time from the pods
		// that are waited for.
		pause = min(pause*5/4, time.Second)
	}
}

// eventuallyPrints waits until kubectl prints exactly want.
func eventuallyPrints(t *testing.T, want string, args ...string) {
	t.Helper()
	eventually(t, fmt.Sprintf("kubectl %s to print %q", strings.Join(args, " "), want), func() error {
		out, err := run(t.Context(), "", "kubectl", args...)
		if err != nil {
			return err
		}
		if out = strings.TrimSpace(out); out != want {
			return fmt.Errorf("it prints %q", out)
		}
		return nil
	})
}

// nodeAddress returns an address at which node ports can be reached.
func nodeAddress(t *testing.T) string {
	t.Helper()
	return strings.Fields(kubectl(t, "get", "nodes", "-o", `jsonpath={.items[*].status.addresses[?(@.type=="InternalIP")].address}`))[0]
}

// page fetches a page.
func page(ctx context.Context, url string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return "", err
	}
	req.Close = true // each request may reach another pod
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return "", err
	}
	defer func() { _ = res.Body.Close() }()
	body, err := io.ReadAll(res.Body)
	if err == nil && res.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s answers %s", url, res.Status)
	}
	return string(body), err
}

// pageHas waits until a page contains a text.
func pageHas(t *testing.T, url, text string) {
	t.Helper()
	eventually(t, url+" to show "+text, func() error {
		body, err := page(t.Context(), url)
		if err != nil {
			return err
		}
		if !strings.Contains(body, text) {
			return fmt.Errorf("it shows %q", body)
		}
		return nil
	})
}
