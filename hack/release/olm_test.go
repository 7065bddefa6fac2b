package main

import (
	"flag"
	"os"
	"path/filepath"
	"testing"
)

var update = flag.Bool("update", false, "write testdata")

func TestOLM_Golden(t *testing.T) {
	dist := write(t)
	for _, name := range []string{"manifests/platform-operator.clusterserviceversion.yaml", "rbac.yaml", "metadata/annotations.yaml", "manifests/webservers.my.domain.yaml"} {
		got := read(t, dist, "olm", name)
		golden := filepath.Join("testdata", filepath.Base(name))
		if *update {
			if err := os.WriteFile(golden, []byte(got), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if want := read(t, golden); got != want {
			t.Errorf("%s differs from %s; go test -update writes it:\n%s", name, golden, got)
		}
	}
}
