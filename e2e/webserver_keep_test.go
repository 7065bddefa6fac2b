//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// contents are the ways to provide a content that has a page and an asset whose name
// contains the version: the fields of the spec, after what they refer to was created.
var contents = map[string]func(t *testing.T, ns, version string) string{
	"files": func(_ *testing.T, _, v string) string {
		return fmt.Sprintf(`files: {index.html: "<script src=/app.%[1]s.js>", app.%[1]s.js: "// %[1]s"}`, v)
	},
	"configmap": func(t *testing.T, ns, v string) string {
		t.Helper()
		if err := apply(t, fmt.Sprintf("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: pages, namespace: %[1]s}\ndata: {index.html: '<script src=/app.%[2]s.js>', app.%[2]s.js: '// %[2]s'}\n", ns, v)); err != nil {
			t.Fatal(err)
		}
		return `configMapRef: {name: pages}`
	},
	// The images have no page: the server lists their files.
	"image": func(_ *testing.T, _, v string) string { return fmt.Sprintf(`image: {reference: "site:%s"}`, v) },
}

// TestCampaignAssets loads pages and their assets while the content changes, together with
// the image of nginx and back to an earlier content, and from tabs that were opened up to
// two contents ago. The same without keep shows how long a rollout takes.
func TestCampaignAssets(t *testing.T) {
	campaign(t, "campaign-assets")
	for name, content := range contents {
		t.Run(name, func(t *testing.T) {
			if name == "image" {
				loadSites(t, "v1", "v2", "v3", "v4")
			}
			plain := loadPages(t, content, "", 0)
			kept := loadPages(t, content, ", keep: {revisions: 2, paths: [/app.]}", 10_000)
			t.Logf("rollouts took %s without keep, and %s with it", plain.took, kept.took)
			t.Logf("without keep, of %d page loads %d had no asset; with it, of %d %d, and %d in earlier tabs; other errors: %d and %d",
				plain.loads.Load(), plain.missing.Load(), kept.loads.Load(), kept.missing.Load(), kept.tabs.Load(), plain.failed.Load(), kept.failed.Load())
			if n := kept.missing.Load() + kept.tabs.Load(); n > 0 {
				t.Errorf("%d assets are missing", n)
			}
		})
	}
}

// loadSites makes images available that contain one file, app.<version>.js.
func loadSites(t *testing.T, versions ...string) {
	t.Helper()
	dir := t.TempDir()
	source := filepath.Join(dir, "main.go")
	if err := os.WriteFile(source, []byte("package main\n\nfunc main() {}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, v := range versions {
		file := filepath.Join(dir, "app."+v+".js")
		if _, err := run(t.Context(), "", "env", "CGO_ENABLED=0", "go", "build", "-ldflags=-s -w", "-o", file, source); err != nil {
			t.Fatal(err)
		}
		if _, err := run(t.Context(), "", "../bin/cluster", "load", "site:"+v, "--binary", file); err != nil {
			t.Fatal(err)
		}
	}
}

// pageLoads counts page loads, and what failed.
type pageLoads struct {
	t                            *testing.T
	took                         time.Duration // the slowest rollout
	loads, missing, tabs, failed atomic.Int64
	// opened is the number of contents that have been rolled out, and tab the last one
	// that an open tab may be of.
	mu     sync.Mutex
	opened []string
}

func loadPages(t *testing.T, content func(t *testing.T, ns, version string) string, keep string, least int64) *pageLoads {
	t.Helper()
	ns, p := namespace(t), &pageLoads{t: t}
	set := func(image, version string) time.Duration {
		t.Helper()
		spec := content(t, ns, version)
		since := time.Now()
		if err := apply(t, webServer(ns, "web", fmt.Sprintf(`{image: "%s", replicas: 3, service: {type: NodePort}, rollout: {maxSurge: 1, maxUnavailable: 0},
  config: {inline: "location = / { autoindex on; }"}, content: {%s%s}}`, image, spec, keep))); err != nil {
			t.Fatal(err)
		}
		for row := 0; row < 20; { // ConfigMaps do not change the generation
			if body, err := page(t.Context(), webURL(t, ns, "http", "nodePort")); err == nil && strings.Contains(body, "app."+version+".js") {
				row++
				continue
			}
			row = 0
			if time.Since(since) > patience {
				t.Fatalf("%s does not serve", version)
			}
			time.Sleep(200 * time.Millisecond)
		}
		webReady(t, ns)
		took := time.Since(since)
		p.mu.Lock()
		p.opened = append(p.opened, version)
		p.mu.Unlock()
		return took
	}
	set("nginx:1.27.4", "v1")
	url := webURL(t, ns, "http", "nodePort")
	ctx, stop := context.WithCancel(t.Context())
	var visitors sync.WaitGroup
	for i := range 8 {
		visitors.Go(func() { p.visit(ctx, url, i%2 == 0) })
	}
	for _, change := range [][2]string{{"nginx:1.27.4", "v2"}, {"nginx:1.23.1", "v3"}, {"nginx:1.23.1", "v2"}, {"nginx:1.27.4", "v4"}} {
		time.Sleep(2 * time.Second)
		p.took = max(p.took, set(change[0], change[1]))
	}
	for p.loads.Load() < least {
		time.Sleep(100 * time.Millisecond)
	}
	stop()
	visitors.Wait()
	return p
}

var asset = regexp.MustCompile(`app\.v[0-9]+\.js`)

// visit loads pages, each with its asset and that of a tab that was opened earlier.
func (p *pageLoads) visit(ctx context.Context, url string, keepAlive bool) {
	client := &http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{DisableKeepAlives: !keepAlive}}
	defer client.CloseIdleConnections()
	ask := func(method, path string, missing *atomic.Int64) string {
		req, err := http.NewRequestWithContext(ctx, method, url+path, nil)
		if err != nil {
			p.failed.Add(1)
			return ""
		}
		res, err := client.Do(req)
		if err != nil {
			if ctx.Err() == nil && p.failed.Add(1) < 4 {
				p.t.Logf("%s %s: %v", time.Now().UTC().Format(time.TimeOnly), path, err)
			}
			return ""
		}
		defer func() { _ = res.Body.Close() }()
		body, err := io.ReadAll(res.Body)
		switch {
		case ctx.Err() != nil:
			return ""
		case res.StatusCode == http.StatusNotFound:
			if missing.Add(1) < 4 {
				p.t.Logf("%s %s: 404", time.Now().UTC().Format(time.TimeOnly), path)
			}
		case err != nil || res.StatusCode != http.StatusOK:
			p.failed.Add(1)
		}
		return string(body)
	}
	for ctx.Err() == nil {
		name := asset.FindString(ask(http.MethodGet, "/", &p.failed))
		if ctx.Err() != nil {
			return
		}
		p.loads.Add(1)
		if name == "" {
			p.failed.Add(1)
			continue
		}
		ask(http.MethodHead, "/"+name, &p.missing)
		p.mu.Lock()
		tab := p.opened[max(len(p.opened)-2, 0)] // while the next content is rolled out, two ago
		p.mu.Unlock()
		ask(http.MethodHead, "/app."+tab+".js", &p.tabs)
		time.Sleep(20 * time.Millisecond)
	}
}
