package main

import (
	"path/filepath"
	"testing"
)

func TestOLM_Golden(t *testing.T) {
	dist := write(t)
	for _, name := range []string{"manifests/platform-operator.clusterserviceversion.yaml", "metadata/annotations.yaml", "manifests/webservers.my.domain.yaml", "catalog.yaml"} {
		got := read(t, dist, "olm", name)
		golden := filepath.Join("testdata", filepath.Base(name))
		if want := read(t, golden); got != want {
			t.Errorf("%s differs from %s:\n%s", name, golden, got)
		}
	}
}
