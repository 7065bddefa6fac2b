package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func env(m map[string]string) func(string) string {
	return func(key string) string { return m[key] }
}

func TestLoadConfig(t *testing.T) {
	tests := []struct {
		name      string
		env       map[string]string
		wantState string
		wantNetns string
		wantErr   string
	}{
		{
			name:      "defaults",
			env:       map[string]string{"HOME": "/root"},
			wantState: "/var/lib/platform-operator-cluster", wantNetns: "pop-node1",
		},
		{
			name:      "a second cluster",
			env:       map[string]string{"HOME": "/root", "CLUSTER_NAME": "two"},
			wantState: "/var/lib/platform-operator-cluster-two", wantNetns: "pop-two-node1",
		},
		{
			name:      "another state folder",
			env:       map[string]string{"HOME": "/root", "CLUSTER_STATE": "/srv/c/"},
			wantState: "/srv/c", wantNetns: "pop-node1",
		},
		{name: "a name that is no name", env: map[string]string{"HOME": "/root", "CLUSTER_NAME": "../x"}, wantErr: "CLUSTER_NAME"},
		{name: "a relative state folder", env: map[string]string{"HOME": "/root", "CLUSTER_STATE": "x"}, wantErr: "absolute"},
		{
			name: "a state folder too deep for sockets",
			env:  map[string]string{"HOME": "/root", "CLUSTER_STATE": "/" + strings.Repeat("x", 100)}, wantErr: "too long",
		},
		{name: "nowhere to cache", env: map[string]string{}, wantErr: "HOME"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c, err := loadConfig(env(tt.env))
			if tt.wantErr != "" {
				if err == nil || !strings.Contains(err.Error(), tt.wantErr) {
					t.Fatalf("error = %v, want one about %q", err, tt.wantErr)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if c.StateDir != tt.wantState || c.nodeNetns(1) != tt.wantNetns {
				t.Errorf("state %s, netns %s; want %s, %s", c.StateDir, c.nodeNetns(1), tt.wantState, tt.wantNetns)
			}
		})
	}
}

func TestParseNode(t *testing.T) {
	for in, want := range map[string]int{"node1": 1, "node8": 8, "node0": 0, "node9": 0, "node1x": 0, "node01": 0, "etcd": 0, "": 0} {
		if got, ok := parseNode(in); got != want || ok != (want != 0) {
			t.Errorf("parseNode(%q) = %d, %v; want %d", in, got, ok, want)
		}
	}
}

func TestExecEnv(t *testing.T) {
	c := config{CacheDir: "/cache", StateDir: "/state"}
	got := execEnv(c, []string{"PATH=/usr/bin", "KUBECONFIG=/theirs", "HOME=/root", "no_proxy=example.com"})
	for _, want := range []string{"PATH=/cache/bin:/usr/bin", "KUBECONFIG=/state/kubeconfig", "HOME=/root"} {
		if !slices.Contains(got, want) {
			t.Errorf("%q is missing from %q", want, got)
		}
	}
	if slices.Contains(got, "KUBECONFIG=/theirs") {
		t.Errorf("the caller's KUBECONFIG is still in %q", got)
	}
	if !slices.ContainsFunc(got, func(kv string) bool { return strings.HasPrefix(kv, "no_proxy=example.com,") }) {
		t.Errorf("the caller's proxy exceptions are not kept in %q", got)
	}
}

func TestCurrentContext(t *testing.T) {
	for name, content := range map[string]string{
		"yaml": "apiVersion: v1\ncurrent-context: kind-dev\nkind: Config\n",
		"json": `{"apiVersion": "v1", "current-context": "kind-dev", "kind": "Config"}`,
	} {
		// In JSON the key need not start a line; one line per key is what
		// kubectl writes.
		content = strings.ReplaceAll(content, ", ", ",\n")
		path := filepath.Join(t.TempDir(), "config")
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := currentContext(env(map[string]string{"KUBECONFIG": path})); got != "kind-dev" {
			t.Errorf("%s: context %q, want kind-dev", name, got)
		}
	}
	if got := currentContext(env(map[string]string{"HOME": t.TempDir()})); got != "(none)" {
		t.Errorf("without a kubeconfig: %q", got)
	}
}

func TestGrow(t *testing.T) {
	running := spec{Nodes: 2, CacheDir: "/c"}
	tests := []struct {
		name    string
		wanted  spec
		given   bool
		want    int
		wantErr string
	}{
		{name: "plain up leaves it alone", wanted: spec{Nodes: 1, CacheDir: "/c"}, want: 2},
		{name: "same number", wanted: spec{Nodes: 2, CacheDir: "/c"}, given: true, want: 2},
		{name: "more", wanted: spec{Nodes: 3, CacheDir: "/c"}, given: true, want: 3},
		{name: "fewer", wanted: spec{Nodes: 1, CacheDir: "/c"}, given: true, wantErr: "cluster down"},
		{name: "without pods", wanted: spec{Nodes: 1, ControlPlaneOnly: true, CacheDir: "/c"}, wantErr: "--control-plane-only"},
		{name: "fast failover", wanted: spec{Nodes: 1, FastFailover: true, CacheDir: "/c"}, wantErr: "--fast-failover"},
		{name: "other versions", wanted: spec{Nodes: 1, CacheDir: "/d"}, wantErr: "versions"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := grow(running, tt.wanted, tt.given)
			if tt.wantErr != "" {
				if err == nil || !strings.Contains(err.Error(), tt.wantErr) {
					t.Fatalf("error = %v, want one about %q", err, tt.wantErr)
				}
				return
			}
			if err != nil || got.Nodes != tt.want {
				t.Errorf("grow = %d nodes, %v; want %d", got.Nodes, err, tt.want)
			}
		})
	}
}
