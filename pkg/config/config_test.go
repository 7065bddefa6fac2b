package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
)

func TestLoad(t *testing.T) {
	for name, tc := range map[string]struct {
		file string
		want func(*Platform)
	}{
		"empty":         {"", func(*Platform) {}},
		"only comments": {"# nothing is decided here\n", func(*Platform) {}},
		"version alone": {"apiVersion: platform-operator.io/config/v1\n", func(*Platform) {}},
		"one field keeps the others": {
			"webServer: {nodePort: 31000}\n", func(p *Platform) { p.WebServer.NodePort = 31000 },
		},
		"zero leaves the choice to Kubernetes": {
			"webServer: {nodePort: 0}\n", func(p *Platform) { p.WebServer.NodePort = 0 },
		},
		"everything": {
			"apiVersion: platform-operator.io/config/v1\nnodePortRange: {from: 20000, to: 20010}\nwebServer: {serviceType: ClusterIP, nodePort: 20010}\n",
			func(p *Platform) {
				p.NodePortRange = PortRange{From: 20000, To: 20010}
				p.WebServer = WebServer{ServiceType: corev1.ServiceTypeClusterIP, NodePort: 20010}
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := Load(write(t, tc.file))
			if err != nil {
				t.Fatal(err)
			}
			want := Default()
			tc.want(&want)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestLoadWithoutFileGivesTheDefaults(t *testing.T) {
	got, err := Load("")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(Default(), got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if err := got.Validate(); err != nil {
		t.Errorf("the defaults are not valid: %v", err)
	}
}

func TestLoadRefuses(t *testing.T) {
	for name, tc := range map[string]struct {
		file string
		want []string // all of it in the error
	}{
		"unknown field":            {"webServer: {nodeport2: 1}\n", []string{"nodeport2"}},
		"unknown field at the top": {"webserverz: {}\n", []string{"webserverz"}},
		"field twice":              {"apiVersion: a\napiVersion: b\n", []string{"apiVersion"}},
		"wrong type":               {"webServer: {nodePort: thirty}\n", []string{"nodePort"}},
		"no YAML":                  {"a: [\n", []string{"platform.yaml"}},
		"another version":          {"apiVersion: platform-operator.io/config/v9\n", []string{"v9", Version}},
		"range from 0":             {"nodePortRange: {from: 0, to: 10}\n", []string{"nodePortRange", "0-10"}},
		"range too high":           {"nodePortRange: {from: 30000, to: 65536}\n", []string{"nodePortRange", "65536"}},
		"range backwards":          {"nodePortRange: {from: 32767, to: 30000}\n", []string{"nodePortRange", "from first"}},
		"service type":             {"webServer: {serviceType: ExternalName}\n", []string{"webServer.serviceType", "ExternalName", "LoadBalancer"}},
		"empty service type":       {"webServer: {serviceType: ''}\n", []string{"webServer.serviceType"}},
		"node port below":          {"webServer: {nodePort: 29999}\n", []string{"webServer.nodePort", "29999", "30000-32767"}},
		"node port above":          {"webServer: {nodePort: 32768}\n", []string{"webServer.nodePort", "32768"}},
		"default node port out of another range": {
			"nodePortRange: {from: 20000, to: 20010}\n", []string{"webServer.nodePort", "30010", "20000-20010"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			path := write(t, tc.file)
			_, err := Load(path)
			if err == nil {
				t.Fatal("it was accepted")
			}
			for _, w := range append(tc.want, path) {
				if !strings.Contains(err.Error(), w) {
					t.Errorf("error %q does not name %q", err, w)
				}
			}
		})
	}
}

func TestLoadNamesTheMissingFile(t *testing.T) {
	if _, err := Load("/nowhere/platform.yaml"); err == nil || !strings.Contains(err.Error(), "/nowhere/platform.yaml") {
		t.Errorf("got %v, want the path in it", err)
	}
}

func TestZeroPlatformIsNotValid(t *testing.T) {
	if err := (Platform{}).Validate(); err == nil {
		t.Error("it is accepted: a Platform made without Default would go unnoticed")
	}
}

func TestPortRangeHoldsBothEnds(t *testing.T) {
	r := PortRange{From: 10, To: 12}
	for port, want := range map[int32]bool{9: false, 10: true, 11: true, 12: true, 13: false} {
		if got := r.Contains(port); got != want {
			t.Errorf("%d: got %v, want %v", port, got, want)
		}
	}
}

func write(t *testing.T, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "platform.yaml")
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
