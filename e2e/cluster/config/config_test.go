package config

import (
	"strings"
	"testing"
)

func env(m map[string]string) func(string) string {
	return func(key string) string { return m[key] }
}

func TestLoad(t *testing.T) {
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
			c, err := Load(env(tt.env))
			if tt.wantErr != "" {
				if err == nil || !strings.Contains(err.Error(), tt.wantErr) {
					t.Fatalf("error = %v, want one about %q", err, tt.wantErr)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if c.StateDir != tt.wantState || c.NodeNetns(1) != tt.wantNetns {
				t.Errorf("state %s, netns %s; want %s, %s", c.StateDir, c.NodeNetns(1), tt.wantState, tt.wantNetns)
			}
		})
	}
}

func TestParseNode(t *testing.T) {
	for in, want := range map[string]int{"node1": 1, "node8": 8, "node0": 0, "node9": 0, "node1x": 0, "node01": 0, "etcd": 0, "": 0} {
		if got, ok := ParseNode(in); got != want || ok != (want != 0) {
			t.Errorf("parseNode(%q) = %d, %v; want %d", in, got, ok, want)
		}
	}
}
