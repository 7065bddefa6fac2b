package lifecycle

import (
	"strings"
	"testing"

	"github.com/platform-operator/platform-operator/e2e/cluster/state"
)

func TestGrow_AddsDNSAndKeepsIt(t *testing.T) {
	for _, tt := range []struct{ running, wanted, want bool }{
		{running: false, wanted: false, want: false},
		{running: false, wanted: true, want: true},
		{running: true, wanted: false, want: true},
	} {
		got, err := grow(state.Spec{Nodes: 1, DNS: tt.running}, state.Spec{Nodes: 1, DNS: tt.wanted}, false)
		if err != nil || got.DNS != tt.want {
			t.Errorf("grow with DNS %v, wanted %v: got %v, %v", tt.running, tt.wanted, got.DNS, err)
		}
	}
}

func TestGrow_OnlyAddsNodes(t *testing.T) {
	running := state.Spec{Nodes: 2, CacheDir: "/c"}
	tests := []struct {
		name    string
		wanted  state.Spec
		given   bool
		want    int
		wantErr string
	}{
		{name: "plain up leaves it alone", wanted: state.Spec{Nodes: 1, CacheDir: "/c"}, want: 2},
		{name: "same number", wanted: state.Spec{Nodes: 2, CacheDir: "/c"}, given: true, want: 2},
		{name: "more", wanted: state.Spec{Nodes: 3, CacheDir: "/c"}, given: true, want: 3},
		{name: "fewer", wanted: state.Spec{Nodes: 1, CacheDir: "/c"}, given: true, wantErr: "cluster down"},
		{name: "without pods", wanted: state.Spec{Nodes: 1, ControlPlaneOnly: true, CacheDir: "/c"}, wantErr: "--control-plane-only"},
		{name: "other versions", wanted: state.Spec{Nodes: 1, CacheDir: "/d"}, wantErr: "versions"},
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
