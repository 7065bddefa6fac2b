//go:build e2e

package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/platform-operator/platform-operator/e2e/load"
)

// TestCampaignSharedConfigMap checks that an error in a ConfigMap that many WebServers
// use reaches only as many of them as may be rolled out at once, that no request fails,
// and that correcting the ConfigMap is sufficient. Its pods would slow down all other
// tests, so it is a part of make campaign-shared.
func TestCampaignSharedConfigMap(t *testing.T) {
	campaign(t, "campaign-shared")
	const (
		limit   = 10 // sharedRollouts of the platform configuration
		objects = limit + 3
		rate    = 4 // requests per second and object
		longest = 5 * time.Minute
	)
	ns := namespace(t)
	configure := func(text string) {
		t.Helper()
		err := apply(t, fmt.Sprintf("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: shared, namespace: %s}\ndata: {server.conf: %q}\n", ns, text))
		if err != nil {
			t.Fatal(err)
		}
	}
	configure("location = /hello { return 200 one; }")
	var all strings.Builder
	for i := range objects {
		fmt.Fprintf(&all, "%s---\n", webServer(ns, fmt.Sprintf("web%d", i), `{image: "nginx:1.27.4", replicas: 1, service: {type: ClusterIP}, config: {configMapRef: {name: shared}}}`))
	}
	if err := apply(t, all.String()); err != nil {
		t.Fatal(err)
	}
	reasons := func() map[string]int {
		t.Helper()
		count := map[string]int{}
		for r := range strings.FieldsSeq(kubectl(t, "-n", ns, "get", "webservers", "-o", `jsonpath={range .items[*]}{.status.conditions[?(@.type=="Ready")].reason}{"\n"}{end}`)) {
			count[r]++
		}
		return count
	}
	allReady := func() error {
		ready := kubectl(t, "-n", ns, "get", "webservers", "-o", `jsonpath={range .items[*]}{.status.conditions[?(@.type=="Ready")].status}{"\n"}{end}`)
		if n := strings.Count(ready, "True"); n != objects {
			return fmt.Errorf("%d of %d are Ready: %v", n, objects, reasons())
		}
		return nil
	}
	eventually(t, "all WebServers to be Ready", allReady)

	var loads []*load.Load
	var urls []string
	for ip := range strings.FieldsSeq(kubectl(t, "-n", ns, "get", "services", "-o", `jsonpath={range .items[*]}{.spec.clusterIP}{"\n"}{end}`)) {
		urls = append(urls, "http://"+ip+"/hello")
	}
	for _, url := range urls {
		pageHas(t, url, "one") // kube-proxy has the endpoints some time after the WebServer is Ready
		l, err := load.Start(t.Context(), load.Config{URL: url, Rate: rate, Most: rate * int(longest/time.Second), Clients: 2, Limit: sliceDose.limit})
		if err != nil {
			t.Fatal(err)
		}
		loads = append(loads, l)
	}
	if len(loads) != objects {
		t.Fatalf("there are %d Services, want %d", len(loads), objects)
	}

	configure("location = /hello { retrun 200 two; }")
	eventually(t, "the rollouts to be held", func() error {
		if got := reasons(); got["RolledBack"] != limit || got["RolloutHeld"] != objects-limit {
			return fmt.Errorf("reasons of Ready: %v, want %d RolledBack and %d RolloutHeld", got, limit, objects-limit)
		}
		return nil
	})
	for _, url := range urls {
		pageHas(t, url, "one")
	}
	configure("location = /hello { return 200 three; }")
	eventually(t, "all WebServers to be Ready after the correction", allReady)
	for _, url := range urls {
		pageHas(t, url, "three")
	}

	requests := 0
	for i, l := range loads {
		l.End()
		r := l.Wait()
		requests += r.Requests
		if r.Failed() > 0 {
			t.Errorf("%s: %s", urls[i], r)
		}
	}
	t.Logf("%d requests to %d WebServers, of which %d were rolled out with the error", requests, objects, limit)
}
